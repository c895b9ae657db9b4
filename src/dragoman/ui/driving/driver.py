"""One conversation with one agent: its connection, its session, and the prompts, sent in order."""

import asyncio
import contextlib
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, structs

from ... import schema as s
from ...client.session import Prompt, Session
from ...errors import AuthRequired, Error, ResourceNotFound
from ...foundation.owning import own
from ...host.permissions import Preset
from ...host.processes import Launch, start
from ...roles import offered
from ..headless.terms import WrongArgument
from ..headless.wording import failure_told
from ..model import events as e
from ..model import intents as i
from ..model.conversation import ConversationModel
from ..model.parts import Link, ModelChange, WaitingPrompt
from .host import ScreenHost
from .logins import AgentLogin

START_PATIENCE = 600.0  # seconds an agent may take to start; the first start may have to download it
MAX_QUEUE = 100  # waiting prompts
STEERING = "_session/steering"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds between two attempts to reconnect to a remote agent


class DriveOptions(Struct, kw_only=True):
    """The agent, the directory and the session to open."""

    agent: Launch
    cwd: str
    preset: Preset = "ask"
    session: str | None = None
    latest: bool = False
    is_again: bool = False  # the session existed before: if it is lost, a new one replaces it
    dialect: str | None = None


class ConversationDriver:
    """Drives a session for a screen: `model` is the view model, `on_change` is called with each change of it."""

    def __init__(self, options: DriveOptions, on_change: Callable[[ModelChange], None]) -> None:
        self.options = options
        self.model = ConversationModel()
        self.host = ScreenHost(options.agent, options.preset, self.tell)
        self.login = AgentLogin(self.host, self.notice)
        self.session: Session | None = None
        self.is_held = False  # waiting prompts are not sent, because the turn before them was cancelled or failed
        self._on_change = on_change
        self._numbers = itertools.count(1)
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._wanted_now = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None

    def tell(self, event: e.ModelEvent) -> None:
        """Apply an event to the view model."""
        self._on_change(self.model.apply(event))

    def notice(self, text: str, severity: str = "info") -> None:
        """Show the user a notice."""
        self.tell(e.NoticeTold(text=text, severity=severity, at=time.monotonic()))

    # The connection to the agent

    async def run(self) -> None:
        """Connect to the agent and serve the session until the connection ends; failures are shown, not raised.

        A broken connection to a remote agent is restored until the user quits.
        """
        pause, since = FIRST_PAUSE, time.monotonic()
        self.tell(e.LinkTold(link=Link(kind="starting", since=since)))
        while True:
            had_session = bool(self.model.id) and self.options.is_again
            why, was_open = await self._serve()
            if not (self.options.agent.url and (was_open or had_session)):
                return
            pause, since = (FIRST_PAUSE, time.monotonic()) if was_open else (min(pause * 2, LONGEST_PAUSE), since)
            self.tell(e.LinkTold(link=Link(kind="reconnecting", since=since, why=why)))
            self.options = structs.replace(self.options, session=self.model.id, latest=False, is_again=True)
            self._wanted_now.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted_now.wait(), pause)

    def try_now(self) -> None:
        """Reconnect now instead of waiting for the next attempt."""
        self._wanted_now.set()

    async def _serve(self) -> tuple[str, bool]:
        """Serve the session over one connection; returns why it ended, and whether the session was open."""
        options, why, was_open = self.options, "", False
        try:
            async with start(
                options.agent,
                self.host,
                cwd=options.cwd,
                dialect=options.dialect,
                start_timeout=START_PATIENCE,
            ):
                await self._open()
                was_open = True
                self.send_waiting()
                why = _told_end(await self.host.ended())
        except Error as exc:
            why = failure_told(exc, options.agent, self.host)
        finally:
            await self._wind_up(why)
        return why, was_open

    async def _wind_up(self, why: str) -> None:
        ending = [*self._turns.values(), *self._chores, *([self._pump] if self._pump else [])]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)
        self._pump = None
        for id in list(self.model.turns):
            self.tell(e.TurnOver(id=id, error=why or "the connection was closed", at=time.monotonic()))
        self.session = None
        remedy = "start the agent again"
        self.tell(e.LinkTold(link=Link(kind="lost", since=time.monotonic(), why=why, remedy=remedy)))

    def _listen_to(self, session: Session) -> None:
        """Apply the updates between the turns of this session, and stop those of the previous one."""
        self.session = session
        if self._pump is not None:
            self._pump.cancel()
        self._pump = own(self._pumped(session), "updates between turns")

    async def _pumped(self, session: Session) -> None:
        async for update in session.updates():
            self.tell(e.UpdateTold(update=update, at=time.monotonic()))

    # The session

    async def _open(self) -> None:
        """Open the requested session; log in first if the agent requires it."""
        options = self.options
        while True:
            try:
                session_id = await self._latest() if options.latest else options.session
                return await self._use(session_id, is_continued=not self.model.id)  # a login stays visible
            except AuthRequired as exc:
                await self.login.log_in(exc)

    async def _latest(self) -> str:
        found = await self.sessions(self.options.cwd)
        if not found:
            raise WrongArgument("this agent has no session in this directory; leave out --continue to start one")
        return max(found, key=lambda session: session.updated_at or "").session_id

    async def _use(self, session_id: str | None, *, is_continued: bool = False) -> None:
        """Open this session or a new one; the agent replays its history if it can.

        With `is_continued`, the screen keeps its content.
        """
        host, options, cwd = self.host, self.options, self.options.cwd
        began = time.monotonic()
        try:
            if session_id is None:
                session = await host.new_session(cwd)
            elif offered(host.agent_capabilities, "load_session"):
                session = await host.load_session(session_id, cwd)
            elif offered(host.agent_capabilities, "session_capabilities.resume"):
                session = await host.resume_session(session_id, cwd)
                is_continued = session_id == self.model.id
            else:
                raise WrongArgument("this agent cannot continue an earlier session")
        except ResourceNotFound:
            if session_id is None:
                raise
            if options.is_again:
                await self._use(None, is_continued=True)
                self.notice("the agent does not know the session any more; this is a new one", "warning")
                return
            raise WrongArgument(f"this agent knows no session {session_id!r}") from None
        info = host.agent_info
        self.tell(
            e.SessionBegan(
                id=session.id,
                cwd=cwd,
                agent=(info and (info.title or info.name)) or self.name,
                is_continued=is_continued,
                modes=session.modes,
                config_options=session.config_options,
                at=began,
            )
        )
        for update in session.backlog():  # the durations in a replayed history are unknown
            self.tell(e.UpdateTold(update=update))
        self._listen_to(session)

    @property
    def name(self) -> str:
        """The user's name for the agent."""
        agent = self.options.agent
        if agent.command == "dragoman" and list(agent.args[:1]) == ["agent"]:
            return " ".join(agent.args[1:2])
        return agent.name or agent.url or os.path.basename(agent.command)

    async def sessions(self, cwd: str | None = None, archived: str | None = None) -> Sequence[s.SessionInfo]:
        """The agent's stored sessions, newest first; empty if it does not list them."""
        if not offered(self.host.agent_capabilities, "session_capabilities.list"):
            return ()
        found = await self.host.list_sessions(cwd, archived)
        if cwd is not None:
            here = os.path.realpath(cwd)
            found = [session for session in found if os.path.realpath(session.cwd) == here]
        return sorted(found, key=lambda session: session.updated_at or "", reverse=True)

    def can(self, capability: str) -> bool:
        """Whether the agent has a capability, such as `session_capabilities.fork`."""
        return self.session is not None and bool(offered(self.host.agent_capabilities, capability))

    async def go_to(self, session_id: str | None) -> None:
        """Leave this session and open another one, or a new one if `session_id` is None."""
        if self.model.turns:
            raise Error("a turn runs; stop it first, or open the other session in a new tab")
        await self._use(session_id)

    async def fork(self, session_id: str | None = None) -> None:
        """Continue in a copy of this session or of another one."""
        if self.session is None:
            return
        if self.model.turns:
            raise Error("a turn runs; stop it first, and then fork the session")
        source = session_id or self.session.id
        copy = await self.host.fork_session(source, self.options.cwd)
        if offered(self.host.agent_capabilities, "load_session"):
            await self._use(copy.id)
        else:
            self._listen_to(copy)
        self.notice("you go on in a copy of the session; the session itself stays as it was")

    async def rename(self, session_id: str, title: str) -> None:
        """Give a session another title."""
        if session_id == self.model.id:
            await self._set(i.SetTitle(title=title))
        else:
            await self.host.agent.set_title(s.SetSessionTitleRequest(session_id=session_id, title=title))

    async def archive(self, session_id: str) -> None:
        """Archive a session; if it is open, a new one is opened instead."""
        await self.host.agent.archive_session(s.ArchiveSessionRequest(session_id=session_id))
        if session_id == self.model.id:
            await self._use(None)

    async def unarchive(self, session_id: str) -> None:
        """Unarchive a session."""
        await self.host.agent.unarchive_session(s.UnarchiveSessionRequest(session_id=session_id))

    # The user's requests

    def carry_out(self, intent: i.Intent) -> None:
        """Carry out a request of the user; a failure is shown as a notice."""
        match intent:
            case i.GivePrompt(prompt=blocks, is_steering=is_steering):
                self._give(blocks, is_steering)
            case i.CancelTurn():
                if self.session is not None and self.model.turns:
                    self.is_held = bool(self.model.queue)
                    self.session.cancel()
            case i.AnswerQuestion():
                self.host.answer(intent)
            case i.EditWaiting(id=id, prompt=blocks):
                if waiting := self.model.queue.get(id):
                    self.tell(e.PromptWaits(prompt=structs.replace(waiting, prompt=blocks)))
            case i.DropWaiting(id=id):
                self.tell(e.PromptDropped(id=id))
            case i.TypeInto(terminal_id=id, text=text):
                if (terminal := self.host.own_terminal(id)) is not None:
                    self.do(terminal.input(text))
            case _:
                self.do(self._set(intent))

    def do(self, work: Awaitable[object]) -> None:
        """Run work beside the conversation; a failure is shown as a notice."""
        task = own(self._told(work), "chore")
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def _told(self, work: Awaitable[object]) -> None:
        try:
            await work
        except Error as exc:
            self.notice(failure_told(exc, self.options.agent, self.host), "error")

    async def _set(self, intent: i.Intent) -> None:
        if (session := self.session) is None:
            return
        match intent:
            case i.SetMode(mode=mode):
                await session.set_mode(mode)
                self.tell(e.UpdateTold(update=s.CurrentModeUpdate(current_mode_id=mode)))
            case i.SetOption(id=id, value=value):
                options = await session.set_config_option(id, value)
                self.tell(e.UpdateTold(update=s.ConfigOptionUpdate(config_options=options)))
            case i.SetTitle(title=title):
                stored = await session.set_title(title)
                self.tell(e.UpdateTold(update=s.SessionInfoUpdate(title=stored)))

    def _give(self, blocks: Sequence[s.ContentBlock], is_steering: bool) -> None:
        if is_steering and self.model.turns and self.takes_steering:
            self.do(self._steer(blocks))
        elif len(self.model.queue) >= MAX_QUEUE:
            self.notice(f"{MAX_QUEUE} prompts wait already; wait until one is sent", "warning")
        else:
            self.tell(e.PromptWaits(prompt=WaitingPrompt(id=f"p{next(self._numbers)}", prompt=blocks)))
            self.send_waiting()

    @property
    def takes_steering(self) -> bool:
        """Whether the agent accepts prompts in the running turn."""
        steering = (self.host.agent_capabilities.meta or {}).get("steering")
        return isinstance(steering, dict) and steering.get("supported") is True

    async def _steer(self, blocks: Sequence[s.ContentBlock]) -> None:
        if self.session is not None:
            told = {"sessionId": self.session.id, "prompt": list(blocks)}
            await self.host.agent.request(STEERING, told)

    def run_command(self, command: str) -> None:
        """Run a command of the user in a terminal of its own."""
        self.do(self.host.run_own(command, self.options.cwd))

    def send_waiting(self) -> None:
        """Send the waiting prompts in order."""
        self.is_held = False
        if self.session is not None and self.model.queue and not self.model.turns:
            waiting = next(iter(self.model.queue.values()))
            self._send(waiting.id, waiting.prompt)

    def _send(self, id: str, blocks: Sequence[s.ContentBlock]) -> None:
        assert self.session is not None
        turn = self.session.prompt(blocks)
        self.tell(e.PromptGiven(id=id, prompt=blocks, at=time.monotonic()))
        task = self._turns[id] = own(self._take_turn(id, blocks, turn), "turn")
        task.add_done_callback(lambda _: self._turns.pop(id, None))

    async def _take_turn(self, id: str, blocks: Sequence[s.ContentBlock], turn: Prompt) -> None:
        over = e.TurnOver(id=id, error="the connection was closed")
        try:
            over = structs.replace(await self._heard(turn), id=id)
        except AuthRequired as exc:
            try:
                await self.login.log_in(exc)
            except Error as refused:
                over = e.TurnOver(id=id, error=failure_told(refused, self.options.agent, self.host))
            else:
                over = await self._again(id, blocks)
        except Error as exc:
            over = e.TurnOver(id=id, error=failure_told(exc, self.options.agent, self.host))
        finally:
            self.tell(structs.replace(over, at=time.monotonic()))
        if over.response is None or over.response.stop_reason == "cancelled":
            self.is_held = bool(self.model.queue)
        if not self.is_held:
            asyncio.get_running_loop().call_soon(self.send_waiting)

    async def _again(self, id: str, blocks: Sequence[s.ContentBlock]) -> e.TurnOver:
        """Send a prompt once more, after a login."""
        with contextlib.suppress(AuthRequired):
            if self.session is not None:
                return structs.replace(await self._heard(self.session.prompt(blocks)), id=id)
        return e.TurnOver(id=id, error="the agent still wants you to log in")

    async def _heard(self, turn: Prompt) -> e.TurnOver:
        async for event in turn:
            if isinstance(event, s.PromptResponse):
                return e.TurnOver(id="", response=event)
            self.tell(e.UpdateTold(update=event, at=time.monotonic()))
        raise Error("the turn ended without an answer")


def _told_end(end: Exception | None) -> str:
    return str(end) if end else "the agent closed the connection"
