"""Logging in to an agent through a gateway: what is said there passes as it is, and how long it holds is kept.

Credentials (an API key, a token of OAuth 2, whatever an agent calls its own) are between client and agent: they
stand in no log, no record and no error of ours.
"""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import AuthRequired

MAX_FAILURES = 3  # of one connection, after which it is ended
EXPIRES = "expiresAt"


class Logins:
    """Until when each principal is logged in to each agent."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def note(self, agent: str, principal: str, result: Raw) -> None:
        """An agent has let somebody in."""
        self._until.pop((agent, principal), None)
        if (until := _expiry(msgspec.json.decode(result))) is not None:
            self._until[agent, principal] = until

    def forget(self, agent: str, principal: str) -> None:
        self._until.pop((agent, principal), None)

    def check(self, agent: str, principal: str) -> None:
        """Raise when a login has run out; without one it is for the agent to say."""
        if time.time() >= self._until.get((agent, principal), math.inf):
            raise AuthRequired("the login to the agent has expired; authenticate again", {"kind": "expired"})


def _expiry(said: Any, depth: int = 3) -> float | None:
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
