"""README.md as package indexes show it: they have none of the repository's files, so links to those are words."""

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # the tests call `for_an_index` alone
    MetadataHookInterface = object  # type: ignore[assignment,misc]

IMAGE = re.compile(r"^!\[[^]]*\]\((?!https?:)[^)]*\)\n\n?", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?:)[^)]*\)")


def for_an_index(readme: str) -> str:
    """A README without its relative images and links."""
    return LINK.sub(r"\1", IMAGE.sub("", readme))


class ReadmeHook(MetadataHookInterface):
    """Gives hatchling the text."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text)}
