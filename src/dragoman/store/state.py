"""An author's state: JSON that reads back equal to the stored value; other values are refused when they are put."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .. import codec

_FAILURES = (TypeError, ValueError, RecursionError, OverflowError)  # of an encoder
_ADVICE = "keep what JSON has: None, bool, int, finite float, str, list, dict with str keys"


class KeptState(dict[str, Any]):
    """The stored state of a session: putting a value that cannot be stored raises.

    Changes inside a value are checked when the turn ends, or when the session is saved.
    """

    def __setitem__(self, key: str, value: object) -> None:
        self._check(key, value)
        super().__setitem__(key, value)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **named: Any) -> None:
        added = dict(*others, **named)
        for key, value in added.items():
            self._check(key, value)
        super().update(added)

    def __ior__(self, other: Any) -> "KeptState":  # type: ignore[override,misc]
        self.update(other)
        return self

    def _check(self, key: str, value: object) -> None:
        if key not in self or self[key] != value:  # a value equal to a stored one can be stored
            encoded(key, value)


def encoded(key: object, value: object) -> bytes:
    """A value as it is stored; raises TypeError if it would not read back equal."""
    if type(key) is not str:
        raise TypeError(f"the state {key!r} cannot be kept: its key is {_article(key)}, not a str")
    try:
        data = codec.encode(value)
        back = msgspec.json.decode(data)
    except _FAILURES as exc:
        raise TypeError(f"the state {key!r} cannot be kept: {_fault(value, '') or exc}; {_ADVICE}") from None
    if back != value:
        raise TypeError(f"the state {key!r} cannot be kept: {_fault(value, '') or 'it changes'}; {_ADVICE}")
    return data


def all_encoded(state: Mapping[str, object], saved: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[str]]:
    """A state as it is stored, and why values of it cannot be; for those, the value last `saved` stays."""
    kept, problems = dict[str, bytes](), list[str]()
    for key, value in state.items():
        try:
            kept[key] = _quickly_encoded(key, value, saved)
        except TypeError as exc:
            problems.append(str(exc))
            if key in saved:
                kept[key] = saved[key]
    return kept, problems


def _quickly_encoded(key: str, value: object, saved: Mapping[str, bytes]) -> bytes:
    """The same, without reading back values that were read back at the last save."""
    try:
        if type(key) is str and (data := codec.encode(value)) == saved.get(key):
            return data
    except _FAILURES:
        pass
    return encoded(key, value)


def _fault(value: object, place: str) -> str | None:
    """The first part of a value that would not read back equal, in words."""
    where = f"[…]{place} " if place else ""
    try:
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    return f"{where}it has the key {key!r}, {_article(key)}"
            return _first(((f"[{key!r}]", part) for key, part in value.items()), place)
        if isinstance(value, list):
            return _first(((f"[{number}]", part) for number, part in enumerate(value)), place)
        if msgspec.json.decode(codec.encode(value)) == value:
            return None
    except RecursionError:
        return "it is nested too deeply, or holds itself"
    except _FAILURES:
        pass
    words = f"{value!r}" if isinstance(value, float | int | str) else _article(value)
    return f"{where}it holds {words[:100]}"


def _first(parts: Iterable[tuple[str, object]], place: str) -> str | None:
    return next((fault for step, part in parts if (fault := _fault(part, (place + step)[:200]))), None)


def _article(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
