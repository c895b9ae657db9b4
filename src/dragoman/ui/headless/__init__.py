"""One turn without a window: on a plain terminal, in a pipe, or as JSON for a program.

What the agent says goes to stdout, everything else to stderr; with `json` every event goes to stdout, one per line.
The user is asked with one key where there is a terminal; where there is none, nobody can be asked, which means no.
"""

import asyncio
import contextlib
import io
import logging
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from ... import schema as s
from ...client import Client, connect
from ...errors import AgentStartError, AuthRequired, Error, RpcError
from ...host import Host
from ...host.display import shown_command
from ...host.permissions import Preset, Question, RulesError
from ...host.processes import Launch
from ...host.terminals import Terminal
from ...session import Session
from .attachments import attached
from .events import Events
from .floor import Floor
from .keys import Desk, Keyboard
from .opening import open_session, set_mode, set_option
from .outcome import FAILED, INTERRUPTED, LIMIT, USAGE, Outcome, WrongArgument, outcome_of
from .screen import Screen

GRACE = 10.0  # seconds a turn has to end once it was cancelled
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LAST_OUTPUT = 1.0  # seconds to wait for what a command has printed last


class Order(Struct, kw_only=True):
    """What the user wants done."""

    agent: Launch
    prompt: str
    cwd: str
    preset: Preset = "ask"
    mode: str | None = None
    options: Sequence[tuple[str, str]] = ()
    files: Sequence[Path] = ()
    session: str | None = None
    latest: bool = False
    timeout: float | None = None
    sandbox: bool = False
    dialect: str | None = None  # what the agent speaks, where that cannot be told
    json: bool = False
    interactive: bool = False  # whether somebody sits at stderr's terminal


class View(Protocol):
    """What a run is shown on."""

    def began(self, client: Client, session_id: str, cwd: str) -> None: ...
    def recall(self, update: s.SessionUpdate) -> None: ...
    def show(self, event: s.SessionUpdate | s.PromptResponse) -> None: ...
    def asked_about(self, call: s.ToolCallUpdate) -> None: ...
    def asked(self, question: Question) -> None: ...
    def decided(self, event: Mapping[str, Any]) -> None: ...
    def terminal(self, id: str, command: str) -> None: ...
    def output(self, id: str, text: str, stream: str) -> None: ...
    def terminal_ended(self, id: str, how: s.TerminalExitStatus | None) -> None: ...
    def remark(self, words: str) -> None: ...
    def ended(self, outcome: Outcome) -> None: ...


class Reception(Host):
    """A host that shows what it is asked, what it decides and what its commands print."""

    def __init__(self, order: Order, view: View, desk: Desk | None) -> None:
        name = order.agent.name or order.agent.described()
        super().__init__(preset=order.preset, asker=self.ask, sandbox=order.sandbox, agent_name=name)
        self.denied = 0
        self.unasked = False  # whether somebody should have been asked and nobody was there
        self.shown: Session | None = None
        self.floor = Floor(view.show)
        self._view, self._desk = view, desk
        self._cancelled: set[str] = set()  # sessions whose only turn was cancelled: nothing more is asked
        self._following: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question) -> str | None:
        """Put a question to the user, behind everything that came before it."""
        async with self.floor.taken():
            if question.session_id in self._cancelled:
                return None
            self._catch_up()
            self._view.asked(question)
            if self._desk:
                return await self._desk.ask(question)
            self.unasked = True
            return None

    def withdraw_questions(self, session_id: str) -> None:
        self._cancelled.add(session_id)
        super().withdraw_questions(session_id)

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        await self.floor.free()
        if params.session_id in self._cancelled:
            return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())
        self._catch_up()
        self._view.asked_about(params.tool_call)
        return await super().request_permission(params)

    def _catch_up(self) -> None:
        """Show what has arrived and was not shown yet."""
        for update in self.shown.backlog() if self.shown else ():
            self._view.show(update)

    def decided(self, event: Mapping[str, Any]) -> None:
        self.denied += event.get("decision") == "deny"
        self._view.decided(event)

    def terminal_started(self, terminal: Terminal) -> None:
        super().terminal_started(terminal)
        task = asyncio.create_task(self._follow(terminal), name="follow")
        self._following.add(task)
        task.add_done_callback(self._followed)

    def _followed(self, task: asyncio.Task[None]) -> None:
        self._following.discard(task)
        if not task.cancelled():
            task.exception()  # nobody reads what is shown any more, which the turn finds out by itself

    async def _follow(self, terminal: Terminal) -> None:
        operation = terminal.operation
        await self.floor.free()
        self._view.terminal(terminal.id, operation.argv[-1] if operation.shell else shown_command(operation.argv))
        try:
            async for chunk in terminal.follow():
                await self.floor.free()
                self._view.output(terminal.id, chunk.text, chunk.stream)
        finally:
            self._view.terminal_ended(terminal.id, terminal.status)

    async def follow_up(self) -> None:
        """Show what commands have printed last; those that still run are followed no longer."""
        if self._following:
            _, running = await asyncio.wait(self._following, timeout=LAST_OUTPUT)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


class Run:
    """One run, and the ways to stop it: gently by cancelling its turn, or at once."""

    def __init__(self, order: Order, view: View, host: Reception) -> None:
        self._order, self._view, self._host = order, view, host
        self._session: Session | None = None  # while a turn runs in it
        self._work: asyncio.Task[Outcome] | None = None
        self._stopped: int | None = None  # the exit code, once somebody wanted it to stop
        self._ending = False

    async def __call__(self) -> Outcome:
        loop = asyncio.get_running_loop()
        self._work = asyncio.create_task(self._take_turn(), name="turn")
        timer = loop.call_later(self._order.timeout, self._time_is_up) if self._order.timeout else None
        heeded = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # unlike under nohup
        for number in heeded:
            loop.add_signal_handler(number, self._interrupt, number)
        try:
            await asyncio.wait([self._work])
            return self._outcome(self._work)
        finally:
            if timer:
                timer.cancel()
            for number in heeded:
                loop.remove_signal_handler(number)

    def _outcome(self, work: asyncio.Task[Outcome]) -> Outcome:
        denied = self._host.denied
        if work.cancelled():
            return Outcome(self._stopped or INTERRUPTED, denied=denied)
        match work.exception():
            case None:
                outcome = work.result()
                if self._stopped == LIMIT and outcome.stop_reason == "cancelled":
                    outcome.exit_code = LIMIT
                return outcome
            case WrongArgument() | RulesError() as exc:
                return Outcome(USAGE, error=str(exc), denied=denied)
            case Error() as exc:
                return Outcome(FAILED, error=_failure(exc, self._order.agent, self._host), denied=denied)
            case exc:
                raise exc

    async def _take_turn(self) -> Outcome:
        order, host = self._order, self._host
        target = order.agent.url or order.agent.argv
        env, headers = order.agent.environment, order.agent.headers
        async with connect(target, host, env=env, headers=headers, dialect=order.dialect):
            session = await open_session(host, order.cwd, order.session, order.latest)
            for option, value in order.options:
                await set_option(session, option, value)
            if order.mode is not None:
                await set_mode(session, order.mode)
            for update in session.backlog():
                self._view.recall(update)
            self._view.began(host, session.id, order.cwd)
            takes = host.agent_capabilities.prompt_capabilities
            files = await asyncio.to_thread(attached, order.files, takes)
            turn = session.prompt([s.TextContent(text=order.prompt), *files])
            self._session = host.shown = session
            async for event in turn:
                host.floor.show(event)
                await host.floor.free()
            self._session, self._ending = None, True
            await host.follow_up()
            if host.unasked:
                self._view.remark("nobody could be asked; --permissions says what is allowed without asking")
            return outcome_of(turn.response, host.denied)

    def _interrupt(self, number: int) -> None:
        if number == signal.SIGINT and self._session and self._stopped is None:
            self._cancel(INTERRUPTED, "cancelling; Ctrl-C once more quits at once")
        else:
            self._quit(INTERRUPTED)

    def _time_is_up(self) -> None:
        if self._session:
            self._cancel(LIMIT, f"{self._order.timeout:g} s are over; cancelling")
        elif not self._ending:
            self._view.remark(f"{self._order.timeout:g} s are over, and the agent has not even begun")
            self._quit(LIMIT)

    def _cancel(self, code: int, words: str) -> None:
        """Ask the turn to end, and end it if it does not."""
        if self._stopped is None and self._session:
            self._stopped = code
            self._session.cancel()
            self._view.remark(words)
            asyncio.get_running_loop().call_later(GRACE, self._quit, code)

    def _quit(self, code: int) -> None:
        """End everything now, unless it is ending already: hanging up must not be interrupted."""
        if self._work and not self._ending:
            self._ending = True
            self._stopped = self._stopped or code
            self._work.cancel()


async def run(order: Order) -> int:
    """Run one turn of an agent and show it; gives the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal's encoding lacks is written out
            stream.reconfigure(encoding="utf-8" if order.json else None, errors="backslashreplace")
    view: View = Events(sys.stdout) if order.json else Screen(sys.stdout, sys.stderr)
    with contextlib.ExitStack() as opened:
        desk = None
        if order.interactive and (keyboard := Keyboard.of(sys.stderr.fileno())):
            opened.callback(keyboard.close)
            screen = view if isinstance(view, Screen) else Screen(sys.stderr, sys.stderr)
            desk = Desk(screen, keyboard)
        opened.enter_context(_remarks(view))
        try:
            host = Reception(order, view, desk)
            outcome = await Run(order, view, host)()
            await host.take_back()
            await host.follow_up()
        except Error as exc:  # the user's own rules or log are no good
            outcome = Outcome(USAGE, error=str(exc))
        view.ended(outcome)
    if order.json and outcome.error:
        sys.stderr.write(f"dragoman: {outcome.error}\n")
    return outcome.exit_code


@contextlib.contextmanager
def _remarks(view: View) -> Iterator[None]:
    """Show what the library warns of, in one line each."""
    log, handler = logging.getLogger("dragoman"), _Remarks(view)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Remarks(logging.Handler):
    def __init__(self, view: View) -> None:
        super().__init__(logging.WARNING)
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        self._view.remark(record.getMessage())


def _failure(exc: Error, agent: Launch, client: Client) -> str:
    """What went wrong, and what to do about it."""
    match exc:
        case AuthRequired():
            ways = ", ".join(method.name for method in client.auth_methods if not isinstance(method, s.Raw))
            return f"the agent wants you to log in first{f' ({ways})' if ways else ''}; do so in its own program"
        case RpcError():
            return f"the agent answered with an error: {exc}"
        case AgentStartError() if agent.install and not agent.is_installed:
            return f"{exc}; to install it: {agent.install}"
        case _:
            return str(exc)
