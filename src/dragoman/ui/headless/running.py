"""A run from start to exit code, and the ways to stop it."""

import asyncio
import contextlib
import errno
import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

from ... import schema as s
from ...client.session import Session
from ...errors import Error
from ...foundation.owning import own
from ...host.audit import Redactor
from ...host.permissions import RulesError
from ...host.processes import start
from ...host.terminals.keeper.processes import carry_mark, end_with_keepers, new_mark
from ...host.terminals.sandbox import landlock
from ..output import complaint, install
from .attachments import attached
from .events import Events
from .guarded import Failures, guarded
from .keys import Keyboard, KeyPrompt
from .opening import log_in, open_session, set_mode, set_option
from .reception import Reception
from .screen import Screen
from .terms import FAILED, INTERRUPTED, LIMIT, USAGE, RunOptions, RunOutcome, View, WrongArgument, outcome_of
from .wording import failure_told

START_PATIENCE = 600.0  # seconds an agent may take to start if the user has set no timeout
COMMANDS_INSIDE = (
    "sandbox: commands that the agent asks us to run are inside; its own process, and what it runs by itself "
    "after a yes, are outside"
)
AGENT_INSIDE = (
    "sandbox: the agent is inside with all that it starts, and so are commands that it asks us to run; files that "
    "it asks us to read or write are read and written from outside, as permitted; it connects to {network}"
)
GRACE = 10.0  # seconds that a cancelled turn has to end
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Run:
    """One run, and the ways to stop it: by cancelling its turn, by ending the agent, or by killing it."""

    def __init__(self, options: RunOptions, view: View, host: Reception) -> None:
        self._options, self._view, self._host = options, view, host
        self._session: Session | None = None  # while a turn runs in it
        self._work: asyncio.Task[RunOutcome] | None = None
        self._stopped: int | None = None  # the exit code, once the run was told to stop
        self._ending = False
        self._signals = 0  # how often the run was told to stop
        self._mark = new_mark()  # an environment variable that identifies all processes of the agent
        self._killing: asyncio.Task[list[int]] | None = None

    async def __call__(self) -> RunOutcome:
        loop = asyncio.get_running_loop()
        carry_mark(self._mark)
        self._work = asyncio.create_task(self._take_turn(), name="turn")
        timer = loop.call_later(self._options.timeout, self._time_is_up) if self._options.timeout else None
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

    def _outcome(self, work: asyncio.Task[RunOutcome]) -> RunOutcome:
        denied = self._host.denied
        if work.cancelled():
            return RunOutcome(self._stopped or INTERRUPTED, denied=denied)
        match work.exception():
            case None:
                outcome = work.result()
                if self._stopped is not None:  # whatever stop reason the agent gives for an interrupted turn
                    outcome.exit_code = self._stopped
                return outcome
            case WrongArgument() | RulesError() as exc:
                return RunOutcome(USAGE, error=str(exc), denied=denied)
            case Error() as exc:
                return RunOutcome(FAILED, error=failure_told(exc, self._options.agent, self._host), denied=denied)
            case exc:
                raise exc

    async def _take_turn(self) -> RunOutcome:
        counting = asyncio.create_task(self._count(self._view.starting, self._name), name="starting")
        try:
            return await self._run_turn(counting)
        finally:
            counting.cancel()
            await asyncio.wait([counting])

    @property
    def _name(self) -> str:
        """The agent's name on the screen."""
        agent = self._options.agent
        if agent.command == "dragoman" and list(agent.args[:1]) == ["agent"]:
            return " ".join(agent.args[1:2])
        return agent.name or Redactor().text(agent.url) or os.path.basename(agent.command)

    @staticmethod
    async def _count(tell: Callable[..., None], *words: str) -> None:
        """Report every second how long a step has taken; a first start may have to download the agent."""
        began = time.monotonic()
        for seconds in itertools.count(1):  # every second is reported, even if late on a busy machine
            await asyncio.sleep(began + seconds - time.monotonic())
            tell(*words, seconds)

    async def _run_turn(self, counting: asyncio.Task[None]) -> RunOutcome:
        options, host = self._options, self._host
        patience = None if options.timeout else START_PATIENCE  # otherwise the run's own timeout applies
        async with start(
            options.agent,
            host,
            cwd=options.cwd if host.isolation else None,
            dialect=options.dialect,
            start_timeout=patience,
            isolation=host.isolation,
        ):
            if options.login is not None:
                await log_in(host, options.login)
            session = await open_session(host, options)
            counting.cancel()
            for option, value in options.session_options:
                await set_option(session, option, value)
            if options.mode is not None:
                await set_mode(session, options.mode)
            for update in session.backlog():
                self._view.recall(update)
            self._view.began(self._name, host, session.id, options.cwd)
            self._report_sandbox()
            takes = host.agent_capabilities.prompt_capabilities
            files = await asyncio.to_thread(attached, options.files, takes)
            turn = session.prompt([s.TextContent(text=options.prompt), *files])
            self._session = host.shown = session
            working = asyncio.create_task(self._count(self._view.working), name="working")
            try:
                async for event in turn:
                    host.terminal_lock.show(event)
                    await host.terminal_lock.free()
            finally:
                working.cancel()
                await asyncio.wait([working])
            self._session, self._ending = None, True
            await host.follow_up()
            if host.unasked:
                self._view.remark("nobody could be asked; use --permissions to allow things without asking")
            if remark := host.unasked_acts.remark:
                self._view.remark(remark)
            return outcome_of(turn.response, host.denied, stopped=self._stopped is not None)

    def _report_sandbox(self) -> None:
        """Say which parts run in a sandbox and which do not, and which sandbox it is."""
        options = self._options
        if options.sandbox:
            inside = AGENT_INSIDE.format(network=", ".join(options.network) or "nothing")
            self._view.remark(inside if options.sandbox == "agent" else COMMANDS_INSIDE)
            self._view.remark(f"sandbox: {landlock.described(landlock.version())}")

    def _interrupt(self, number: int) -> None:
        self._signals += 1
        if self._signals > 1:
            self._kill()
        elif number == signal.SIGINT and self._session and self._stopped is None:
            self._cancel(INTERRUPTED, "cancelling the turn; press Ctrl-C again to quit")
        else:
            if number == signal.SIGINT and not self._ending:
                self._view.remark("ending the agent; press Ctrl-C again to kill it")
            self._quit(INTERRUPTED)

    def _kill(self) -> None:
        """Kill the agent and all processes that it has started, wherever they are."""
        self._quit(INTERRUPTED)
        if self._killing is None:
            self._view.remark("killing the agent and what it has started")
            if self._host.isolation:
                self._host.isolation.kill()
            self._killing = own(asyncio.to_thread(end_with_keepers, self._mark), "killing")

    async def killed(self) -> None:
        """Wait until all processes of a killed agent have ended."""
        if self._killing and (left := await self._killing):
            self._view.remark(f"these processes could not be ended: {', '.join(map(str, left))}")

    def _time_is_up(self) -> None:
        if self._session:
            self._cancel(LIMIT, f"timeout: {self._options.timeout:g} s have passed; cancelling the turn")
        elif not self._ending:
            seconds = f"{self._options.timeout:g} s"
            self._view.remark(f"timeout: {seconds} have passed, and the agent has not started yet")
            self._quit(LIMIT)

    def view_failed(self) -> None:
        """Cancel the turn, which answers every question, or quit, because the output cannot be written any more."""
        if self._session and self._stopped is None:
            self._cancel(INTERRUPTED, "")
        else:
            self._quit(INTERRUPTED)

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


async def run(options: RunOptions) -> int:
    """Run one turn of an agent and show it; returns the exit code."""
    stdout, _ = install()
    if options.json:
        stdout.reconfigure(encoding="utf-8")
    failures = Failures()
    shown: View = Events(sys.stdout) if options.json else Screen(sys.stdout, sys.stderr)
    view = guarded(shown, failures)
    with contextlib.ExitStack() as opened:
        key_prompt = None
        if options.interactive and (keyboard := Keyboard.of(sys.stderr.fileno())):
            opened.callback(keyboard.close)
            screen = shown if isinstance(shown, Screen) else Screen(sys.stderr, sys.stderr)
            key_prompt = KeyPrompt(guarded(screen, failures), keyboard)
        opened.enter_context(_remarks(view))
        try:
            host = Reception(options, view, key_prompt)
            turn, loop = Run(options, view, host), asyncio.get_running_loop()
            failures.on_first = lambda: loop.call_soon_threadsafe(turn.view_failed)
            try:
                outcome = await turn()
                await host.take_back()
                await host.follow_up()
            finally:
                await host.let_go()
                await turn.killed()
        except Error as exc:  # the user's own rules or log cannot be used
            outcome = RunOutcome(USAGE, error=str(exc))
        view.ended(outcome)
    if isinstance(failures.first, OSError) and failures.first.errno == errno.EIO:
        return INTERRUPTED  # the terminal is gone
    if failures.first:
        raise failures.first
    if options.json and outcome.error:
        sys.stderr.write(f"{complaint(outcome.error)}\n")
    return outcome.exit_code


@contextlib.contextmanager
def _remarks(view: View) -> Iterator[None]:
    """Shows each warning of the library in one line."""
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
