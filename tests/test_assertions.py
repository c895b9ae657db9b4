"""A test says which outcome is right: an assertion that takes one of two notices only the third."""

import ast
from pathlib import Path

TESTS = Path(__file__).parent


def test_no_assertion_takes_one_outcome_or_another() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in sorted(TESTS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or)
    ]
    assert found == []
