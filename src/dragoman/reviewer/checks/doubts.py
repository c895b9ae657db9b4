"""Doubtful findings in Python, for which the surrounding code shows that the author meant it so.

A project that chose its own rules gets all their findings.  With our rules, doubtful findings are left out.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..findings import Finding, Source
from .places import is_test
from .python import parsed
from .shared_defaults import is_only_read
from .undefined import is_bound_elsewhere, is_no_annotation, line_of, lines_of, said_name

_FOR_PYTHON_2 = re.compile(r"#![^\n]*\bpython2\b")
_PLAIN = re.compile(
    r"(?i)assert|(?:print|bool|str|repr|all|any|int|list)$"
)  # calls that use only the result of the comparison
_EXCUSED = re.compile(r"#\s*(?:pylint:\s*disable|nosec)")  # reported by another linter
_MAY_CHANGE = "seems safe"  # Ruff's message for commands that are literals
_HANDED_ON = re.compile(r"(?i)exc_info|reraise|format_exc|print_exc|handle_?error|exception$")
_EXPLAINED = re.compile(
    r"(?i)#.*\b(?:need|requir|regist|side|keep|used|load|export|compat|avoid|must|patch|effect)"
)
_EFFECTS = re.compile(r"`(?:readline|rlcompleter|py2exe|py2app|mpl_toolkits\.mplot3d\b.*|tensorflow_text)`")
_FIRST = re.compile(r"from line (\d+)")
_ANY_OBJECT = ("Loader", "UnsafeLoader", "FullLoader", "CLoader", "CUnsafeLoader", "CFullLoader")
# Places in a query for a value, not a name: only there a parameter can be used.
_VALUE = re.compile(r"(?is)(?:[=<>]|\blike)[\s(]*[\"']*\s*(?:%[sdr(]|\{|\+|[\"']+\s*[+%])")


def certain(findings: Sequence[Finding], sources: Sequence[Source]) -> list[Finding]:
    """The findings without the doubtful ones."""
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
    if _EXCUSED.search(line_of(source, finding.line)) or _EXCUSED.match(line_of(source, finding.line - 1).lstrip()):
        return True
    if _MAY_CHANGE in finding.message:
        return True
    if finding.code not in _DOUBTS:
        return False
    if source.path not in trees:
        trees[source.path] = _tree(source)
    tree = trees[source.path]
    return tree is not None and _DOUBTS[finding.code](finding, source, tree)


def _tree(source: Source) -> ast.Module | None:
    try:
        return parsed(source)
    except SyntaxError:
        return None


def _may_be_overloaded(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether `== None` or `== True` may be an overloaded operator, since its truth value is not used here."""
    if is_test(source.path) and finding.code == "E711" and finding.line in lines_of(_about_equality(tree)):
        return True
    return finding.line not in lines_of(_asked(tree))


def _about_equality(tree: ast.Module) -> Iterator[ast.AST]:
    """The comparisons in functions that compare the same object with more than None, to test its equality."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            made = [one for one in ast.walk(node) if isinstance(one, ast.Compare)]
            others = {ast.unparse(one.left) for one in made if ast.unparse(one.comparators[0]) != "None"}
            yield from (one for one in made if ast.unparse(one.left) in others)


def _asked(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test) | ast.IfExp(test=test):
                yield from _compared(test)
            case ast.Return(value=ast.expr() as test):
                yield from _compared(test)
            case ast.comprehension(ifs=tests):
                yield from (found for test in tests for found in _compared(test))
            case ast.Call(args=tests) if _PLAIN.match(_called(node)):
                yield from (found for test in tests for found in _compared(test))


def _compared(test: ast.expr) -> Iterator[ast.AST]:
    """The comparisons whose truth value is used."""
    match test:
        case ast.BoolOp(values=values):
            yield from (found for value in values for found in _compared(value))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _compared(operand)
        case ast.Compare() if not any(isinstance(part, ast.Compare) for part in (test.left, *test.comparators)):
            yield test  # using the truth of a comparison's result is a test of the comparison


def _called(call: ast.Call) -> str:
    """The last part of a called name."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_given_a_namespace(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether code is run on purpose: with its own namespace, in a test, or from the project itself."""
    if is_test(source.path) or source.path.endswith("setup.py"):
        return True
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == finding.line]
    named = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec")]
    return bool(named) and all(len(node.args) + len(node.keywords) > 1 or _is_written_out(node) for node in named)


def _is_written_out(call: ast.Call) -> bool:
    """Whether the code that is run is a literal."""
    given = call.args[0] if call.args else None
    if (
        isinstance(given, ast.Call)
        and isinstance(given.func, ast.Name)
        and given.func.id == "compile"
        and given.args
    ):
        given = given.args[0]
    return isinstance(given, ast.Constant)


def _is_registered(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether the repeated definition was given to a decorator, which may have kept it."""
    if finding.line in lines_of(_imports_alone(tree)) or finding.line in lines_of(_parameters(tree)):
        return True
    first = _FIRST.search(finding.message)
    if first is None or int(first[1]) > finding.line:
        return first is not None  # a later definition is not the first one
    return int(first[1]) in {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.decorator_list
    }


def _parameters(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            yield from (ast.copy_location(ast.Name(one.arg), one) for one in given)


def _is_made_to_fail(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a comparison is made for the exception that it raises, or in a test that it raises none."""
    return finding.line in lines_of(_watched(tree)) or (
        is_test(source.path) and finding.line in lines_of(_ordered(tree))
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
    """Whether a context manager expects an exception or a warning."""
    return isinstance(context, ast.Call) and _called(context).lower().endswith(
        ("raises", "raisesregex", "warns", "suppress")
    )


def _is_name_in_a_query(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a query is built only from names of tables and columns, which cannot be parameters."""
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


def _is_for_its_effect(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether an import is a test of availability, has side effects, has a comment, or is for types in comments."""
    line, name = line_of(source, finding.line), said_name(finding).rpartition(".")[2]
    if _EXPLAINED.search(line) or _EFFECTS.search(finding.message):
        return True
    if re.search(rf"#\s*type:[^\n]*\b{re.escape(name)}\b", source.text):
        return True
    return finding.line in lines_of(_imports_alone(tree))


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
    """Whether a command is in a test, and so cannot come from outside."""
    return is_test(source.path)


def _is_list(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a command for a shell is a list of words, as is usual on Windows."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == finding.line]
    given = {node.args[0].id for node in calls if node.args and isinstance(node.args[0], ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments) and node.vararg and node.vararg.arg in given:
            return True
        targets = node.targets if isinstance(node, ast.Assign) and isinstance(node.value, ast.List) else []
        if any(isinstance(target, ast.Name) and target.id in given for target in targets):
            return True
    return False


def _is_another_loader(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether YAML is read by a loader that is not known to create arbitrary objects."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == finding.line]
    given = [_loader(node) for node in calls if _called(node) in ("load", "load_all")]
    return any(loader is not None and loader not in _ANY_OBJECT for loader in given)


def _loader(call: ast.Call) -> str | None:
    """The last part of the loader's name; None if none is given."""
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == "Loader"]
    named = [*call.args[1:2], *by_name]
    return ast.unparse(named[0]).rpartition(".")[2] if named else None


def _is_kept(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a bare `except` raises its exception again, so that it catches everything on purpose."""
    handlers = [node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler)]
    caught = [node for node in handlers if node.lineno == finding.line]
    names = (getattr(node, "attr", getattr(node, "id", "")) for one in caught for node in ast.walk(one))
    return any(_HANDED_ON.search(name) for name in names)


def _is_looked_up(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a variable may be used by its name: by `locals`, in a text, or as one of a family."""
    name = said_name(finding)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    around = [node for node in functions if finding.line in lines_of(iter([node]))]
    inner = [node for function in around for node in ast.walk(function)]
    if any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in inner):
        return True  # further up, which a loop reaches again
    calls = [node for node in inner if isinstance(node, ast.Call)]
    if any(_called(call) in ("vars", "locals") and not call.args for call in calls):
        return True
    texts = [
        word.value
        for call in calls
        for word in (*call.args, *(keyword.value for keyword in call.keywords))
        if isinstance(word, ast.Constant) and isinstance(word.value, str)
    ]
    if any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text) for text in texts):
        return True
    return _has_family(name, inner)


def _has_family(name: str, nodes: Sequence[ast.AST]) -> bool:
    """Whether functions and variables beside a variable have the same prefix, such as those of a parser."""
    head, line, _ = name.partition("_")
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    return bool(line) and any(one.startswith(f"{head}_") for one in made) and name in bound


def _is_of_no_concern(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether the name that a loop hides is a name for unused values, or is hidden in one function only."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return "`_`" in finding.message or finding.line in lines_of(functions)


def _is_made_when_asked_for(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a module creates its names on access."""
    return any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body)


def _is_filled_in_otherwise(finding: Finding, source: Source, tree: ast.Module) -> bool:
    """Whether a log message has braces, which some logging libraries fill in."""
    return "{" in line_of(source, finding.line) or "loguru" in source.text


_DOUBTS: Mapping[str, Callable[[Finding, Source, ast.Module], bool]] = {
    "B015": _is_made_to_fail,
    "B006": is_only_read,
    "E711": _may_be_overloaded,
    "E712": _may_be_overloaded,
    "E722": _is_kept,
    "F401": _is_for_its_effect,
    "F402": _is_of_no_concern,
    "F722": is_no_annotation,
    "F811": _is_registered,
    "F821": is_bound_elsewhere,
    "F822": _is_made_when_asked_for,
    "F841": _is_looked_up,
    "PLE1205": _is_filled_in_otherwise,
    "PLE1206": _is_filled_in_otherwise,
    "S102": _is_given_a_namespace,
    "S307": _is_given_a_namespace,
    "S506": _is_another_loader,
    "S602": _is_list,
    "S605": _is_in_a_test,
    "S608": _is_name_in_a_query,
}
