"""Durable sessions for any agent: list, load, resume, fork, delete, archive, titles, without a line of its own."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar, overload

import msgspec
from msgspec import Raw

from .. import schema as s
from ..agent.agent import Agent, with_value
from ..agent.turn import AgentSession, Turn, new_id
from ..errors import ConnectionClosed, InternalError, InvalidParams, LocalProtocolError, RpcError
from ..foundation.owning import cancel_once
from ..roles import overrides
from ..transports import Transport
from .errors import SessionUnknown
from .lines import (
    Archived,
    Chosen,
    Event,
    Head,
    Opened,
    StateChange,
    Titled,
    TurnBegan,
    TurnEnded,
    event_of,
    now,
    own,
    raw_blocks,
    values,
)
from .listing import described, page
from .outbox import EVENT, SAVED, Outbox, note
from .replay import Replay
from .state import KeptState, all_encoded
from .store import Store

log = logging.getLogger("dragoman")

A = TypeVar("A", bound=Agent)
MAX_TITLE = 500
OFFERED = (
    *("list_sessions", "load_session", "resume_session", "fork_session", "delete_session"),
    *("archive_session", "unarchive_session", "session_status", "set_title"),
)


@overload
def durable(agent: type[A]) -> type[A]: ...
@overload
def durable(agent: type[A], store: Store | str | None, *, name: str | None = None) -> type[A]: ...
@overload
def durable(*, store: Store | str | None = None, name: str | None = None) -> Callable[[type[A]], type[A]]: ...
def durable(agent: Any = None, store: Store | str | None = None, *, name: str | None = None) -> Any:
    """Make an agent class that stores its sessions: `serve(durable(MyAgent))`, or `@durable` above the class.

    The agent's own methods stay in use.  `name` distinguishes its sessions from those of other agents in the store.
    """
    if agent is None:
        return functools.partial(durable, store=store, name=name)
    if not (isinstance(agent, type) and issubclass(agent, Agent)):
        raise TypeError(f"durable takes an agent class, not {agent!r}")
    own_answers = {method: getattr(agent, method) for method in OFFERED if overrides(agent, method)}
    members = {
        **own_answers,
        "store": store if isinstance(store, Store) else Store(store),
        "store_name": name or (agent.info.name if agent.info else agent.__name__),
        "__doc__": agent.__doc__,
        "__module__": agent.__module__,
        "__qualname__": agent.__qualname__,
    }
    return type(agent.__name__, (_Durable, agent), members)


class _Durable(Agent):
    """Stores the sessions of the agent class it is combined with."""

    store: ClassVar[Store]
    store_name: ClassVar[str]

    async def __aenter__(self) -> Self:
        await self.store.__aenter__()
        self._back: dict[str, tuple[Head, dict[str, bytes]]] = {}  # sessions being reopened, with their state
        self._saved: dict[str, dict[str, bytes]] = {}  # the authors' states as they are stored
        self._turns: dict[str, tuple[str, asyncio.Task[object]]] = {}  # turns under way: their ids and tasks
        wire = self.client.wire
        self._flush = wire.through(self._with_outbox)
        try:
            return await super().__aenter__()
        except BaseException:
            await self.store.__aexit__()
            raise

    def _with_outbox(self, transport: Transport) -> Outbox:
        self._outbox = Outbox(transport, self.store, self._give_up)
        return self._outbox

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await super().__aexit__(kind, exc, traceback)
        finally:
            try:
                if self._saved:
                    ids = list(self._saved)
                    await self.store.commit(lambda db: db.release(ids, self))
            except Exception as failure:
                log.error("sessions were not let go of: %s", failure)
            finally:
                await self.store.__aexit__()

    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse:
        self.client.wire.after_answer(self.store.warm_up)
        return await super().initialize(params)

    # Storing

    def _record(self, session_id: str, event: Event) -> None:
        self.client.notify(EVENT, note(session_id, event))

    async def _stored(self, session_id: str) -> None:
        """Return once everything sent in a session is stored."""
        self._flush()
        await self._outbox.check(session_id)

    def _give_up(self, session_id: str) -> None:
        """Stop a turn whose updates cannot be stored."""
        if turn := self._turns.get(session_id):
            cancel_once(turn[1])

    async def _save(self, session: AgentSession) -> None:
        """Store changes of the author's state; raises for values that cannot be stored, and stores the rest."""
        problems = self._note_state(session)
        await self._stored(session.id)
        if problems:
            raise TypeError("; ".join(problems))

    def _note_state(self, session: AgentSession) -> list[str]:
        """Store changes of the author's state; returns the error for values that cannot be stored."""
        saved = self._saved.get(session.id)
        if saved is None:
            raise LocalProtocolError("the session is closed; its state cannot be saved")
        kept, problems = all_encoded(session.state, saved)
        put = {key: Raw(value) for key, value in kept.items() if saved.get(key) != value}
        drop = [key for key in saved if key not in kept]
        if put or drop:
            self.client.notify(SAVED, note(session.id, StateChange(put=put, drop=drop)))
            self._saved[session.id] = kept
        return problems

    # Sessions

    async def opened(self, session: AgentSession) -> None:
        back = self._back.get(session.id)
        if back is None:
            made = Opened(
                agent=self.store_name,
                cwd=session.cwd,
                additional_directories=session.additional_directories,
                at=now(),
            )
            await self.store.commit(lambda db: db.create(session.id, made, self))
            self._keep(session, {})
        else:
            self._restore(session, *back)
        await super().opened(session)

    def _keep(self, session: AgentSession, state: dict[str, bytes]) -> None:
        self._saved[session.id] = state
        session.state = KeptState(session.state)
        session.keeper = self._save
        self._outbox.keep(session.id)

    def _restore(self, session: AgentSession, head: Head, state: dict[str, bytes]) -> None:
        if head.mode in {mode.id for mode in self.modes}:
            session.mode = head.mode
        session.config_options = [_as_it_was(option, head.config) for option in session.config_options]
        session.state.update({key: msgspec.json.decode(value) for key, value in state.items()})
        self._keep(session, state)

    async def _bring_back(
        self, params: s.LoadSessionRequest | s.ResumeSessionRequest
    ) -> tuple[AgentSession, Head, list[str]]:
        """Open a session again; returns it, its stored facts and its damage."""
        self._check(params)
        id = params.session_id
        await self._check_known(id)
        held = await self.store.commit(lambda db: db.acquire(id, self))
        damages = [held.suspect] if held.suspect else []
        if id in self._turns:  # a turn is running in the session; it goes on with it
            return self.session(id), held.head, damages
        session, damaged_states = await self._reopened(id, params, held.head)
        return session, held.head, damages + damaged_states

    async def _reopened(
        self,
        id: str,
        params: s.LoadSessionRequest | s.ResumeSessionRequest | s.ForkSessionRequest,
        head: Head,
    ) -> tuple[AgentSession, list[str]]:
        state, damages = await self.store.run(lambda db: db.states(id, head))
        self._back[id] = head, state
        try:
            return await self.open_session(id, params), damages
        except BaseException:
            await self.store.commit(lambda db: db.release([id], self))
            raise
        finally:
            del self._back[id]

    async def load_session(self, params: s.LoadSessionRequest) -> s.LoadSessionResponse:
        self._flush()
        await self._outbox.stored()
        with self._outbox.holding(
            params.session_id in self._turns
        ):  # from now on, updates of a turn come after all of this
            session, head, damages = await self._bring_back(params)
            replay = Replay(session.id, self._outbox, damages)
            async with contextlib.aclosing(self.store.read(session.id, head.last)) as parts:
                await replay.run(parts)
        return s.LoadSessionResponse(
            modes=self.mode_state(session),
            config_options=self.option_state(session),
            meta={"dragoman": {**described(head), "damaged": replay.damages}},
        )

    async def resume_session(self, params: s.ResumeSessionRequest) -> s.ResumeSessionResponse:
        self._flush()
        await self._outbox.stored()
        session, head, damages = await self._bring_back(params)
        return s.ResumeSessionResponse(
            modes=self.mode_state(session),
            config_options=self.option_state(session),
            meta={"dragoman": {**described(head), "damaged": damages}},
        )

    async def fork_session(self, params: s.ForkSessionRequest) -> s.ForkSessionResponse:
        self._check(params)
        await self._check_known(params.session_id)
        if params.session_id in self.sessions:
            await self._stored(params.session_id)
        id = new_id("sess")
        made = Opened(
            agent=self.store_name,
            cwd=params.cwd,
            additional_directories=params.additional_directories,
            forked_from=params.session_id,
            at=now(),
        )
        forked = await self.store.commit(lambda db: db.fork(params.session_id, id, made, self))
        session, _ = await self._reopened(id, params, forked.head)
        return s.ForkSessionResponse(
            session_id=id, modes=self.mode_state(session), config_options=self.option_state(session)
        )

    async def list_sessions(self, params: s.ListSessionsRequest) -> s.ListSessionsResponse:
        summaries = await self.store.run(lambda db: list(db.summaries()))
        return page(
            params, [one for one in summaries if self._is_ours(one.head) and not self.store.is_expired(one.head)]
        )

    async def close_session(self, params: s.CloseSessionRequest) -> s.CloseSessionResponse:
        id = params.session_id
        response = await super().close_session(params)
        with contextlib.suppress(RpcError):
            await self._stored(id)
        self._outbox.forget(id)
        self._saved.pop(id, None)
        await self.store.commit(lambda db: db.release([id], self))
        return response

    async def _close_if_open(self, session_id: str) -> None:
        if session_id in self.sessions:
            await self.close_session(s.CloseSessionRequest(session_id=session_id))

    async def delete_session(self, params: s.DeleteSessionRequest) -> s.DeleteSessionResponse:
        try:
            await self._ours(params.session_id)
        except SessionUnknown:  # it may be deleted while its remains could not be removed
            await self.store.run(lambda db: db.remove_leftovers())
            return s.DeleteSessionResponse()
        await self._close_if_open(params.session_id)
        await self.store.run(lambda db: db.delete(params.session_id))
        return s.DeleteSessionResponse()

    async def archive_session(self, params: s.ArchiveSessionRequest) -> s.ArchiveSessionResponse:
        await self._check_known(params.session_id)
        await self._close_if_open(params.session_id)
        await self._append(params.session_id, Archived(archived=True))
        return s.ArchiveSessionResponse()

    async def unarchive_session(self, params: s.UnarchiveSessionRequest) -> s.UnarchiveSessionResponse:
        await self._check_known(params.session_id)
        await self._append(params.session_id, Archived(archived=False))
        return s.UnarchiveSessionResponse()

    async def session_status(self, params: s.SessionStatusRequest) -> s.SessionStatusResponse:
        await self._check_known(params.session_id)
        return s.SessionStatusResponse(status="open" if params.session_id in self.sessions else "saved")

    async def set_title(self, params: s.SetSessionTitleRequest) -> s.SetSessionTitleResponse:
        title = " ".join(params.title.split())[:MAX_TITLE]
        if not title:
            raise InvalidParams("the title is empty")
        await self._check_known(params.session_id)
        await self._append(params.session_id, Titled(title=title))
        return s.SetSessionTitleResponse(title=title)

    def _is_ours(self, head: Head) -> bool:
        return head.agent in (self.store_name, "")  # the name may be lost by damage

    async def _ours(self, id: str) -> Head:
        summary = await self.store.run(lambda db: db.summary(id))
        if not self._is_ours(summary.head):
            raise SessionUnknown(id)
        return summary.head

    async def _check_known(self, id: str) -> None:
        """Refuse a session that is missing, belongs to another agent, or was not used for too long."""
        head = await self._ours(id)
        if id not in self.sessions:
            self.store.check_age(id, head)

    async def _append(self, id: str, event: Event) -> None:
        """Add an event to a session, open or not."""
        if id in self.sessions:
            if id in self._outbox.failures and id not in self._turns:
                await self._try_again(id)
            self._record(id, event)
            await self._stored(id)
        else:
            await self.store.commit(lambda db: db.add(id, own(event), self))

    async def set_mode(self, params: s.SetSessionModeRequest) -> s.SetSessionModeResponse:
        response = await super().set_mode(params)
        await self._append(params.session_id, Chosen(mode=params.mode_id))
        return response

    async def set_config_option(self, params: s.SetSessionConfigOptionRequest) -> s.SetSessionConfigOptionResponse:
        response = await super().set_config_option(params)
        await self._append(params.session_id, Chosen(config=values(self.session(params.session_id).config_options)))
        return response

    # Prompts

    async def answer(self, turn: Turn) -> s.StopReason | None:
        id, task = turn.session.id, asyncio.current_task()
        assert task
        self._turns[id] = new_id("turn"), task
        if id in self._outbox.failures:
            await self._try_again(id)
        known_as = turn.message_id or ""
        self._record(
            id, TurnBegan(turn=self._turns[id][0], prompt=raw_blocks(turn.prompt), at=now(), message=known_as)
        )
        await self._stored(id)  # before the model sees it
        return await super().answer(turn)

    async def _try_again(self, id: str) -> None:
        """Try to store again after a failure; first end the turn in which it failed."""
        self._saved[id], _ = await self.store.run(lambda db: db.states(id, db.summary(id).head))
        self._outbox.keep(id)
        for line in await self.store.run(lambda db: db.closing(id)):
            if isinstance(event := event_of(line), TurnEnded):
                self._record(id, event)
            else:
                self.client.update(s.SessionNotification(session_id=id, update=Raw(line)))

    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse:
        id, task = params.session_id, asyncio.current_task()
        try:
            response = await super().prompt(params)
        except ConnectionClosed:
            raise
        except Exception as exc:
            self._end(id, task, error=str(exc) if isinstance(exc, RpcError) else type(exc).__name__)
            raise
        lost = self._end(id, task, response.stop_reason)
        if id in self._saved:
            await self._stored(id)
        if lost and response.stop_reason != "cancelled":
            raise InternalError(lost)
        return response

    def _end(self, id: str, task: object, stop_reason: str | None = None, error: str | None = None) -> str | None:
        """Note a turn's end, unless it never began; if the client has disconnected, the turn was cut short.

        Returns the error of the author's state, if any.
        """
        turn = self._turns.get(id)
        if turn is None or turn[1] is not task:
            return None
        del self._turns[id]
        lost: str | None = None
        with contextlib.suppress(ConnectionClosed):
            if (session := self.sessions.get(id)) and id in self._saved:
                lost = "; ".join(self._note_state(session)) or None
            self._record(id, TurnEnded(turn=turn[0], stop_reason=stop_reason, error=error or lost, at=now()))
        if lost:
            log.error("session %s: %s", id, lost)
        return lost


def _as_it_was(option: s.SessionConfigOption, config: dict[str, str | bool]) -> s.SessionConfigOption:
    """An option with its stored value, or with its own if it no longer offers the stored one."""
    value = config.get(getattr(option, "id", ""))
    if value is None:
        return option
    try:
        return with_value(option, value)
    except InvalidParams:
        return option
