"""What MkDocs cannot do by itself: references made from the code, and pages that live outside of docs/."""

import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from pygments.formatters import HtmlFormatter

sys.path.insert(0, str(Path(__file__).parent))
from command_line import command_line, settings
from protocol import later_methods, methods_of, updates

ROOT = Path(__file__).parents[2]
# Files of the repository that are pages of the site, too.
OUTSIDE = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
    "CHANGELOG.md": "project/changelog.md",
    "bench/RESULTS.md": "project/benchmarks.md",
    "README.md": "index.md",
    "LICENSE": "project/LICENSE.txt",
}
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
# A page says where a generated part goes: <!-- generated: NAME -->
GENERATED = {
    "agent methods": lambda: methods_of("agent"),
    "client methods": lambda: methods_of("client"),
    "later methods": later_methods,
    "updates": updates,
    "command line": command_line,
    "settings": settings,
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and examples that are kept outside of docs/."""
    files.append(File.generated(config, "code.css", content=HtmlFormatter().get_style_defs(".codehilite")))
    for source, target in OUTSIDE.items():
        if source != "README.md":
            files.append(File.generated(config, target, content=(ROOT / source).read_text(encoding="utf-8")))
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, f"{name}.txt", content=path.read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the generated parts, and make links between the repository's files links of the site."""
    at = page.file.src_uri
    source = next((path for path, target in OUTSIDE.items() if target == at and at != "index.md"), f"docs/{at}")

    def relinked(match: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(os.path.dirname(source), match[1]))
        return os.path.relpath(site_path(target), os.path.dirname(at) or ".")

    parts = re.split(r"<!-- generated: (.+) -->", LINK.sub(relinked, markdown))
    return "".join(GENERATED[part]() if number % 2 else part for number, part in enumerate(parts))


def site_path(path: str) -> str:
    """Where a file of the repository is on the site."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path == "examples":
        return "examples/echo_agent.py.txt"
    return f"{path}.txt" if path.startswith("examples/") else path.removeprefix("docs/")
