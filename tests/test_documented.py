"""Every public class, function and method has a docstring of its own; the API reference is made of them."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import dragoman

SOURCE = Path(dragoman.__file__).parent


def packages() -> Iterator[str]:
    """The packages that name what is public, and the one module that does."""
    yield "dragoman.blocking"
    for path in sorted(SOURCE.rglob("__init__.py")):
        body = ast.parse(path.read_text()).body
        assigned = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in assigned):
            yield ".".join(path.parent.relative_to(SOURCE.parent).parts)


def public(module: ModuleType) -> list[str]:
    return getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])


def function_of(member: object) -> object:
    """The function behind a method, a property or a cached one."""
    for holder in ("__func__", "fget", "func"):
        member = getattr(member, holder, member)
    return member


def undocumented(package: str) -> Iterator[str]:
    module = importlib.import_module(package)
    for name in public(module):
        thing = getattr(module, name)
        if inspect.isfunction(thing) and not thing.__doc__:
            yield name
        if inspect.isclass(thing):
            for cls in thing.__mro__:
                yield from without_docstring(cls)


def without_docstring(cls: type) -> Iterator[str]:
    if not cls.__module__.startswith("dragoman."):
        return
    if not (vars(cls).get("__doc__") or "").strip():
        yield cls.__qualname__
    for name, member in vars(cls).items():
        function = function_of(member)
        if not name.startswith("_") and inspect.isfunction(function) and not (function.__doc__ or "").strip():
            yield f"{cls.__qualname__}.{name}"


@pytest.mark.parametrize("package", list(packages()))
def test_every_public_name_has_a_docstring_of_its_own(package: str) -> None:
    assert not sorted(set(undocumented(package)))


def test_the_packages_that_are_looked_at_are_all_there() -> None:
    """A package that loses its `__all__` does not leave the check unseen."""
    assert {"dragoman", "dragoman.schema", "dragoman.schema.v2", "dragoman.host", "dragoman.store"} <= set(
        packages()
    )
