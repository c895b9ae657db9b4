"""Sessions as a list shows them, a page at a time."""

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from .. import schema as s
from ..errors import InvalidParams
from ..foundation.documents import Document
from .lines import Head

if TYPE_CHECKING:
    from .database.database import SessionSummary

PAGE = 100  # sessions in one answer
_ARCHIVED = {None: (False,), "exclude": (False,), "include": (False, True), "only": (True,)}


def page(params: s.ListSessionsRequest, summaries: "Sequence[SessionSummary]") -> s.ListSessionsResponse:
    """The requested sessions, the newest first."""
    wanted = _ARCHIVED.get(params.archived)
    if wanted is None:
        raise InvalidParams(f"archived cannot be {params.archived!r}: it is exclude, include or only")
    after = _after(params.cursor)
    found = sorted(((-one.head.updated, one.id, one.head) for one in summaries), key=lambda one: one[:2])
    shown = [
        (place, id, head)
        for place, id, head in found
        if head.archived in wanted and params.cwd in (None, head.cwd) and (after is None or (place, id) > after)
    ]
    here = shown[:PAGE]
    return s.ListSessionsResponse(
        sessions=[_info(id, head) for _, id, head in here],
        next_cursor=_cursor(*here[-1][:2]) if len(shown) > PAGE else None,
    )


def described(head: Head) -> Document:
    """Facts about a session for the client that opens it."""
    return {"createdAt": _time(head.created), "updatedAt": _time(head.updated), "messageCount": head.prompts}


def _info(id: str, head: Head) -> s.SessionInfo:
    return s.SessionInfo(
        session_id=id,
        cwd=head.cwd,
        additional_directories=head.additional_directories,
        title=head.title,
        updated_at=_time(head.updated),
        archived=head.archived or None,
    )


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def _cursor(place: int, id: str) -> str:
    return base64.urlsafe_b64encode(f"{place} {id}".encode()).decode()


def _after(cursor: str | None) -> tuple[int, str] | None:
    if cursor is None:
        return None
    try:
        place, _, id = base64.b64decode(cursor, b"-_", validate=True).decode().partition(" ")
        return int(place), id
    except (binascii.Error, ValueError):
        raise InvalidParams("this cursor was not issued here") from None
