"""The agent behind a session in a changing process: starts it, reopens the session, and sends requests."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
from msgspec import Raw

from ... import schema as s
from ...errors import ConnectionClosed, Error, InvalidParams, RpcError
from ...foundation.places import Place
from ...transcript import Message, ToolCallEntry, Transcript
from ..access.workspaces import directories_of
from ..agents.upstream import Party, Upstream
from ..log.logs import records
from ..log.records import changed, members, optional, raw, update_params
from ..log.session_facts import SessionFacts
from .history import History
from .services import SessionServices

log = logging.getLogger("dragoman")

PRIMER = 32 * 1024  # characters of the earlier conversation for an agent that has forgotten it
STORY = 10_000  # records searched for them


Ready = tuple[Upstream, str, Sequence[object]]  # an agent, its id of the session, and the text that reminds it


class AgentLink:
    """Connects one session, a `Party`, with its agent."""

    def __init__(
        self, id: str, facts: SessionFacts, party: Party, history: History, services: SessionServices
    ) -> None:
        self._id, self._facts, self._party, self._history, self._services = id, facts, party, history, services
        self.upstream: Upstream | None = None
        self.is_swallowing = False  # the agent replays updates that are in the log already
        self._primer: list[object] = []
        self._linking = asyncio.Lock()
        self._stays_with: Upstream | None = None  # no other process of the agent can continue the session

    @property
    def is_up(self) -> bool:
        """Whether an agent has the session open."""
        return self.upstream is not None and self.upstream.is_alive

    async def open(self, upstream: Upstream) -> Raw:
        """Open the session at an agent; returns its answer."""
        with self._places(upstream) as places:
            id, result = await upstream.open("session/new", raw(self._party.servers.told()), self._party)
            await self._use(upstream, id, places)
        return result

    async def ready(self, *, may_move: bool = False) -> Ready:
        """The agent, started and with the session reopened if necessary, and the text that reminds it.

        With `may_move`, for an idle session, the session may move to a process that knows the present clients.
        """
        async with self._linking:
            if may_move and self.upstream and self._is_to_move(self.upstream):
                await self._move(self.upstream)
            upstream = self.upstream
            if upstream is None or not upstream.is_alive:
                upstream = await self._process()
                if not await self._is_gone_on_with(upstream):
                    await self.open(upstream)
                    self._primer = await self._reminder()
                await self._services.save_facts(self._id, self._facts)
            return upstream, self._facts.upstream, self._primer

    def _is_to_move(self, upstream: Upstream) -> bool:
        """Whether the clients that a process knows have left, and the session can continue in another one."""
        if not upstream.is_alive or upstream is self._stays_with:
            return False
        if self._party.introduction() == upstream.introduction:
            return False
        return upstream.can_give_up(self._facts.upstream)

    async def _move(self, upstream: Upstream) -> None:
        """Close the session in one process and continue it in another; it stays if that is refused."""
        told, id = self._facts.introduction, self._facts.upstream
        try:
            other = await self._process()
        except Error as exc:  # there is no room for another one, or it does not start
            log.info("a session stays with its agent's process: %s", exc)
            self._facts.introduction = told
            return
        self.upstream = None
        await upstream.release(id)
        if not await self._is_gone_on_with(other):
            self._facts.introduction, self._stays_with = told, upstream
            await self._is_gone_on_with(upstream)
        elif not upstream.offers.session_capabilities.close:
            await self._services.finish(upstream.close())

    async def about(self, name: str, found: dict[str, Raw]) -> Raw:
        """Send the agent a request about the session without opening it there."""
        upstream = self.upstream
        if upstream is None or not upstream.is_alive:
            upstream = await self._process()
        return await upstream.call(name, changed(found, sessionId=self._facts.upstream))

    async def fork(self, party: Party) -> tuple[Upstream, str, Raw]:
        """Fork the session at the agent, for another party."""
        upstream, id, _ = await self.ready()
        return upstream, *await upstream.open("session/fork", changed(party.servers.told(), sessionId=id), party)

    async def adopt(self, upstream: Upstream, id: str) -> None:
        """Adopt a session that an agent has opened already."""
        with self._places(upstream) as places:
            await self._use(upstream, id, places)

    async def _process(self) -> Upstream:
        facts = self._facts
        facts.introduction = self._party.introduction()
        return await self._services.processes.get(facts.agent, facts.principal, facts.introduction, self._id)

    def reminded(self) -> None:
        """Note that the agent has got the reminder."""
        self._primer = []

    async def forward(self, name: str, found: dict[str, Raw]) -> Raw:
        """Send the agent a request about this session."""
        upstream, id, _ = await self.ready()
        return await upstream.call(name, changed(found, sessionId=id))

    def tell(self, name: str, found: dict[str, Raw]) -> None:
        """Notify the agent about this session, if it has it open."""
        if self.upstream and self.upstream.is_alive:
            self.upstream.note(name, changed(found, sessionId=self._facts.upstream))

    async def close(self, *, is_told: bool) -> None:
        """Release the agent, and close the session there unless it ends anyway."""
        upstream, self.upstream = self.upstream, None
        if upstream and is_told:
            await upstream.release(self._facts.upstream)
        elif upstream:
            upstream.forget(self._facts.upstream)

    async def _is_gone_on_with(self, upstream: Upstream) -> bool:
        """Resume or load the session at an agent; false if it cannot or has forgotten the session."""
        id, offers = self._facts.upstream, upstream.offers
        way = "session/resume" if offers.session_capabilities.resume else "session/load"
        if not id or not (offers.session_capabilities.resume or offers.load_session):
            return False
        with self._places(upstream) as places:
            upstream.adopt(id, self._party)
            self.is_swallowing = True
            try:
                result = await upstream.reopen(way, changed(self._party.servers.told(), sessionId=id))
            except RpcError as exc:
                log.info("an agent cannot go on with a session: %s", exc)
                upstream.forget(id)
                return False
            except BaseException:
                upstream.forget(id)
                raise
            finally:
                self.is_swallowing = False
            await self._use(upstream, id, places)
        self._tell_options(optional({"result": result}, "result"))
        return True

    def _tell_options(self, answer: dict[str, Raw]) -> None:
        """Send the clients the session's options in this process, if they differ from the known ones."""
        known, options = members(self._facts.state).get("configOptions"), answer.get("configOptions")
        if options is not None and msgspec.json.decode(options) != msgspec.json.decode(known or b"null"):
            update = raw({"sessionUpdate": "config_option_update", "configOptions": options})
            self._party.heard({"sessionId": raw(self._facts.upstream), "update": update})

    @contextmanager
    def _places(self, upstream: Upstream) -> Iterator[Sequence[Place]]:
        """The session's directories, opened before the agent gets them; none if its client lends them."""
        facts, workspaces = self._facts, self._services.workspaces
        with ExitStack() as opened:
            if not upstream.host:
                yield ()
                return
            cwd, *further = directories_of(members(facts.opening))
            places = [opened.enter_context(workspaces.open(facts.principal, cwd, facts.cwd))]
            yield places + [opened.enter_context(workspaces.open(facts.principal, path)) for path in further]

    async def _use(self, upstream: Upstream, id: str, places: Sequence[Place]) -> None:
        """Attach this session to an agent's; released again if its loan fails."""
        self.upstream, self._facts.upstream = upstream, id
        try:
            await self._lend(upstream, places)
        except BaseException:
            self.upstream = None
            self._services.start(upstream.release(id))
            raise

    async def _lend(self, upstream: Upstream, places: Sequence[Place]) -> None:
        if upstream.host is None:
            return
        try:
            await upstream.host.lend_places(self._facts.upstream, places)
        except (RpcError, ConnectionClosed):
            raise
        except Error as exc:
            raise InvalidParams(str(exc)) from None

    async def _reminder(self) -> list[object]:
        """The latest part of the conversation, for an agent that has forgotten it."""
        transcript, start = Transcript(), max(0, self._history.durable - STORY)
        async for record in records(self._services.engine, self._id, start):
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
