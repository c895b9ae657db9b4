"""What the package offers: every public name of its modules, once, in order."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman import schema
from dragoman.schema import base, v2

MODULES = sorted(Path(schema.__file__).parent.glob("[a-z]*.py"))


def defined(body: Sequence[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.If):  # a union for type checkers, a shape for msgspec
            yield from {*defined(node.body), *defined(node.orelse)}


def test_every_public_name_can_be_imported_from_the_package() -> None:
    names = [
        name
        for path in MODULES
        if path.stem != "base"
        for name in defined(ast.parse(path.read_text()).body)
        if not name.startswith("_")
    ]
    assert sorted(names) == sorted(set(schema.__all__) - set(base.__all__))


@pytest.mark.parametrize("package", [schema, v2], ids=["v1", "v2"])
def test_the_names_are_in_order_and_each_is_there(package: Any) -> None:
    assert package.__all__ == sorted(package.__all__, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(package, name) for name in package.__all__)


def test_what_has_the_same_shape_in_v2_is_the_type_of_v1() -> None:
    shared = {name for name in v2.__all__ if getattr(v2, name) is getattr(schema, name, None)}
    assert {"Notice", "Usage", "ListProvidersRequest", "MessageMcpRequest", "SessionStatusRequest"} <= shared


def descendants(cls: type) -> set[type]:
    return {cls}.union(*(descendants(child) for child in cls.__subclasses__()))


def test_every_field_of_every_type_is_given_by_its_name() -> None:
    """msgspec does not inherit `kw_only`, and a metaclass to see to it makes each message five times as dear."""
    positional = {cls.__name__ for cls in descendants(base.Bare) if cls.__struct_fields__ and cls.__match_args__}
    assert positional == set()
