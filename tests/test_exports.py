"""The public names: all of them there, all of them said to be, all of them explained."""

import ast
import inspect
from pathlib import Path

import pytest

import dragoman

SOURCE = Path(dragoman.__file__)


def test_the_public_names_are_in_order() -> None:
    assert dragoman.__all__ == sorted(set(dragoman.__all__))


def test_the_public_names_are_what_is_there() -> None:
    """Once for people who run it, once for those who check its types."""
    imported = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(SOURCE.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    assert {name for name in imported if not name.startswith("_")} == set(dragoman.__all__)
    assert {name for name in dir(dragoman) if not name.startswith("_")} == set(dragoman.__all__)


@pytest.mark.parametrize("name", dragoman.__all__)
def test_a_public_name_is_found_where_it_is_at_home(name: str) -> None:
    thing = getattr(dragoman, name)
    assert thing.__name__ == name
    assert thing.__module__.startswith("dragoman.")


@pytest.mark.parametrize("name", dragoman.__all__)
def test_a_public_name_says_what_it_does(name: str) -> None:
    assert (inspect.getdoc(getattr(dragoman, name)) or "").strip()


def test_a_name_that_is_not_there_is_an_ordinary_mistake() -> None:
    with pytest.raises(AttributeError, match="nobody_has_this"):
        _ = dragoman.nobody_has_this
    assert not hasattr(dragoman, "_private")


def test_every_module_says_what_it_is_for() -> None:
    modules = SOURCE.parent.rglob("*.py")
    assert not [path for path in modules if not (ast.get_docstring(ast.parse(path.read_text())) or "").strip()]
