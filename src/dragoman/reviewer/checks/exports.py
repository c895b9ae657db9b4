"""Imports for other modules: a linter that sees only one file reports them as unused."""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from ..findings import Finding, Source
from .places import is_library
from .python import parsed

UNUSED = "F401"
_FROM = re.compile(r"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)", re.MULTILINE)
_TRIED = "find_spec"  # Ruff's advice for an import that tests availability
_NAMED = re.compile(r"`([\w.]+)`")


def unused_everywhere(findings: Sequence[Finding], sources: Mapping[str, Source]) -> list[Finding]:
    """The findings without imports that other files of the project use, or are meant to use, from there.

    `sources` are the project's Python files by their paths.
    """
    suspects = {finding.path for finding in findings if finding.code == UNUSED}
    if not suspects:
        return list(findings)
    taken = _taken(sources.values())
    bound = {path: _bound(sources[path]) for path in suspects if path in sources}
    return [
        finding
        for finding in findings
        if finding.code != UNUSED or not _is_export(finding, bound.get(finding.path), taken, sources)
    ]


def _is_export(
    finding: Finding,
    bound: Mapping[tuple[int, str], str] | None,
    taken: Mapping[str, set[str]],
    sources: Mapping[str, Source],
) -> bool:
    if bound is None or finding.path.endswith(("__init__.py", "conftest.py", ".pyi")) or _TRIED in finding.message:
        return True  # a package's names are for import; nothing is known about a file that cannot be parsed
    said = _NAMED.search(finding.message)
    imported = said[1].rpartition(".")[2] if said else ""
    name = bound.get((finding.line, imported), imported)
    module = finding.path.removesuffix(".py").rpartition("/")[2]
    if name in taken.get(module, ()) or "*" in taken.get(module, ()):
        return True
    if (
        said
        and _is_own(said[1], sources)
        and (is_library(finding.path) or _is_fixture(name, sources[finding.path]))
    ):
        return True  # others may import it from here, or need the side effects of importing its module
    use = re.compile(rf"\b{re.escape(module)}\.{re.escape(name)}\b")
    return any(use.search(source.text) for path, source in sources.items() if path != finding.path)


def _is_own(imported: str, sources: Mapping[str, Source]) -> bool:
    """Whether an import is one of the project's own modules."""
    top = imported.partition(".")[0]
    return not top or any(top == part.removesuffix(".py") for path in sources for part in path.split("/")[:3])


def _is_fixture(name: str, source: Source) -> bool:
    """Whether a test uses the import as a fixture, by the name of a parameter."""
    arguments = (node for node in ast.walk(parsed(source) or ast.Module([], [])) if isinstance(node, ast.arg))
    return any(argument.arg == name for argument in arguments)


def _taken(sources: Iterable[Source]) -> dict[str, set[str]]:
    """The names that are imported from modules, by the last part of the module's name."""
    found: dict[str, set[str]] = {}
    for source in sources:
        for module, names in _FROM.findall(source.text):
            words = {part.split()[0] for part in names.strip("() \t").replace("\n", " ").split(",") if part.split()}
            found.setdefault(module.rpartition(".")[2], set()).update(words)
    return found


def _bound(source: Source) -> Mapping[tuple[int, str], str] | None:
    """The name that each import binds, by line; None for a module that only collects names."""
    try:
        tree = parsed(source)
    except SyntaxError:
        return None
    if tree is None or all(map(_names_something, tree.body)):
        return None
    return {
        (alias.lineno, alias.name.rpartition(".")[2]): alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def _names_something(statement: ast.stmt) -> bool:
    """Whether a statement re-exports names, as in a module that only collects them; importing modules does not."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.ImportFrom | ast.Assign)
