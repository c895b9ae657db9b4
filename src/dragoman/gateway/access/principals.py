"""Remembered data about principals: its type ties it to the name of its owner.

All cached data is in a `PerPrincipal`, which can be read only with a `PrincipalName`.  A plain string is not one,
so code that forgets the owner, or passes an agent's name, does not type-check.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, NewType, TypeVar

PrincipalName = NewType("PrincipalName", str)  # made at admission, and when a session's owner is read
Key = TypeVar("Key")
Value = TypeVar("Value")


class PerPrincipal(Generic[Key, Value]):
    """Values by principal and key."""

    def __init__(self) -> None:
        self._kept: dict[PrincipalName, dict[Key, Value]] = {}

    def find(self, principal: PrincipalName, key: Key) -> Value | None:
        return self._kept.get(principal, {}).get(key)

    def of(self, principal: PrincipalName) -> dict[Key, Value]:
        """A copy of all data of one principal, oldest first."""
        return dict(self._kept.get(principal, {}))

    def put(self, principal: PrincipalName, key: Key, value: Value) -> None:
        self._kept.setdefault(principal, {})[key] = value

    def drop(self, principal: PrincipalName, key: Key) -> Value | None:
        """Remove one value; a principal without values is removed, too."""
        own = self._kept.get(principal, {})
        value = own.pop(key, None)
        if not own:
            self._kept.pop(principal, None)
        return value

    def entries(self) -> Iterator[tuple[PrincipalName, Key, Value]]:
        """The data of all principals, for tasks of the whole gateway."""
        for principal, own in list(self._kept.items()):
            for key, value in list(own.items()):
                yield principal, key, value

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))


def state_of(principal: PrincipalName, state: str) -> Path:
    """The directory of a host's data about one principal, whose name may contain characters that a path may not."""
    return Path(state, "principals", hashlib.sha256(principal.encode()).hexdigest())
