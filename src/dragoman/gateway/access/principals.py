"""Data that a gateway remembers of people: by type it belongs to the name of its owner.

Whatever is cached or remembered lives in a `PerPrincipal`; there is no look into it without a `PrincipalName`, and
a plain string is none: code that leaves the owner out, or takes an agent's name for one, does not type-check.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, NewType, TypeVar

PrincipalName = NewType("PrincipalName", str)  # made where somebody is let in, and where a session's owner is read
Key = TypeVar("Key")
Value = TypeVar("Value")


class PerPrincipal(Generic[Key, Value]):
    """Values by principal and key."""

    def __init__(self) -> None:
        self._kept: dict[PrincipalName, dict[Key, Value]] = {}

    def find(self, principal: PrincipalName, key: Key) -> Value | None:
        return self._kept.get(principal, {}).get(key)

    def of(self, principal: PrincipalName) -> dict[Key, Value]:
        """A copy of all that is remembered of one principal, oldest first."""
        return dict(self._kept.get(principal, {}))

    def put(self, principal: PrincipalName, key: Key, value: Value) -> None:
        self._kept.setdefault(principal, {})[key] = value

    def drop(self, principal: PrincipalName, key: Key) -> Value | None:
        """Forget one; the name of a principal of whom nothing is left goes with it."""
        own = self._kept.get(principal, {})
        value = own.pop(key, None)
        if not own:
            self._kept.pop(principal, None)
        return value

    def entries(self) -> Iterator[tuple[PrincipalName, Key, Value]]:
        """Everybody's, for what concerns the gateway as a whole."""
        for principal, own in list(self._kept.items()):
            for key, value in list(own.items()):
                yield principal, key, value

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))


def state_of(principal: PrincipalName, state: str) -> Path:
    """Where a host keeps what it remembers of one principal; the name may hold what a path may not."""
    return Path(state, "principals", hashlib.sha256(principal.encode()).hexdigest())
