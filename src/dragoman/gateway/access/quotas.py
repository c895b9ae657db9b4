"""How much one principal may have, and how it is told that it has that much already."""

from msgspec import Struct

from ...errors import Overloaded

RETRY_AFTER = 5  # seconds

MIB = 1024 * 1024
# What a limit counts, where its name does not say it, and what to do about it.
_WORDS = {"kept": "kept sessions"}
_ADVICE = {"kept": "; delete some, or have the gateway do it (dragoman serve --keep-days)"}


class Quotas(Struct, frozen=True, kw_only=True):
    """Quotas; each has a clear error of its own."""

    connections: int = 2000  # of everybody
    connections_each: int = 50  # of one principal
    sessions: int = 100  # that are open, of one principal
    kept: int = 10_000  # and that are kept
    processes: int = 10  # of one principal
    queue: int = 32  # prompts of one session that wait
    prompt_bytes: int = 16 * MIB
    session_bytes: int = 1024 * MIB  # of one session's log
    turn_seconds: float = 3600.0
    cancel_seconds: float = 30.0  # an agent has to stop when it is told to, before it is ended
    owner_seconds: float = 30.0  # a request waits for the client that owns the workspace to come back
    mcp_servers: int = 32  # of one session
    warn_lag: int = 2_000  # records a viewer may be behind before it is warned
    evict_lag: int = 20_000  # and before it is sent away,
    lag_seconds: float = 10.0  # if it has not caught up for this long


def draining() -> Overloaded:
    """The error of whoever wants something new of a gateway that is about to stop."""
    return Overloaded("this gateway is about to stop", {"kind": "draining", "retryAfter": RETRY_AFTER})


def exceeded(limit: str, most: float) -> Overloaded:
    """The error of whoever wants more than a limit allows."""
    what = _WORDS.get(limit, limit.replace("_", " "))
    return Overloaded(
        f"no more than {most:g} {what} are allowed here{_ADVICE.get(limit, '')}",
        {"kind": "quota", "limit": limit, "max": most, "retryAfter": RETRY_AFTER},
    )
