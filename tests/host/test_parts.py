"""The parts of the host can be used one without the other."""

import ast
import importlib
from pathlib import Path

import pytest

import dragoman.host

SOURCE = Path(dragoman.host.__file__).parent
PARTS = ("files", "terminals", "permissions", "audit")


@pytest.mark.parametrize("part", PARTS)
def test_no_part_needs_another(part: str) -> None:
    imported = {
        (node.module or "").split(".")[0]
        for path in (SOURCE / part).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level == 2
    }
    assert imported & {*PARTS, "host", "lending", "loans"} == set()


@pytest.mark.parametrize("part", ["", *(f".{part}" for part in PARTS)])
def test_what_a_part_offers_is_there(part: str) -> None:
    package = importlib.import_module(f"dragoman.host{part}")
    for name in package.__all__:
        assert getattr(package, name)
    with pytest.raises(AttributeError, match="nobody_has_this"):
        _ = package.nobody_has_this
