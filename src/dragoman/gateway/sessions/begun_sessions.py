"""Sessions that agents have begun themselves, from a client's session: what a client asks or tells them.

Such a session has no log and no queue: it is told of in the session it was begun from, and what a client asks it
goes to the agent at once.  Its id is the agent's.
"""

import contextlib
from collections.abc import Mapping

from msgspec import Raw

from ...errors import ConnectionClosed, Error
from ..access.roles import check_role
from ..log.records import optional, text
from .hosted_session import HostedSession
from .viewer import Viewer

# What only sessions of clients can be: kept, shared, and opened again.
KEPT = {f"session/{name}" for name in ("new", "load", "resume", "fork", "list", "delete", "attach", "detach")}
KEPT |= {"session/archive", "session/unarchive"}

Viewers = Mapping[str, tuple[HostedSession, Viewer]]


def begun_from(viewers: Viewers, name: str, params: Raw) -> tuple[HostedSession, Viewer] | None:
    """The session that such a one was begun from, and the client's viewer; None for a message about any other."""
    if name in KEPT or not any(session.has_begun for session, _ in viewers.values()):
        return None
    id = text(optional({"params": params}, "params"), "sessionId")
    if id is None or id in viewers:
        return None
    return next((found for found in viewers.values() if found[0].began(id)), None)


async def ask_begun(name: str, params: Raw, session: HostedSession, viewer: Viewer) -> Raw:
    """Ask the agent; what it tells before its answer is told before it."""
    check_role(viewer.role, "editor")
    if session.link.upstream is None:
        raise ConnectionClosed("the agent is gone")
    result = await session.link.upstream.call(name, params)
    with contextlib.suppress(Error):  # a log that takes no more is said elsewhere
        await session.clients.in_order(viewer)
    return result


def tell_begun(name: str, params: Raw, session: HostedSession, viewer: Viewer) -> None:
    """Tell the agent something."""
    if viewer.may_edit and session.link.upstream:
        session.link.upstream.note(name, params)
