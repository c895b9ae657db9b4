"""A signature is a method of the protocol: the marks on it, and what can be read off a class that has some.

`rpc` gives a signature its name on the wire and a body that forwards.  A class answers the methods it overrides
and those marked with `extension`; every other call goes wherever the class forwards.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec

from . import codec
from .definitions import check_definition
from .errors import MethodNotFound
from .events import Method

F = TypeVar("F", bound=Callable[..., Any])

READABLE = "Use a msgspec.Struct, a dataclass, a TypedDict, dict or Any"


def rpc(
    name: str, *, capability: str = "", unstable: bool = False, timeout: float | None = None, opens: bool = False
) -> Callable[[F], F]:
    """Give a signature its name on the wire; the body that is not there forwards."""

    def mark(stub: F) -> F:
        types, is_request = stub.__annotations__, inspect.iscoroutinefunction(stub)
        result = types["return"] if is_request else None
        method = Method(name, types["params"], result, is_request, opens, capability, timeout, unstable)
        if is_request:

            async def request(self: Role, params: Any) -> Any:
                return await self._request(method, params)

            return _marked(request, stub, method)

        def notification(self: Role, params: Any) -> None:
            self._notify(method, params)

        return _marked(notification, stub, method)

    return mark


def _marked(forwarder: Any, stub: F, method: Method) -> F:
    forwarder.forwards = method
    functools.update_wrapper(forwarder, stub)
    return forwarder  # type: ignore[no-any-return]


def extension(name: str) -> Callable[[F], F]:
    """Make a method of an `Agent` or `Client` answer an extension of the protocol: `@extension("_acme/ping")`."""
    if not isinstance(name, str):
        raise TypeError('extension takes the name of a method of the protocol: write @extension("_name")')
    if not name.startswith("_"):
        raise ValueError(f"an extension's name starts with an underscore: {name!r}")

    def mark(function: F) -> F:
        body = inspect.currentframe().f_back  # type: ignore[union-attr]  # of the class that is being defined
        params = _taken(function, name, {**body.f_back.f_locals, **body.f_locals})  # type: ignore[union-attr]
        if inspect.isasyncgenfunction(function):
            raise TypeError(f"@extension({name!r}) on {function.__qualname__} must not yield: it is awaited")
        function.extends = Method(name, params, Any, inspect.iscoroutinefunction(function))  # type: ignore[attr-defined]
        return function

    return mark


def _taken(function: Callable[..., Any], name: str, scope: Mapping[str, Any]) -> Any:
    """The type of an extension's params: found out where the class is defined, for nobody could be told later."""
    where = f"@extension({name!r}) on {function.__qualname__}"
    try:
        signature = inspect.signature(function)
        signature.bind("self", "params")
        taken = list(signature.parameters.values())[1]
        annotated = SimpleNamespace(__annotations__={taken.name: taken.annotation})
        types = typing.get_type_hints(annotated, function.__globals__, scope, include_extras=True)
    except IndexError:
        return Any  # it takes whatever it is given
    except NameError as exc:
        raise TypeError(f"{where}: the type of its parameter is not known here: {exc}") from None
    except TypeError as exc:
        raise TypeError(f"{where} is called with self and the params: {exc}") from None
    if taken.annotation is taken.empty:
        return Any
    try:
        return codec.readable(types[taken.name])
    except TypeError as exc:
        raise TypeError(f"{where}: its parameter {taken.name!r} cannot be read: {exc}. {READABLE}") from None


class Role:
    """One side of the protocol: its methods are the messages that this side receives."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        check_definition(cls)

    async def _request(self, method: Method, params: Any) -> Any:
        raise MethodNotFound(data={"method": method.name})

    def _notify(self, method: Method, params: Any) -> None:
        """A notification nobody handles is ignored, as the protocol asks."""

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        """The requests and notifications of a role this object answers, each with its handler."""
        own = type(self)
        found = [(method, name) for name, method in methods(role).items() if overrides(own, name)]
        found += [(getattr(own, name).extends, name) for name in _extensions(own)]
        bound = [msgspec.structs.replace(method, handler=getattr(self, name)) for method, name in found]
        requests = {method.name: method for method in bound if method.is_request}
        return requests, {method.name: method for method in bound if not method.is_request}


def offered(capabilities: Any, path: str) -> bool:
    """Whether a capability is there: true, or an object; false, null and missing all mean no."""
    value = capabilities
    for name in path.split("."):
        value = getattr(value, name, None)
    return value is not None and value is not False


def methods(role: type[Any]) -> dict[str, Method]:
    """The methods of a role by their Python names, read off the signatures above."""
    found = {name: getattr(function, "forwards", None) for name, function in vars(role).items()}
    return {name: method for name, method in found.items() if method}


def overrides(handler: type, name: str) -> bool:
    """Whether a class answers a method itself instead of forwarding it."""
    return not hasattr(getattr(handler, name), "forwards")


def _extensions(handler: type) -> tuple[str, ...]:
    return tuple(name for name in dir(handler) if hasattr(getattr(handler, name, None), "extends"))
