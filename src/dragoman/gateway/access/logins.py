"""Logging in to an agent through a gateway: what is said there passes as it is, and how long it holds is kept.

Credentials (an API key, a token of OAuth 2, whatever an agent calls its own) are between client and agent: they
stand in no log, no record and no error of ours.
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
    """Until when each principal is logged in to each agent."""

    def __init__(self) -> None:
        self._until: PerPrincipal[str, float] = PerPrincipal()  # by agent

    def note(self, agent: str, principal: PrincipalName, result: Raw) -> None:
        """An agent has let somebody in."""
        self._until.drop(principal, agent)
        if (until := _expiry(msgspec.json.decode(result))) is not None:
            self._until.put(principal, agent, until)

    def forget(self, agent: str, principal: PrincipalName) -> None:
        self._until.drop(principal, agent)

    def check(self, agent: str, principal: PrincipalName) -> None:
        """Raise when a login has run out; without one it is for the agent to say."""
        until = self._until.find(principal, agent)
        if until is not None and time.time() >= until:
            raise AuthRequired("the login to the agent has expired; authenticate again", {"kind": "expired"})


def _expiry(said: object, depth: int = 3) -> float | None:
    """When a login ends, wherever a dialect has put that: in the answer, or in what it carries along."""
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
