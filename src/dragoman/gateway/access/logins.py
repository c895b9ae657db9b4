"""Logins to agents through a gateway: messages pass unchanged, and only the expiry is remembered.

Credentials (an API key, an OAuth token or anything else) are between client and agent: they never appear in our
logs, records and errors.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Raw

from ...errors import AuthRequired
from .principals import PerPrincipal, PrincipalName

EXPIRES = "expiresAt"


class Logins:
    """The expiry of each principal's login to each agent."""

    def __init__(self) -> None:
        self._until: PerPrincipal[str, float] = PerPrincipal()  # by agent

    def note(self, agent: str, principal: PrincipalName, result: Raw) -> None:
        """Note a successful login to an agent."""
        self._until.drop(principal, agent)
        if (until := _expiry(msgspec.json.decode(result))) is not None:
            self._until.put(principal, agent, until)

    def forget(self, agent: str, principal: PrincipalName) -> None:
        self._until.drop(principal, agent)

    def check(self, agent: str, principal: PrincipalName) -> None:
        """Raise if a login has expired; without a login, the agent decides."""
        until = self._until.find(principal, agent)
        if until is not None and time.time() >= until:
            raise AuthRequired("the login to the agent has expired; authenticate again", {"kind": "expired"})


def _expiry(said: object, depth: int = 3) -> float | None:
    """The expiry in a login's answer, or in its `_meta`, where dialects may put it."""
    if not isinstance(said, Mapping) or depth == 0:
        return None
    if isinstance(moment := said.get(EXPIRES), str):
        try:
            when = datetime.fromisoformat(moment)
        except ValueError:
            return None
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    found = (_expiry(value, depth - 1) for value in said.values())
    return next((until for until in found if until is not None), None)
