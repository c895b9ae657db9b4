"""Stored sessions: listed, named, archived, forked and deleted, whether they are open or not.

Each method asks the agent if it decides, and stores its answer beside the session's log.
"""

import contextlib
import functools
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Raw

from ... import schema as s
from ...errors import InvalidParams, InvalidRequest, ResourceNotFound
from ..gateway import PAGE
from ..log.records import changed, members, raw, session_of, text
from ..log.session_facts import ListedSession, SessionFacts
from ..sessions.hosted_session import HostedSession

if TYPE_CHECKING:
    from .client_connection import ClientConnection

ARCHIVED = {"exclude": (False,), "include": (False, True), "only": (True,)}


class KeptSessions:
    """The requests of a client about stored sessions."""

    def __init__(self, client: "ClientConnection") -> None:
        self._client, self._gateway = client, client.gateway

    async def list(self, asked: s.ListSessionsRequest) -> Raw:
        place = _place(asked.cursor)
        if (wanted := ARCHIVED.get(asked.archived or "exclude")) is None:
            raise InvalidParams(f"archived is one of {', '.join(ARCHIVED)}")
        found = [
            (id, facts)
            for id, facts in await self._gateway.listed(self._client.name)
            if facts.agent == self._client.agent
            and asked.cwd in (None, facts.cwd)
            and facts.archived in wanted
            and (-facts.updated, id) > place
        ]
        more = {"nextCursor": _cursor(*found[PAGE - 1])} if len(found) > PAGE else {}
        return raw({"sessions": [_shown(id, facts) for id, facts in found[:PAGE]], **more})

    async def delete(self, params: Raw) -> Raw:
        """Delete a session, at its agent too if that can.

        A missing session, or one of another user, counts as deleted.
        """
        found = members(params)
        id = session_of(found)
        with contextlib.suppress(ResourceNotFound):
            await self._client.must_be(id, "admin")
            is_told = self._client.is_offered("session/delete")
            await self._gateway.delete(id, functools.partial(self._delete_at_agent, found) if is_told else None)
        return raw({})

    async def _delete_at_agent(self, found: dict[str, Raw], facts: SessionFacts | None) -> None:
        if facts and facts.upstream:
            upstream = await self._gateway.processes.any(facts.agent, facts.principal, facts.introduction)
            await upstream.delete(changed(found, sessionId=facts.upstream))

    async def status(self, params: Raw) -> Raw:
        """The status of a session; for an open one, the agent's answer."""
        found = members(params)
        id = session_of(found)
        await self._gateway.known(id, self._client.name)
        session = self._gateway.live.get(id)
        if session is None:
            return raw({"status": "saved"})
        return await session.link.about("session/status", found) if session.link.is_up else raw({"status": "open"})

    async def set_title(self, params: Raw) -> Raw:
        found = members(params)
        session = await self._client.having(found, "editor")
        result = await session.link.forward("session/set_title", found)
        session.facts.title = text(members(result), "title")
        await self._gateway.save_facts(session.id, session.facts)
        return result

    async def archive(self, params: Raw) -> Raw:
        """Archive a session: close it, and list it only among archived ones."""
        session, result = await self._put("session/archive", params, is_archived=True)
        await self._gateway.close(session)
        return result

    async def unarchive(self, params: Raw) -> Raw:
        was_open = session_of(members(params)) in self._gateway.live
        session, result = await self._put("session/unarchive", params, is_archived=False)
        if not was_open:
            await self._gateway.close(session)
        return result

    async def _put(self, name: str, params: Raw, *, is_archived: bool) -> tuple[HostedSession, Raw]:
        found = members(params)
        session = await self._client.having(found, "admin")
        result = raw({})
        with contextlib.suppress(
            ResourceNotFound
        ):  # an agent that has forgotten the session has nothing to archive
            result = await session.link.about(name, found)
        session.facts.archived = is_archived
        await self._gateway.save_facts(session.id, session.facts)
        return session, result

    async def fork(self, params: Raw) -> Raw:
        """Open a copy of a session, with its whole history."""
        found = members(params)
        source = await self._client.having(found, "admin")
        if source.facts.principal != self._client.name:  # the copy is in the owner's process
            raise InvalidRequest("only its owner forks a session", {"kind": "role", "needed": "owner"})
        return self._client.forked(*await self._gateway.fork(source, found, self._client))


def _shown(id: str, facts: ListedSession) -> dict[str, object]:
    moment = datetime.fromtimestamp(facts.updated, UTC).isoformat().replace("+00:00", "Z")
    further: dict[str, object] = {"archived": True} if facts.archived else {}
    further |= {"title": facts.title} if facts.title is not None else {}
    if directories := members(facts.opening).get("additionalDirectories"):
        further["additionalDirectories"] = directories
    return {"sessionId": id, "cwd": facts.cwd, "updatedAt": moment, **further}


def _cursor(id: str, facts: ListedSession) -> str:
    """The end of a page, with the time of its last session, so that none is skipped when others move."""
    return f"{facts.updated!r} {id}"


def _place(cursor: str | None) -> tuple[float, str]:
    """The sort key after which the next page begins."""
    if cursor is None:
        return -math.inf, ""
    try:
        updated, id = cursor.split(" ")
        return -float(updated), id
    except ValueError:
        raise InvalidParams("not a cursor of ours") from None
