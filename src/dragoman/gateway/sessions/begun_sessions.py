"""Sessions that agents have begun themselves from a client's session, and clients' messages to them.

Such a session has no log and no queue: its updates are in the session it was begun from, and requests go to the
agent at once.  Its id is the agent's.
"""

import contextlib
from collections.abc import Mapping

from msgspec import Raw

from ...errors import ConnectionClosed, Error
from ..access.roles import check_role
from ..log.records import optional, text
from .hosted_session import HostedSession
from .viewer import Viewer

# Methods for clients' sessions only, which are stored, shared and reopened.
KEPT = {f"session/{name}" for name in ("new", "load", "resume", "fork", "list", "delete", "attach", "detach")}
KEPT |= {"session/archive", "session/unarchive"}

Viewers = Mapping[str, tuple[HostedSession, Viewer]]


def begun_from(viewers: Viewers, name: str, params: Raw) -> tuple[HostedSession, Viewer] | None:
    """The session from which a message's session was begun, and the client's viewer; None for other messages."""
    if name in KEPT or not any(session.has_begun for session, _ in viewers.values()):
        return None
    id = text(optional({"params": params}, "params"), "sessionId")
    if id is None or id in viewers:
        return None
    return next((found for found in viewers.values() if found[0].began(id)), None)


async def ask_begun(name: str, params: Raw, session: HostedSession, viewer: Viewer) -> Raw:
    """Send the agent a request; updates that it sends before its answer are sent first."""
    check_role(viewer.role, "editor")
    if session.link.upstream is None:
        raise ConnectionClosed("the agent is gone")
    result = await session.link.upstream.call(name, params)
    with contextlib.suppress(Error):  # a broken log is reported elsewhere
        await session.clients.in_order(viewer)
    return result


def tell_begun(name: str, params: Raw, session: HostedSession, viewer: Viewer) -> None:
    """Notify the agent."""
    if viewer.may_edit and session.link.upstream:
        session.link.upstream.note(name, params)
