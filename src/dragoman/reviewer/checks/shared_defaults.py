"""Mutable defaults that all calls of a function share: whether that has an effect."""

import ast
import re
from collections.abc import Iterator

from ..findings import Finding, Source

_KEPT = re.compile(r"(?i)^_|cache|memo")  # uses of a default that is meant to be shared
_CHANGING = {
    *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault", "popitem"),
    *("add", "discard", "difference_update", "intersection_update", "symmetric_difference_update"),
}


def is_only_read(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a function neither changes its shared default nor passes it on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            names = [name for name, default in _defaults(node.args) if default.lineno == finding.line]
            if names:
                return not any(_is_used_up(name, node) and not _KEPT.search(name) for name in names)
    return False


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    placed = [*arguments.posonlyargs, *arguments.args]
    with_default = placed[len(placed) - len(arguments.defaults) :]
    yield from ((one.arg, default) for one, default in zip(with_default, arguments.defaults, strict=True))
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            yield one.arg, default


def _is_used_up(name: str, function: ast.AST) -> bool:
    """Whether a function changes the object with this name, or gives it to code that may."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method)) if owner == name:
                if method in _CHANGING:
                    return True
            case ast.Subscript(value=ast.Name(id=owner), ctx=ast.Store() | ast.Del()) if owner == name:
                return True
            case ast.AugAssign(target=ast.Name(id=owner)) if owner == name:
                return True
            case ast.Assign() | ast.AnnAssign() | ast.Return() | ast.Yield() if _may_be(node.value, name):
                return True
    return False


def _may_be(value: ast.expr | None, name: str) -> bool:
    """Whether an expression can be the object with this name."""
    choices: list[ast.expr] = []
    match value:
        case ast.BoolOp():
            choices = value.values
        case ast.IfExp():
            choices = [value.body, value.orelse]
        case ast.Name():
            return value.id == name
    return any(_may_be(choice, name) for choice in choices)
