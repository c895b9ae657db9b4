"""The prompts of one client: taken to a session's queue, answered and cancelled."""

import asyncio
import contextlib
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Raw

from ...errors import InvalidParams, InvalidRequest
from ...roles import offered
from ..access.roles import may
from ..log.records import PROMPT, PromptEnded, members, meta, raw, session_of, text
from ..sessions.hosted_session import HostedSession
from ..sessions.prompt_queue import answer, key_of, owner
from ..sessions.viewer import Viewer

if TYPE_CHECKING:
    from .client_connection import ClientConnection

WAITING = "This prompt waits for one that is still being answered in this session."
WAITS = {"sessionUpdate": "notice", "severity": "info", "title": WAITING}
WAITS_IN_WORDS = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": WAITING}}


class ClientPrompts:
    """Passes a client's prompts to their sessions, and the outcomes back."""

    def __init__(self, client: "ClientConnection") -> None:
        self._client = client
        self._arriving: dict[str, list[asyncio.Event]] = {}  # by session; set when cancelled

    async def prompt(self, params: Raw) -> Raw:
        budget = self._client.gateway.budget
        if len(params) > budget.limits.prompt_bytes:
            raise budget.refuse("prompt_bytes")
        found = members(params)
        share = budget.take("queued_bytes", self._client.name, len(params))
        try:
            with self._arrives(session_of(found)) as cancelled:
                session, viewer = await self._client.opened(found)
                self._client.gateway.logins.check(self._client.agent, session.facts.principal)
                session.check_room()
                key = key_of(found, self._client)
                outcome = session.turns.prompt(key, found, self._client, share)
                if cancelled.is_set():
                    session.turns.cancel_one(key)
        except BaseException:
            share.give_back()
            raise
        self._show_wait(session, viewer, key)
        viewer.owed[key] = functools.partial(self._answer, self._client.connection.answering)
        while True:
            try:
                number, ended = await asyncio.shield(outcome)
                await viewer.reached(number)
                return answer(ended)
            except asyncio.CancelledError:
                if self._client.connection.closed:  # disconnecting does not cancel
                    raise
                session.turns.cancel_one(key)
            finally:
                if outcome.done():
                    viewer.owed.pop(key, None)

    def _show_wait(self, session: HostedSession, viewer: Viewer, key: str) -> None:
        """Tell a client that its prompt waits for one from another connection, unless it knows otherwise.

        A client that sends a second prompt over its own connection knows of the first.
        """
        running = session.turns.running
        waits = running and running.key != key and any(turn.key == key for turn in session.turns.waiting)
        if running and waits and running.key not in viewer.owed and not self._client.knows_us:
            viewer.show_alone(WAITS if offered(self._client.offers, "session.notices") else WAITS_IN_WORDS)

    def _answer(self, request: int, ended: PromptEnded) -> None:
        """Answer a prompt once its client has got everything before its outcome."""
        if ended.error:
            self._client.connection.peer.fail(request, ended.error.error())
        else:
            self._client.connection.answer_early(request, ended.result)

    @contextlib.contextmanager
    def _arrives(self, session: str) -> Iterator[asyncio.Event]:
        """Note a prompt that is not queued yet; returns an event that is set if it is cancelled before."""
        cancelled = asyncio.Event()
        arriving = self._arriving.setdefault(session, [])
        arriving.append(cancelled)
        try:
            yield cancelled
        finally:
            arriving.remove(cancelled)
            if not arriving:
                del self._arriving[session]

    def cancel(self, id: str) -> None:
        for cancelled in self._arriving.get(id, ()):
            cancelled.set()
        if session := self._client.gateway.live.get(id):
            session.turns.cancel(self._client)

    async def cancel_queued(self, params: Raw) -> Raw:
        found = members(params)
        session = await self._client.having(found, "editor")
        key = key_of(found, self._client) if PROMPT in meta(found) else text(found, "prompt") or ""
        if not key.startswith(owner(self._client.name)) and not may(
            session.facts.role_of(self._client.name), "admin"
        ):
            raise InvalidRequest("only an admin of the session may cancel the prompts of others")
        if not session.turns.cancel_one(key):
            raise InvalidParams("there is no such prompt in the queue")
        return raw({})
