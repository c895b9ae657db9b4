"""Names that a linter reports as undefined: whether they may be defined when their line is reached."""

import ast
import re
from collections.abc import Iterator

from ..findings import Finding, Source

_GONE = re.compile(  # names of Python 2
    r"`(?:unicode|basestring|long|raw_input|xrange|unichr|cmp|file|reduce|buffer|execfile|reload|apply|intern)`"
)
_VERSION = re.compile(
    r"(?i)(?<![a-z])py(?:thon)?_?[23]|version_info|\bsix\b|hexversion|\b(?:unicode|bytes) is str\b"
)
_TYPE_IGNORE = re.compile(r"#\s*type:\s*ignore")
_NEWER = "requires-python"  # Ruff's advice for a name of a later Python
# defined by the program that runs the file
_GIVEN = ("_", "ngettext", "get_ipython", "display", "spark", "dbutils", "reveal_type")
# a part of a notebook
_IS_DOCUMENT = re.compile(r"(?:^|/)(?:docs?|doc-src|documentation)/(?:.*/)?(?!conf\.py$)[^/]+$")
_MAKES_NAMES = re.compile(
    r"\bglobals\(\)(?:\[|\.update|\.setdefault)|^\s*exec\(|\bbuiltins(?:__)?\.__dict__", re.MULTILINE
)
_SAID = re.compile(r"`([^`]+)`")
# Generic types: a string in their brackets names a type; in `Literal` and the like it is a value.
_OF_TYPES = {
    *("Optional", "Union", "List", "Dict", "Set", "FrozenSet", "Tuple", "Type", "Sequence", "MutableSequence"),
    *("Iterable", "Iterator", "Mapping", "MutableMapping", "Collection", "Callable", "Generator", "ClassVar"),
    *("AsyncIterator", "AsyncIterable", "Awaitable", "Coroutine", "Final", "Deque", "DefaultDict"),
    *("list", "dict", "set", "frozenset", "tuple", "type", "deque", "defaultdict"),
}


def is_bound_elsewhere(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a name is bound in a way that a linter does not see, exists where its line runs, or is not a name."""
    if source.path.endswith("__init__.py") and _is_submodule(finding, tree):
        return True
    if _NEWER in finding.message or _TYPE_IGNORE.search(line_of(source, finding.line)):
        return True
    if said_name(finding) in _GIVEN or _IS_DOCUMENT.search(source.path) or _MAKES_NAMES.search(source.text):
        return True
    if is_no_annotation(finding, source, tree) or _is_bound_later(
        finding, tree, is_stub=source.path.endswith(".pyi")
    ):
        return True
    return bool(_GONE.search(finding.message)) and finding.line in lines_of(_of_another_python(tree))


def is_no_annotation(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a string in brackets looks like a type but is a value: of `Literal`, or the shape of an array."""
    return finding.line in lines_of(_values(tree)) and not _is_plain_name(finding, source, tree)


def _values(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).rpartition(".")[2] not in _OF_TYPES:
            yield from (inner for inner in ast.walk(node.slice) if _is_string(inner))


def _is_string(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_plain_name(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether the name also occurs in its line as code."""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.lineno == finding.line)
    return any(f"`{node.id}`" in finding.message for node in names)


def _is_bound_later(finding: Finding, tree: ast.Module, *, is_stub: bool) -> bool:
    """Whether the function binds the name further down, so that in a loop it may be defined."""
    said = said_name(finding)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and is_stub and node.name == said:
            return True  # it may be declared before
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and finding.line in lines_of(iter([node])):
            names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
            if any(name.id == said and isinstance(name.ctx, ast.Store) for name in names):
                return True
    return False


def _is_submodule(finding: Finding, tree: ast.Module) -> bool:
    """Whether the name is a submodule of the package, which an import from it has bound."""
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return any(f"`{module.rpartition('.')[2]}`" in finding.message for module in modules)


def _of_another_python(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) if _VERSION.search(ast.unparse(test)):
                yield node
            case ast.FunctionDef(name="__unicode__"):
                yield node


def said_name(finding: Finding) -> str:
    """The first name that a message quotes."""
    found = _SAID.search(finding.message)
    return found[1] if found else ""


def line_of(source: Source, number: int) -> str:
    """A line of a file; empty if there is none."""
    lines = source.text.split("\n")
    return lines[number - 1] if 0 < number <= len(lines) else ""


def lines_of(nodes: Iterator[ast.AST]) -> set[int]:
    """The lines of statements and expressions."""
    return {
        line
        for node in nodes
        if isinstance(node, ast.stmt | ast.expr)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
