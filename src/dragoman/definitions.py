"""What an author's class is checked for where it is defined: mistakes that would otherwise show nowhere.

A request is `async def` and a notification is `def`, for overrides too: a coroutine that nobody awaits does
nothing, and a plain function cannot be awaited.  A method whose name is nearly one of the protocol's is probably
meant to be that one, and would never be called.
"""

import difflib
import inspect
import sys
import warnings
from types import FunctionType

ALIKE = 0.82  # how much of a name must be the same for the other to be meant
# What the official SDK calls what is called otherwise here.
ELSEWHERE = {
    "session_update": "update",
    "set_session_mode": "set_mode",
    "set_session_config_option": "set_config_option",
    "ext_method": '@extension("_name")',
    "ext_notification": '@extension("_name")',
    "on_connect": "__aenter__",
}


class MisspelledOverride(UserWarning):
    """A method that nobody calls, named almost like one that somebody would."""


def check_definition(defined: type) -> None:
    """Refuse an override that is sync where it must be async, or the other way round; warn of a misspelled one."""
    above = {name: getattr(base, name) for base in reversed(defined.__mro__[1:]) for name in vars(base)}
    known = {name for name, value in above.items() if isinstance(value, FunctionType) and name[0] != "_"}
    meant_to_be = {name for name in known if _is_called(name, defined)}
    for name, own in vars(defined).items():
        if name in known and not (callable(own) or hasattr(own, "__get__")):
            raise TypeError(f"{defined.__qualname__}.{name} must be a method: {_kind(above[name])} {name}(self, …)")
        if not isinstance(own, FunctionType) or name.startswith("_"):
            continue
        if name in known:
            _check_kind(f"{defined.__qualname__}.{name}", own, above[name])
        elif _is_ours(defined.__module__) or hasattr(own, "extends"):
            continue
        elif meant := _meant(name, own, meant_to_be):
            told = f"{defined.__qualname__}.{name} is never called: did you mean {meant}?"
            warnings.warn(told, MisspelledOverride, stacklevel=_depth())
    _check_extensions(defined)


def check_makes(app: object, client: object) -> None:
    """Raise TypeError where a class cannot be called with a client, which is how agents are made."""
    if isinstance(app, type):
        try:
            inspect.signature(app).bind(client)
        except TypeError as exc:
            told = f"an agent is made as {app.__qualname__}(client): {exc}"
            raise TypeError(f"{told}. For more arguments give a function that takes the client") from None


def _check_extensions(defined: type) -> None:
    """Raise TypeError where two methods of a class answer the same message."""
    answering: dict[tuple[str, bool], str] = {}
    for attribute, own in vars(defined).items():
        if method := getattr(own, "extends", None):
            other = answering.setdefault((method.name, method.is_request), attribute)
            if other != attribute:
                told = f"{defined.__qualname__}.{other} and {defined.__qualname__}.{attribute}"
                raise TypeError(f"{told} both answer {method.name}")


def _check_kind(where: str, own: FunctionType, above: FunctionType) -> None:
    if inspect.isasyncgenfunction(own) and inspect.iscoroutinefunction(above):
        raise TypeError(f"{where} must not yield: it is awaited. Use `await turn.say(…)` and the like")
    wants, has = inspect.iscoroutinefunction(above), inspect.iscoroutinefunction(inspect.unwrap(own))
    if wants and not has:
        raise TypeError(f"{where} must be `async def`: it is awaited")
    if has and not wants:
        raise TypeError(f"{where} must be `def`, not `async def`: it is called and not awaited")
    taken = list(inspect.signature(above).parameters.values())
    if all(each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty for each in taken):
        try:
            inspect.signature(own).bind(*taken)
        except TypeError as exc:
            names = ", ".join(each.name for each in taken)
            raise TypeError(f"{where} is called as {above.__name__}({names}): {exc}") from None


def _kind(above: FunctionType) -> str:
    return "async def" if inspect.iscoroutinefunction(above) else "def"


def _is_called(name: str, defined: type) -> bool:
    """Whether a method is one that a peer or this package calls: a message, or something that is awaited."""
    above = [vars(base)[name] for base in defined.__mro__[1:] if name in vars(base)]
    return inspect.iscoroutinefunction(above[0]) or any(hasattr(value, "forwards") for value in above)


def _is_ours(module: str) -> bool:
    """Whether a module belongs to this package, whose names are what others are compared with."""
    return module.partition(".")[0] == __name__.partition(".")[0]


def _depth() -> int:
    """How many calls the author's class statement is away from whoever asked."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back and _is_ours(frame.f_globals.get("__name__", "")):
        depth, frame = depth + 1, frame.f_back
    return depth


def _meant(name: str, own: FunctionType, known: set[str]) -> str | None:
    """The method that a name is a misspelling of, if it takes as much as that method would be given."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    if own.__code__.co_argcount != 2:
        return None
    return next(iter(difflib.get_close_matches(_plain(name), known, n=1, cutoff=ALIKE)), None)


def _plain(name: str) -> str:
    """`newSession`, as other languages write it, is `new_session` here."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
