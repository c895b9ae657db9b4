"""The limits of a gateway, a principal, a session and a turn: one row for each limit, with a default.

The configuration file, the flags of `dragoman serve` and the documentation read these rows.
"""

from collections.abc import Sequence
from typing import Annotated, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from ...errors import Overloaded

RETRY_AFTER = 5  # seconds

MIB = 1024 * 1024


def _row(words: str, least: float = 1) -> Meta:
    return Meta(description=words, ge=least)


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a gateway; `…_each` is a principal's share of the previous limit."""

    connections: Annotated[int, _row("connections of all clients")] = 10_000
    connections_each: Annotated[int, _row("connections of one principal")] = 50
    sockets: Annotated[int, _row("open sockets, those of clients that are not known yet included")] = 20_000
    descriptors: Annotated[int, _row("file descriptors that new sockets and agents leave free", 8)] = 64
    sessions: Annotated[int, _row("open sessions of all principals")] = 10_000
    sessions_each: Annotated[int, _row("open sessions of one principal")] = 100
    kept_each: Annotated[int, _row("kept sessions of one principal")] = 10_000
    processes: Annotated[int, _row("agent processes of all principals")] = 1_000
    processes_each: Annotated[int, _row("agent processes of one principal")] = 10
    requests: Annotated[int, _row("unanswered requests of all clients")] = 50_000
    requests_each: Annotated[int, _row("unanswered requests of one principal")] = 2_000
    queued_bytes: Annotated[int, _row("bytes of unanswered prompts of all principals")] = 512 * MIB
    queued_bytes_each: Annotated[int, _row("bytes of unanswered prompts of one principal")] = 64 * MIB
    agent_failures: Annotated[int, _row("failures of an agent, for one principal, before its next start waits")] = 5
    stuck_seconds: Annotated[float, _row("seconds that an agent may not read what it is sent", 0)] = 60.0
    log_lines: Annotated[int, _row("lines of one kind a minute in the gateway's own log")] = 10

    queue: Annotated[int, _row("waiting prompts of one session")] = 32
    prompt_bytes: Annotated[int, _row("bytes of one prompt")] = 16 * MIB
    session_bytes: Annotated[int, _row("bytes of one session's log")] = 1024 * MIB
    mcp_servers: Annotated[int, _row("MCP servers of one session")] = 32

    turn_seconds: Annotated[float, _row("seconds that one turn may take", 0)] = 3600.0
    cancel_seconds: Annotated[float, _row("seconds that an agent may take to cancel before it is ended", 0)] = 40.0
    owner_seconds: Annotated[float, _row("seconds that a request waits for the workspace's client", 0)] = 30.0
    warn_lag: Annotated[int, _row("records that a client may be behind before it is warned")] = 2_000
    evict_lag: Annotated[int, _row("records that a client may be behind before it is disconnected")] = 20_000
    lag_seconds: Annotated[float, _row("seconds in which it may catch up before that", 0)] = 10.0


class LimitRow(Struct, frozen=True):
    """One limit, for the configuration file and the documentation."""

    name: str
    default: float
    words: str  # the counted thing, as a noun phrase
    least: float  # the smallest allowed value
    is_whole: bool


def limit_rows() -> Sequence[LimitRow]:
    """Every limit, in the order of `Limits`."""
    return list(_ROWS.values())


def _rows() -> dict[str, LimitRow]:
    hints = get_type_hints(Limits, include_extras=True)
    found = {}
    for field in msgspec.structs.fields(Limits):
        kind, meta = get_args(hints[field.name])
        found[field.name] = LimitRow(field.name, field.default, meta.description, meta.ge, kind is int)
    return found


_ROWS = _rows()
_ADVICE = {"kept_each": "; delete some, or have the gateway do it (dragoman serve --keep-days)"}


def limit_of(limits: Limits, name: str) -> float:
    """The value of a limit by its name."""
    value: float = getattr(limits, name)
    return value


def draining() -> Overloaded:
    """The error for a new request to a gateway that is about to stop."""
    return Overloaded("this gateway is about to stop", {"kind": "draining", "retryAfter": RETRY_AFTER})


def exceeded(name: str, most: float) -> Overloaded:
    """The error for a request beyond a limit."""
    return Overloaded(refusal(name, most), {"kind": "quota", "limit": name, "max": most, "retryAfter": RETRY_AFTER})


def refusal(name: str, most: float) -> str:
    """The sentence for a request beyond a limit."""
    return f"the limit {name} is reached: {most:g} {_ROWS[name].words}{_ADVICE.get(name, '')}"
