"""Findings in Python that a rule cannot be certain of: what is meant there shows only in the code around them.

A project that chose its rules by itself is told all that they find.  Where the rules are ours, doubts are silent.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..findings import Finding, Source
from .places import is_test
from .python import parsed
from .shared_defaults import is_only_read

_GONE = re.compile(  # with Python 2
    r"`(?:unicode|basestring|long|raw_input|xrange|unichr|cmp|file|reduce|buffer|execfile|reload|apply|intern)`"
)
_VERSION = re.compile(
    r"(?i)(?<![a-z])py(?:thon)?_?[23]|version_info|\bsix\b|hexversion|\b(?:unicode|bytes) is str\b"
)
_TYPE_IGNORE = re.compile(r"#\s*type:\s*ignore")
_NEWER = "requires-python"  # what Ruff advises where a later Python has the name
_FOR_PYTHON_2 = re.compile(r"#![^\n]*\bpython2\b")
_PLAIN = re.compile(
    r"(?i)assert|(?:print|bool|str|repr|all|any|int|list)$"
)  # calls that see nothing but the answer
_EXCUSED = re.compile(r"#\s*(?:pylint:\s*disable|nosec)")  # by another linter
_HANDED_ON = re.compile(r"(?i)exc_info|reraise|format_exc|print_exc|handle_?error|exception$")
_FIRST = re.compile(r"from line (\d+)")
# Where a query has a value, not a name: only there a parameter can take its place.
_VALUE = re.compile(r"(?is)(?:[=<>]|\blike)[\s(]*[\"']*\s*(?:%[sdr(]|\{|\+|[\"']+\s*[+%])")


def certain(findings: Sequence[Finding], sources: Sequence[Source]) -> list[Finding]:
    """The findings without those that are in doubt."""
    by_path = {source.path: source for source in sources}
    trees: dict[str, ast.Module | None] = {}
    return [
        finding
        for finding in findings
        if not ((source := by_path.get(finding.path)) and _is_doubtful(finding, source, trees))
    ]


def _is_doubtful(finding: Finding, source: Source, trees: dict[str, ast.Module | None]) -> bool:
    if _FOR_PYTHON_2.match(source.text):
        return True
    if _EXCUSED.search(_line(source, finding)):
        return True
    if finding.code not in _DOUBTS:
        return False
    if source.path not in trees:
        trees[source.path] = _tree(source)
    tree = trees[source.path]
    return tree is not None and _DOUBTS[finding.code](finding, source, tree)


def _line(source: Source, finding: Finding) -> str:
    lines = source.text.split("\n")
    return lines[finding.line - 1] if finding.line <= len(lines) else ""


def _tree(source: Source) -> ast.Module | None:
    try:
        return parsed(source)
    except SyntaxError:
        return None


def _is_condition_of_a_query(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether `== None` is said to a library that overloads it: in a method's arguments, or joined by & and |."""
    return finding.line in _lines(_overloaded(tree))


def _overloaded(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not _PLAIN.match(_called(node)):
            yield from (child for child in node.args if _is_comparison(child))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
            yield from (child for child in (node.left, node.right) if _is_comparison(child))
        elif isinstance(node, ast.Subscript) and _is_comparison(node.slice):
            yield node.slice


def _called(call: ast.Call) -> str:
    """The last word of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_comparison(node: ast.AST) -> bool:
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Compare)


def _is_given_a_namespace(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether code is made and run on purpose: with a namespace of its own, or in a test."""
    if is_test(source.path):
        return True
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == finding.line]
    named = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec")]
    return bool(named) and all(len(node.args) + len(node.keywords) > 1 or _is_written_out(node) for node in named)


def _is_written_out(call: ast.Call) -> bool:
    """Whether the code that is run is there to be read."""
    given = call.args[0] if call.args else None
    if (
        isinstance(given, ast.Call)
        and isinstance(given.func, ast.Name)
        and given.func.id == "compile"
        and given.args
    ):
        given = given.args[0]
    return isinstance(given, ast.Constant)


def _is_for_another_python(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a name is looked up only where it exists, or a type checker was told not to mind."""
    if source.path.endswith("__init__.py") and _is_submodule(finding, tree):
        return True
    if _NEWER in finding.message or _TYPE_IGNORE.search(_line(source, finding)):
        return True
    return bool(_GONE.search(finding.message)) and finding.line in _lines(_guarded(source, tree))


def _is_submodule(finding: Finding, tree: ast.Module) -> bool:
    """Whether a package names a module of its own, which an import from it has bound."""
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return any(f"`{module.rpartition('.')[2]}`" in finding.message for module in modules)


def _guarded(source: Source, tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp) and _VERSION.search(ast.unparse(node.test)):
            yield node


def _is_registered(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether the definition that is repeated was handed to a decorator: then somebody has it."""
    first = _FIRST.search(finding.message)
    if first is None or int(first[1]) > finding.line:
        return first is not None  # what comes later is no first one
    return int(first[1]) in {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.decorator_list
    }


def _is_made_to_fail(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a comparison is made for the exception it raises, or in a test for none being raised."""
    return finding.line in _lines(_watched(tree)) or (
        is_test(source.path) and finding.line in _lines(_ordered(tree))
    )


def _ordered(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Compare(ops=signs)) if not any(
                isinstance(s, ast.Eq | ast.NotEq) for s in signs
            ):
                yield node


def _watched(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and not any(_expects(item.context_expr) for item in node.items):
            continue
        if isinstance(node, ast.With | ast.Try):
            yield from node.body


def _expects(context: ast.expr) -> bool:
    """Whether a context is one that waits for an exception or a warning."""
    return isinstance(context, ast.Call) and _called(context).lower().endswith(
        ("raises", "raisesregex", "warns", "suppress")
    )


def _is_name_in_a_query(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a query is put together of names alone, of tables and columns, which cannot be parameters."""
    if is_test(source.path):
        return True
    last = max(
        (
            node.end_lineno or node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.BinOp | ast.JoinedStr | ast.Call) and node.lineno == finding.line
        ),
        default=finding.line,
    )
    return not _VALUE.search("\n".join(source.text.split("\n")[finding.line - 1 : last]))


def _is_tried(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether imports are all that a function or block does, so that they are there for what they do, or tried."""
    return finding.line in _lines(_imports_alone(tree))


def _imports_alone(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            tried = [*node.body, *(one for handler in node.handlers for one in handler.body)]
            yield from filter(_is_import, tried)
        elif not isinstance(node, ast.Module) and isinstance(body := getattr(node, "body", None), list):
            said = [one for one in body if not isinstance(one, ast.Expr | ast.Pass)]
            yield from said if all(map(_is_import, said)) else ()


def _is_import(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom)


def _is_in_a_test(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether nobody from outside has a say in a command."""
    return is_test(source.path)


def _is_list(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a command for a shell is made of words, as is the custom on Windows."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == finding.line]
    given = {node.args[0].id for node in calls if node.args and isinstance(node.args[0], ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments) and node.vararg and node.vararg.arg in given:
            return True
        targets = node.targets if isinstance(node, ast.Assign) and isinstance(node.value, ast.List) else []
        if any(isinstance(target, ast.Name) and target.id in given for target in targets):
            return True
    return False


def _is_kept(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether what a bare `except` catches is handed on: then everything is meant."""
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    caught = [node for node in handlers if node.lineno == finding.line]
    names = (getattr(node, "attr", getattr(node, "id", "")) for one in caught for node in ast.walk(one))
    return any(_HANDED_ON.search(name) for name in names)


def _is_looked_up(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a function takes all of its variables by name."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    around = [node for node in functions if node.lineno <= finding.line <= (node.end_lineno or node.lineno)]
    calls = (call for node in around for call in ast.walk(node) if isinstance(call, ast.Call))
    return any(_called(call) in ("vars", "locals") and not call.args for call in calls)


def _is_of_no_concern(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether what a loop hides is a name for what nobody wants."""
    return "`_`" in finding.message


def _lines(nodes: Iterator[ast.AST]) -> set[int]:
    return {
        line
        for node in nodes
        if isinstance(node, ast.stmt | ast.expr)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


_DOUBTS: Mapping[str, Callable[[Finding, Source, ast.Module], bool]] = {
    "B015": _is_made_to_fail,
    "B006": is_only_read,
    "E711": _is_condition_of_a_query,
    "E712": _is_condition_of_a_query,
    "E722": _is_kept,
    "F401": _is_tried,
    "F402": _is_of_no_concern,
    "F811": _is_registered,
    "F821": _is_for_another_python,
    "F841": _is_looked_up,
    "S102": _is_given_a_namespace,
    "S307": _is_given_a_namespace,
    "S602": _is_list,
    "S605": _is_in_a_test,
    "S608": _is_name_in_a_query,
}
