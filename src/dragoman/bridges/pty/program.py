"""A program at a pseudo-terminal: its output, whether it waits for input, and typing into it."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from ... import schema as s
from ...errors import InvalidParams
from ...foundation.owning import own
from ...host.terminals import Size, Terminal
from .profiles import Profile, ProgramQuestion
from .screen import TerminalScreen

SETTLED = 0.05  # seconds of silence after which a prompt at the cursor counts
TELLING = 0.1  # seconds of silence after which lines still on the screen are sent
LONGEST_WAIT = 0.5  # seconds after which they are sent although the program is still drawing
LEARNED = 5  # times the silence, for a program that has shown its prompt, since it may be thinking
PORTION = 8 * 1024  # characters drawn before other tasks run
LOOKED_AT = 2000  # characters at the end of a line that are compared with patterns
LONGEST_LINE = 4095  # bytes of a line that a program receives where the system collects lines
CTRL_C = "\x03"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"

Tell = Callable[[str], Awaitable[None]]


class Moment(NamedTuple):
    """Why waiting ended: the program shows its prompt, asks, is silent, or has ended."""

    kind: Literal["prompt", "question", "silence", "ended"]
    line: str = ""  # the text at the cursor
    question: ProgramQuestion | None = None


class Program:
    """A running program and its screen; one task draws its output until it ends."""

    def __init__(self, terminal: Terminal, profile: Profile, size: Size) -> None:
        self.terminal, self.profile = terminal, profile
        self.screen = TerminalScreen(size.columns, size.rows)
        self.is_followed = False  # its output is being sent, so that it may be slowed down
        self.has_ended = False
        self._loop = asyncio.get_running_loop()
        self._prompt = re.compile(profile.prompt) if profile.prompt is not None else None
        self._learned: re.Pattern[str] | None = None  # the last prompt seen
        self._typed: tuple[int, str, str] | None = None  # the place and the text of the last typing
        self._is_new = True  # only answers were typed, so the text at which it waits is its prompt
        self._heard = asyncio.Event()
        self._room = asyncio.Event()
        self._last_heard = self._loop.time()
        self.reader = own(self._read(), "program")

    @property
    def status(self) -> s.TerminalExitStatus | None:
        """How it ended; None while it runs."""
        return self.terminal.status

    async def _read(self) -> None:
        try:
            async for chunk in self.terminal.follow():
                for at in range(0, len(chunk.text), PORTION):
                    await self._draw(chunk.text[at : at + PORTION])
        finally:
            self.has_ended = True
            self._heard.set()

    async def _draw(self, text: str) -> None:
        self.screen.feed(text)
        self._last_heard = self._loop.time()
        self._heard.set()
        if replies := self.screen.replies:
            self.screen.replies = ""
            with contextlib.suppress(InvalidParams):  # it has ended
                await self.terminal.input(replies)
        while self.is_followed and self.screen.is_full:
            self._room.clear()
            await self._room.wait()
        await asyncio.sleep(0)

    # Waiting for it

    async def wait(self, tell: Tell) -> Moment:
        """Wait until the program waits for input; its output meanwhile is given to `tell`."""
        self.is_followed = True
        try:
            return await self._wait(tell)
        finally:
            self.is_followed = False
            self._room.set()

    async def _wait(self, tell: Tell) -> Moment:
        told_at = self._loop.time()
        while True:
            self._heard.clear()
            now = self._loop.time()
            quiet = now - self._last_heard
            is_due = quiet >= TELLING or now - told_at >= LONGEST_WAIT
            if text := self.take(shown=is_due):
                await tell(text)
            if is_due:
                told_at = now
            moment = self._seen()
            if self._heard.is_set() and not self.has_ended:
                continue
            if moment.kind == "ended" or quiet >= self._patience(moment):
                if text := self.take(whole=True, prompt=self._shown_prompt(moment)):
                    await tell(text)
                return moment
            waits = [self._patience(moment) - quiet, *([TELLING - quiet] if quiet < TELLING else [])]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if min(waits) == float("inf") else min(waits)):
                    await self._heard.wait()

    def take(self, *, shown: bool = False, whole: bool = False, prompt: str = "") -> str:
        """The output that was not taken yet, and how many lines were lost."""
        lost, self.screen.lost = self.screen.lost, 0
        text = self.screen.take(shown=shown, whole=whole, prompt=prompt)
        self._room.set()
        return f"[… {lost} lines are left out]\n{text}" if lost else text

    def _patience(self, moment: Moment) -> float:
        """How long the program has to be silent for it to count as waiting."""
        if moment.kind != "silence":
            return SETTLED
        silence = self.profile.silence
        if silence is None:
            return float("inf")
        return silence * LEARNED if self._learned else silence

    def _seen(self) -> Moment:
        """The text at the cursor, and what it means."""
        line = self.screen.line
        if self.has_ended:
            return Moment("ended", line)
        if self._is_where_it_was(line) or not line.strip():
            return Moment("silence", line)
        end = line[-LOOKED_AT:]
        for question in self.profile.all_questions:
            if re.search(question.pattern, end):
                return Moment("question", line, question)
        if self._found_prompt(end) is not None:
            return Moment("prompt", line)
        return Moment("silence", line)

    def _is_where_it_was(self, line: str) -> bool:
        """Whether only the echo of the typed text has appeared."""
        if self._typed is None:
            return False
        turned, before, typed = self._typed
        return self.screen.turned == turned and (before + typed).startswith(line)

    def _found_prompt(self, line: str) -> int | None:
        """The position of the prompt in a line."""
        for pattern in (self._learned, self._prompt):
            if pattern and (found := pattern.search(line)):
                return found.start()
        return None

    def _shown_prompt(self, moment: Moment) -> str:
        """The prompt at the cursor, which is remembered; a question is left out of the output as well."""
        line = moment.line
        if moment.kind == "question":
            return line
        if moment.kind == "ended" or not line.strip():
            return ""
        if moment.kind == "prompt":
            prompt = line[-LOOKED_AT:][self._found_prompt(line[-LOOKED_AT:]) or 0 :]
        elif self._is_new:
            prompt = line[-LOOKED_AT:]  # it has started and waits
        else:
            return ""
        self._learned = re.compile(re.sub(r"\d+", r"\\d+", re.escape(prompt)) + "$")
        return prompt

    # Typing

    async def type(self, line: str, *, answers: bool = False) -> None:
        """Type a line and Enter; `answers` marks the answer to a question of the program."""
        self._is_new = self._is_new and answers
        # otherwise not, since programs draw pasted text in different ways
        pasted = self.screen.pastes and "\t" in line
        if "\t" in line and not pasted and not self.terminal.reads_lines:
            line = line.expandtabs()  # to a program that reads keys, a tab would complete a word
        if self.terminal.reads_lines and len(line.encode()) > LONGEST_LINE:
            raise InvalidParams(f"this program reads lines of {LONGEST_LINE} bytes at most", {"kind": "long_line"})
        self._typed = self.screen.turned, self.screen.line, line
        self.screen.typed(line)
        self._last_heard = self._loop.time()  # from now on it is silent
        await self.terminal.input(f"{PASTE}{line}{PASTED}\r" if pasted else f"{line}\r")

    async def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._typed = self.screen.turned, self.screen.line, "^C"
        self._last_heard = self._loop.time()
        await self.terminal.input(CTRL_C)

    def resize(self, size: Size) -> None:
        """Resize the terminal, and tell the program."""
        self.screen.resize(*size)
        self.terminal.resize(*size)

    async def hang_up(self) -> None:
        """Tell the program that its terminal was closed."""
        if self.status is None:
            await self.terminal.kill("SIGHUP")
