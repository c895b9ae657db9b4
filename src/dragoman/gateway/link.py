"""The agent behind a session, whichever process it is: started, told of the session again, and asked."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from .. import schema as s
from ..errors import ConnectionClosed, Error, InternalError, InvalidParams, RpcError
from ..transcript import Message, ToolCallEntry, Transcript
from .card import Card
from .desk import Desk
from .history import History
from .logs import records
from .records import changed, members, raw, update_params
from .upstream import Party, Upstream

log = logging.getLogger("dragoman")

PRIMER = 32 * 1024  # characters of an earlier conversation told to an agent that has forgotten it
STORY = 10_000  # records looked through for them
CLOSE_TIMEOUT = 30.0


class Link:
    """Leads from one session, which is a `Party`, to its agent."""

    def __init__(self, id: str, card: Card, party: Party, history: History, desk: Desk) -> None:
        self._id, self._card, self._party, self._history, self._desk = id, card, party, history, desk
        self.upstream: Upstream | None = None
        self.is_swallowing = False  # the agent tells what is in the log already
        self._primer: list[Any] = []
        self._linking = asyncio.Lock()

    async def open(self, upstream: Upstream) -> Raw:
        """Have an agent open the session; gives what it answers."""
        opening = members(self._card.opening)
        id, result = await upstream.open("session/new", raw(opening), self._party)
        self.upstream, self._card.upstream = upstream, id
        await self._lend(upstream)
        return result

    async def ready(self) -> tuple[Upstream, str, Sequence[Any]]:
        """The agent, started and told of the session again if need be; and what it has to be reminded of."""
        async with self._linking:
            if self.upstream is None or not self.upstream.is_alive:
                upstream = await self._desk.processes.get(self._card.agent, self._card.principal, self._id)
                if not await self._is_gone_on_with(upstream):
                    await self.open(upstream)
                    self._primer = await self._reminder()
                await self._desk.save_card(self._id, self._card)
            assert self.upstream
            primer, self._primer = self._primer, []
            return self.upstream, self._card.upstream, primer

    async def forward(self, name: str, found: dict[str, Raw]) -> Raw:
        """Ask the agent something about this session."""
        upstream, id, _ = await self.ready()
        try:
            return await upstream.call(name, changed(found, sessionId=id))
        except ConnectionClosed as exc:
            raise InternalError(str(exc).partition("; its stderr")[0]) from None

    async def close(self, *, is_told: bool) -> None:
        """Let the agent go, and tell it so unless it ends anyway."""
        upstream, self.upstream = self.upstream, None
        if upstream is None:
            return
        upstream.parties.pop(self._card.upstream, None)
        if is_told and upstream.is_alive and upstream.offers.session_capabilities.close:
            try:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._close(upstream)
            except (Error, TimeoutError) as exc:
                log.info("an agent did not close a session: %s", exc)

    async def _close(self, upstream: Upstream) -> None:
        if upstream.host:
            upstream.host.agent.offers = upstream.offers
            await upstream.host.close_session(self._card.upstream)
        else:
            await upstream.call("session/close", raw({"sessionId": self._card.upstream}))

    async def _is_gone_on_with(self, upstream: Upstream) -> bool:
        """Have an agent that can resume or load the session do so; false for one that cannot, or has forgotten."""
        id, offers = self._card.upstream, upstream.offers
        way = "session/resume" if offers.session_capabilities.resume else "session/load"
        if not id or not (offers.session_capabilities.resume or offers.load_session):
            return False
        upstream.adopt(id, self._party)
        self.is_swallowing = True
        try:
            await upstream.call(way, changed(members(self._card.opening), sessionId=id))
        except RpcError as exc:
            log.info("an agent cannot go on with a session: %s", exc)
            upstream.parties.pop(id, None)
            return False
        finally:
            self.is_swallowing = False
        self.upstream = upstream
        await self._lend(upstream)
        return True

    async def _lend(self, upstream: Upstream) -> None:
        if upstream.host is None:
            return
        opening = members(self._card.opening)
        further = msgspec.json.decode(opening.get("additionalDirectories", b"[]"), type=list[str])
        try:
            await upstream.host.lend(self._card.upstream, self._card.cwd, additional_directories=further)
        except (RpcError, ConnectionClosed):
            raise
        except Error as exc:
            raise InvalidParams(str(exc)) from None

    async def _reminder(self) -> list[Any]:
        """What was said so far, the latest of it, for an agent that does not know."""
        transcript, start = Transcript(), max(0, self._history.durable - STORY)
        async for record in records(self._desk.engine, self._id, start):
            if (params := update_params(record.entry.frame)) is not None:
                transcript.apply(_readable(params))
        lines = []
        for entry in transcript.entries:
            if isinstance(entry, Message) and entry.speaker != "thought":
                lines.append(f"{entry.speaker}: {entry.text}")
            elif isinstance(entry, ToolCallEntry):
                lines.append(f"tool: {entry.title} ({entry.status})")
        story = "\n".join(lines)[-PRIMER:]
        return (
            [{"type": "text", "text": f"(The conversation so far, for you to go on with)\n{story}"}]
            if story
            else []
        )


def _readable(params: Raw) -> Any:
    try:
        return msgspec.json.decode(params, type=s.SessionNotification).update
    except msgspec.DecodeError:
        return s.AgentThoughtChunk(content=s.TextContent(text=""))
