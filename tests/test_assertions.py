"""A test says which outcome is right: the forms that notice nothing, or less than they seem to, are found here."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
SILENCING = {"AssertionError", "Exception", "BaseException", "suppress"}
# Ways of the tests, of pytest and of asyncio to say what has to happen; each fails, or does not end in time.
SAYING = {"raises", "warns", "fail", "timeout", "wait_for", "until", "see", "run_state_machine_as_test", "validate"}
# Calls of the product that raise where the sentence is wrong: that they return is the outcome.
ONLY_RETURN = {
    "host/test_linked_files.py:test_files_that_a_command_cannot_change_stay_as_they_are",
    "host/test_sandbox.py:test_a_sandbox_with_a_network_passes_its_trial_too",
    "test_owning.py:test_nothing_to_do_is_done_at_once",
}
# What follows the suppressed error is looked at by a helper, `felt.ended()`.
ENDS_IN_A_HELPER = {"host/test_terminal_output.py:test_a_start_that_is_cancelled_leaves_nothing"}
FEWEST = 20  # examples of a property


TREES = {path: ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}
NODES = [
    (f"{path.relative_to(TESTS)}:{getattr(node, 'lineno', 0)}", node)
    for path, tree in TREES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.Assert | ast.With | ast.AsyncWith | ast.Try | ast.keyword)
]


def called(node: ast.AST) -> set[str]:
    """The names of functions that are called, or given to others, in a function; of methods those in `SAYING`."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | SAYING.intersection(each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))


def says(node: ast.AST) -> bool:
    """Whether a function itself says what has to happen."""
    return any(isinstance(each, ast.Assert | ast.Raise) for each in ast.walk(node)) or not SAYING.isdisjoint(
        called(node)
    )


def takes_either(test: ast.expr) -> bool:
    """Whether an assertion holds with one outcome or another: `a or b`, also within `and`."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            return not isinstance(
                values[-1], ast.Constant | ast.List | ast.Dict | ast.Tuple
            )  # `x or ""` is a value
        case ast.BoolOp(op=ast.And(), values=values):
            return any(map(takes_either, values))
    return False


def test_no_assertion_takes_one_outcome_or_another() -> None:
    assert [at for at, node in NODES if isinstance(node, ast.Assert) and takes_either(node.test)] == []


def test_no_assertion_is_always_true() -> None:
    """A tuple is true whatever is in it, as is a text, or a call of `all` over nothing but a literal."""
    always = ast.Tuple | ast.Constant | ast.JoinedStr | ast.Lambda | ast.GeneratorExp
    found = [
        at
        for at, node in NODES
        if isinstance(node, ast.Assert)
        and isinstance(node.test, always)
        and not (isinstance(node.test, ast.Constant) and not node.test.value)
    ]
    assert found == []


def test_no_assertion_is_silenced() -> None:
    """Neither `suppress` nor an `except` that passes is around an assertion that it would swallow."""
    found = []
    for at, node in NODES:
        if isinstance(node, ast.With | ast.AsyncWith):
            silent = any(
                isinstance(item.context_expr, ast.Call)
                and "suppress" in called(item.context_expr.func)
                and SILENCING & set().union(*(called(each) for each in item.context_expr.args))
                for item in node.items
            )
        elif isinstance(node, ast.Try):
            swallowing = [one for one in node.handlers if all(isinstance(each, ast.Pass) for each in one.body)]
            silent = any(one.type is None or SILENCING & called(one.type) for one in swallowing)
        else:
            continue
        if silent and any(isinstance(each, ast.Assert) for inner in node.body for each in ast.walk(inner)):
            found.append(at)
    assert found == []


def test_no_test_ends_with_what_it_silences() -> None:
    """What is suppressed may keep all that follows within from being done: something is asserted behind it."""
    found = set()
    for path, tree in TREES.items():
        for function in ast.walk(tree):
            if isinstance(function, FUNCTION) and function.name.startswith("test_"):
                last = max((node.lineno for node in ast.walk(function) if asserts(node)), default=0)
                silences = any(
                    isinstance(node, ast.With | ast.AsyncWith)
                    and any("suppress" in ast.unparse(item.context_expr) for item in node.items)
                    and (node.end_lineno or 0) >= last
                    for node in ast.walk(function)
                )
                if silences:
                    found.add(f"{path.relative_to(TESTS)}:{function.name}")
    assert found == ENDS_IN_A_HELPER


def asserts(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert | ast.Raise) or (isinstance(node, ast.Attribute) and node.attr in SAYING)


def test_every_test_says_what_has_to_happen() -> None:
    """A test has an assertion, or calls a function of the tests that has one, or waits for what has to come."""
    uses: dict[str, set[str]] = defaultdict(set)  # by function, what it calls
    saying, tests = set[str](), dict[str, ast.AST]()
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, FUNCTION | ast.ClassDef):
                uses[node.name] |= called(node)
                saying |= {node.name} if says(node) else set()
                if node.name.startswith("test_") and not says(node):
                    tests[f"{path.relative_to(TESTS)}:{node.name}"] = node
    size = -1
    while size != len(saying):
        size = len(saying)
        saying |= {name for name, names in uses.items() if not saying.isdisjoint(names)}
    silent = {name for name, node in tests.items() if saying.isdisjoint(called(node))}
    assert silent == ONLY_RETURN


def test_no_property_is_tried_with_a_handful_of_examples() -> None:
    """The number itself, or the constant of the module that has it."""
    few = []
    for path, tree in TREES.items():
        constants = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "max_examples":
                value = constants.get(node.value.id) if isinstance(node.value, ast.Name) else node.value
                is_number = not isinstance(value, ast.BinOp)  # a product multiplies a constant, which is looked at
                few += [
                    f"{path.relative_to(TESTS)}:{node.lineno}"
                    for number in (ast.walk(value) if value and is_number else ())
                    if isinstance(number, ast.Constant)
                    and str(number.value).isdigit()
                    and int(number.value) < FEWEST
                ]
    assert few == []


@pytest.mark.parametrize(
    ("text", "is_either"),
    [
        ("a or b", True),
        ("a == 1 or a == 2", True),
        ("c and (a or b)", True),
        ("(a or {})", False),
        ("not (a or b)", False),
        ("a and b", False),
        ("(a or '') == b", False),
    ],
)
def test_an_assertion_that_takes_either_is_told(text: str, is_either: bool) -> None:
    assert takes_either(ast.parse(text, mode="eval").body) is is_either
