"""Sessions that agents have begun themselves, from a client's session: what a client asks or tells them.

Such a session has no log and no queue: it is told of in the session it was begun from, and what a client asks it
goes to the agent at once.  Its id is the agent's.
"""

import contextlib
from collections.abc import Mapping

from msgspec import Raw

from ...errors import ConnectionClosed, Error
from ..log.records import optional, text
from .hosted_session import HostedSession
from .viewer import Viewer, check_role

# What only sessions of clients can be: kept, shared, and opened again.
KEPT = {f"session/{name}" for name in ("new", "load", "resume", "fork", "list", "delete", "attach", "detach")}
KEPT |= {"session/archive", "session/unarchive"}

Seats = Mapping[str, tuple[HostedSession, Viewer]]


def begun_from(seats: Seats, name: str, params: Raw) -> tuple[HostedSession, Viewer] | None:
    """Where a client sits that sends a message about such a session; None for a message about any other."""
    if name in KEPT or not any(shared.has_begun for shared, _ in seats.values()):
        return None
    id = text(optional({"params": params}, "params"), "sessionId")
    if id is None or id in seats:
        return None
    return next((found for found in seats.values() if found[0].began(id)), None)


async def ask_begun(name: str, params: Raw, shared: HostedSession, seat: Viewer) -> Raw:
    """Ask the agent; what it tells before its answer is told before it."""
    check_role(seat.role, "editor")
    if shared.link.upstream is None:
        raise ConnectionClosed("the agent is gone")
    result = await shared.link.upstream.call(name, params)
    with contextlib.suppress(Error):  # a log that takes no more is said elsewhere
        await shared.in_order(seat)
    return result


def tell_begun(name: str, params: Raw, shared: HostedSession, seat: Viewer) -> None:
    """Tell the agent something."""
    if seat.may_edit and shared.link.upstream:
        shared.link.upstream.note(name, params)
