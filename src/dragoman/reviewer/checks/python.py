"""Python: syntax errors and, if Ruff is not installed, mistakes that are certain from the syntax tree.

The codes are those of Ruff and its predecessors, so that `# noqa` and explanations have the same meaning.
"""

import ast
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..findings import Finding, Severity, Source
from .leftovers import has_merge_markers, started_here

_NOQA = re.compile(r"#\s*noqa(?::\s*([A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*))?", re.IGNORECASE)
_NOQA_FILE = re.compile(r"^[ \t]*+#[ \t]*(?:flake8|ruff)[:=][ \t]*noqa[ \t]*$", re.IGNORECASE | re.MULTILINE)
_SILENCE = threading.Lock()  # a change of warning filters affects the whole process

DEEPEST = 200  # levels of brackets, beyond which the parser may use up the stack


# Advice for findings, including those of Ruff.
ADVICE = {
    "B006": "default to None and make a new one inside",
    "B012": "return after the try statement",
    "B023": "bind the variable as a default argument",
    "E711": "write `is None` or `is not None`",
    "E712": "write the condition itself, or `is True`",
    "E721": "use isinstance",
    "E722": "name the exceptions that are meant",
    "F401": "drop the import",
    "F541": "drop the f, or fill in the value",
    "F601": "keep one of them",
    "F631": "drop the parentheses",
    "F632": "write ==",
    "F811": "keep one of the definitions",
    "F821": "define it, import it, or correct its spelling",
    "F841": "use it, or drop it",
    "S102": "parse the input instead",
    "S307": "parse the input instead, with ast.literal_eval or json",
    "S506": "use yaml.safe_load",
    "S602": "give the words as a list, without shell=True",
    "S605": "use subprocess with a list of words",
    "S608": "pass the values as parameters of the query",
}


DEBUGGERS = ("breakpoint", "pdb.set_trace", "ipdb.set_trace", "pudb.set_trace")


class Told(NamedTuple):
    node: ast.AST
    code: str
    severity: Severity
    message: str


Rule = Callable[[ast.AST], Iterator[Told]]


def python_syntax(source: Source) -> Iterator[Finding]:
    try:
        parsed(source)
    except SyntaxError as exc:
        line = min(exc.lineno or 1, source.text.count("\n") + 1)
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        yield Finding(
            source.path,
            line,
            "error",
            "syntax-error",
            f"Python {version} cannot parse this: {exc.msg}",
            "nothing in the file runs until it is corrected",
            is_whole=True,
        )


def parsed(source: Source) -> ast.Module | None:
    """The syntax tree of a file; a SyntaxError if the file is invalid, None if there is none for another reason."""
    text = source.text
    if not source.path.endswith((".py", ".pyi")) or has_merge_markers(text) or nesting(text) > DEEPEST:
        return None
    try:
        with _SILENCE, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser's warnings do not concern our code
            return ast.parse(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError, MemoryError):
        return None


def nesting(text: str) -> int:
    """The maximum depth of brackets."""
    depth = deepest = 0
    for char in re.findall(r"[(\[{)\]}]", text):
        depth = depth + 1 if char in "([{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def debuggers(source: Source) -> Iterator[Finding] | None:
    """Calls that start a debugger; None if the file cannot be parsed."""
    if not any(word in source.text for word in ("breakpoint", "set_trace")):
        return iter(())
    try:
        tree = parsed(source)
    except SyntaxError:
        tree = None
    if tree is None:
        return None
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return (started_here(source.path, node.lineno) for node in calls if _name(node.func) in DEBUGGERS)


def python_rules(source: Source) -> Iterator[Finding]:
    """The checks that replace Ruff if it is not installed."""
    try:
        tree = parsed(source)
    except SyntaxError:
        return
    if tree is None or _NOQA_FILE.search(source.text):
        return
    lines = source.text.split("\n")
    nodes = list(ast.walk(tree))
    specs = {
        id(node.format_spec) for node in nodes if isinstance(node, ast.FormattedValue)
    }  # they are not strings themselves
    told = [
        told for node in nodes if id(node) not in specs for rule in RULES.get(type(node), ()) for told in rule(node)
    ]
    if not source.path.endswith(("__init__.py", ".pyi")):
        told += _unused_imports(tree)
    for node, code, severity, message in told:
        line = getattr(node, "lineno", 1)
        if not _is_excused(lines[line - 1] if line <= len(lines) else "", code):
            yield Finding(source.path, line, severity, code, message, ADVICE[code])


def _is_excused(line: str, code: str) -> bool:
    found = _NOQA.search(line)
    return found is not None and (found[1] is None or code in re.split(r"[,\s]+", found[1].upper()))


def _mutable_defaults(node: ast.AST) -> Iterator[Told]:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for default in filter(None, (*node.args.defaults, *node.args.kw_defaults)):
        made_by = _name(default.func) if isinstance(default, ast.Call) and not default.args else ""
        if isinstance(default, ast.List | ast.Dict | ast.Set) or made_by in ("list", "dict", "set"):
            message = "a list, dict or set as a default is shared by all calls"
            yield Told(default, "B006", "warning", message)


def _bare_except(node: ast.AST) -> Iterator[Told]:
    assert isinstance(node, ast.ExceptHandler)
    reraises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    if node.type is None and not reraises:
        message = "a bare except also catches Ctrl-C and exits"
        yield Told(node, "E722", "warning", message)


def _comparisons(node: ast.AST) -> Iterator[Told]:
    assert isinstance(node, ast.Compare)
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(operator, ast.Eq | ast.NotEq) and isinstance(right, ast.Constant) and right.value is None:
            yield Told(node, "E711", "warning", "None is compared by ==")
        is_literal = isinstance(right, ast.Constant) and isinstance(right.value, str | bytes | int | float)
        if isinstance(operator, ast.Is | ast.IsNot) and is_literal and not isinstance(right.value, bool):  # type: ignore[attr-defined]
            yield Told(node, "F632", "error", "a literal is compared by `is`")


def _calls(node: ast.AST) -> Iterator[Told]:
    assert isinstance(node, ast.Call)
    name = _name(node.func)
    if name in ("eval", "exec") and node.args and not isinstance(node.args[0], ast.Constant):
        code = "S307" if name == "eval" else "S102"
        yield Told(node, code, "warning", f"{name} runs whatever it is given")
    shell = next((word.value for word in node.keywords if word.arg == "shell"), None)
    is_made_up = bool(node.args) and not isinstance(node.args[0], ast.Constant)
    is_started = name.startswith("subprocess.") or name in ("Popen", "check_call", "check_output")
    if is_started and isinstance(shell, ast.Constant) and shell.value is True and is_made_up:
        message = "a shell runs a command put together at run time"
        yield Told(node, "S602", "error", message)
    if name == "yaml.load" and len(node.args) == 1 and not node.keywords:
        yield Told(node, "S506", "error", "yaml.load makes any object the file names")


def _format_strings(node: ast.AST) -> Iterator[Told]:
    assert isinstance(node, ast.JoinedStr)
    if not any(isinstance(part, ast.FormattedValue) for part in node.values):
        yield Told(node, "F541", "warning", "an f-string with nothing to fill in")


def _assertions(node: ast.AST) -> Iterator[Told]:
    assert isinstance(node, ast.Assert)
    if isinstance(node.test, ast.Tuple) and node.test.elts:
        yield Told(node, "F631", "error", "this assertion is always true: it tests a tuple")


def _repeated_keys(node: ast.AST) -> Iterator[Told]:
    assert isinstance(node, ast.Dict)
    seen: set[object] = set()
    for key in node.keys:
        if isinstance(key, ast.Constant):
            if key.value in seen:
                yield Told(key, "F601", "error", f"the key {key.value!r} is given twice")
            seen.add(key.value)


def _returns_in_finally(node: ast.AST) -> Iterator[Told]:
    assert isinstance(node, ast.Try)
    for statement in node.finalbody:
        if isinstance(statement, ast.Return):
            message = "a return in finally swallows the exception on its way"
            yield Told(statement, "B012", "error", message)


def _unused_imports(tree: ast.Module) -> Iterator[Told]:
    if all(isinstance(statement, ast.Import | ast.ImportFrom | ast.Expr | ast.Assign) for statement in tree.body):
        return  # a module that collects names for import
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # __all__ and annotations in quotes
            used |= set(re.findall(r"\w+", node.value[:10_000]))
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and getattr(statement, "module", "") != "__future__":
            module = ""
            if isinstance(statement, ast.ImportFrom):
                module = f"{'.' * statement.level}{statement.module or ''}."
            for alias in statement.names:
                name = (alias.asname or alias.name).partition(".")[0]
                is_reexport = alias.asname == alias.name
                if name != "*" and not is_reexport and name not in used:
                    yield Told(alias, "F401", "warning", f"`{module}{alias.name}` imported but unused")


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


RULES: dict[type[ast.AST], tuple[Rule, ...]] = {
    ast.FunctionDef: (_mutable_defaults,),
    ast.AsyncFunctionDef: (_mutable_defaults,),
    ast.Lambda: (_mutable_defaults,),
    ast.ExceptHandler: (_bare_except,),
    ast.Compare: (_comparisons,),
    ast.Call: (_calls,),
    ast.JoinedStr: (_format_strings,),
    ast.Assert: (_assertions,),
    ast.Dict: (_repeated_keys,),
    ast.Try: (_returns_in_finally,),
}
