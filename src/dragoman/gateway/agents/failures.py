"""Delays the next start of an agent that fails repeatedly, for each principal."""

import math
import time
from collections.abc import Callable

from msgspec import Struct

from ...errors import Overloaded
from ..access.principals import PerPrincipal, PrincipalName

LONGEST = 60.0  # the longest wait before a start, in seconds
FORGOTTEN = 300.0  # seconds without a failure after which earlier failures do not count


class _Failures(Struct):
    count: int = 0
    last: float = -math.inf


class AgentFailures:
    """Counts failures of agents by principal; after `free` failures, each further one doubles the pause."""

    def __init__(self, free: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._free, self._clock = free, clock
        self._found: PerPrincipal[str, _Failures] = PerPrincipal()

    def add(self, principal: PrincipalName, agent: str) -> None:
        """Note that an agent did not start, ended by itself, or had to be killed."""
        now = self._clock()
        found = self._found.find(principal, agent)
        if found is None or now - found.last > FORGOTTEN:
            found = _Failures()
            self._found.put(principal, agent, found)
        found.count, found.last = found.count + 1, now

    def wait(self, principal: PrincipalName, agent: str) -> float:
        """The seconds until an agent may be started again."""
        found = self._found.find(principal, agent)
        if found is None or found.count <= (free := self._free()):
            return 0.0
        pause = min(LONGEST, 2.0 ** min(found.count - free - 1, 10))
        return max(0.0, found.last + pause - self._clock())

    def check(self, principal: PrincipalName, agent: str) -> None:
        """Raise Overloaded while an agent may not be started."""
        if wait := self.wait(principal, agent):
            raise Overloaded(
                f"the agent {agent} fails repeatedly; its next start is in {math.ceil(wait)} s",
                {"kind": "agent_start", "retryAfter": math.ceil(wait)},
            )

    def count(self, principal: PrincipalName, agent: str) -> int:
        found = self._found.find(principal, agent)
        return found.count if found else 0

    def forget(self, agent: str) -> None:
        """Clear an agent's failures after the operator has repaired it."""
        for principal, name, _ in self._found.entries():
            if name == agent:
                self._found.drop(principal, name)

    def tidy(self) -> None:
        """Drop old failures."""
        now = self._clock()
        for principal, name, found in self._found.entries():
            if now - found.last > FORGOTTEN:
                self._found.drop(principal, name)
