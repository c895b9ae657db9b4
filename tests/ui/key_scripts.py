"""Two hundred people, each at a terminal of their own with a question on it, and what they do there.

As a program it plays the scripts side by side, and prints how often each answer was given and every answer that no
key explains which was pressed alone, after silence.
"""

import asyncio
import contextlib
import fcntl
import itertools
import json
import os
import pty
import random
import signal
import struct
import sys
import termios
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from patience import PATIENCE

from dragoman.host.permissions import Option, Question
from dragoman.ui.headless.keys import ALONE, ARMING, BROKEN_OFF, PASTE, PASTE_END, TICK, Keyboard, KeyPrompt
from dragoman.ui.headless.screen import Screen
from dragoman.ui.output import install

QUESTION = Question(
    session_id="s",
    title="A title",
    text="A text",
    options=(Option("yes", "Allow once", True, "once"), Option("no", "Deny once", False, "once")),
)
ANSWERS = ("yes", "no", None)  # by the exit code of whoever was asked
ASKED, WANTED = b"Deny once", b"Press"  # what is shown with a question, and when a key counts
GAPS = (0, 0.01, TICK, ALONE, ARMING / 2, 2 * ARMING)
KEYS = ("y", "y", "y", "yy", "xy", "n", "\r", "\x1b[A", f"{PASTE}y{PASTE_END}", PASTE, PASTE_END, "q")


class Act(NamedTuple):
    """What somebody does, so many seconds after what they did last."""

    gap: float = 0
    keys: str = ""
    signal: int = 0  # to whoever asks: it is stopped, or goes on
    columns: int = 0  # of the window from now on


class Script(NamedTuple):
    """What somebody does before they look at the question and give their answer."""

    acts: Sequence[Act]
    awaits: bytes = WANTED  # what they see first; nothing for those who type before there is a question


def pastes(chance: random.Random) -> Iterator[Script]:
    """Pastes of every length around those in which a terminal hands out what is pasted, and cut there."""
    for full in (1024, 2048, 4096):
        for length in range(full - 6, full + 7):
            text = "x" * (length - 1)
            cut = [Act(keys=text), Act(chance.choice(GAPS[:4]), "y")]
            yield Script(cut if length % 2 else [Act(keys=f"{text}y")])
            yield Script([Act(keys=PASTE + text), Act(chance.choice(GAPS), "y"), Act(ARMING, PASTE_END)])
    for cut_at in range(1, len(PASTE)):  # in the mark itself, longer than between two looks
        begin, rest = Act(keys=PASTE[:cut_at]), Act(1.5 * TICK, f"{PASTE[cut_at:]}x")
        yield Script([begin, rest, Act(2 * ARMING, "y"), Act(ARMING, PASTE_END)])


def held_keys(chance: random.Random) -> Iterator[Script]:
    while True:
        yield Script([Act(0.03, "y")] * 30, chance.choice([b"", ASKED, WANTED]))


def typed_ahead(chance: random.Random) -> Iterator[Script]:
    while True:
        yield Script([Act(keys=chance.choice(["y", "y\n", "yes\ny"]))], chance.choice([b"", ASKED]))


def sentences(chance: random.Random) -> Iterator[Script]:
    while True:
        gap = chance.choice([0.02, 0.05, 0.1])
        acts = [Act(gap, letter) for letter in "yes, but not the second y"]
        yield Script(acts, chance.choice([b"", ASKED, WANTED]))


def suspensions(chance: random.Random) -> Iterator[Script]:
    """A key before it is stopped, while it is, and both."""
    stop, go_on = Act(signal=signal.SIGSTOP), Act(ARMING, signal=signal.SIGCONT)
    while True:
        soon = Act(chance.choice(GAPS[:3]), signal=signal.SIGSTOP)
        yield Script([Act(keys="y"), stop, go_on])
        yield Script([stop, Act(2 * ARMING, "y"), go_on])
        yield Script([Act(chance.choice(GAPS), "y"), soon, Act(0.1, "y"), go_on])


def resized_windows(chance: random.Random) -> Iterator[Script]:
    while True:
        sizes = [Act(columns=chance.randrange(20, 200)) for _ in range(8)]
        acts = [act for size in sizes for act in (size, Act(chance.choice(GAPS[:4]), "y"))]
        yield Script(acts, chance.choice([ASKED, WANTED]))


def anything(chance: random.Random) -> Iterator[Script]:
    while True:
        acts = [Act(chance.choice(GAPS), chance.choice(KEYS)) for _ in range(12)]
        yield Script([*acts, Act(keys=PASTE_END)])


def scripts() -> list[Script]:
    chance = random.Random(26)
    shares = {held_keys: 22, typed_ahead: 20, sentences: 20, suspensions: 24, resized_windows: 16, anything: 15}
    others = (script for kind, share in shares.items() for script in itertools.islice(kind(chance), share))
    return [*pastes(chance), *others]


class Done(NamedTuple):
    """An act, and the two moments between which it was done."""

    act: Act
    before: float
    after: float


class Person:
    """Somebody at a terminal on which a question comes up when they are told to begin."""

    def __init__(self, script: Script, last: str, others: Sequence["Person"]) -> None:
        self.script, self.last = script, last
        begin, self._begin = os.pipe()
        self._child, self._terminal = pty.fork()
        if not self._child:
            for other in others:
                os.close(other._terminal)  # or it would not be gone when they are
            ask(begin)
        os.close(begin)
        os.set_blocking(self._terminal, False)
        self._shown = b""
        self._changed = asyncio.Event()
        self._is_over = False
        self.done: list[Done] = []

    async def play(self) -> str | None:
        """Do all that the script says, then answer; gives what was understood."""
        asyncio.get_running_loop().add_reader(self._terminal, self._read)
        acts = [Act(columns=100), *self.script.acts]
        if self.script.awaits:
            self._start()
            await self._until(self.script.awaits)
        else:
            for _ in range(2):
                self._do(acts.pop(0))
            self._start()
        for act in acts:
            if await self._ends(act.gap):
                break
            self._do(act)
        while not await self._ends(2 * ARMING):  # they have looked at the question
            self._do(Act(keys=self.last))
        return self._answer()

    def _start(self) -> None:
        self._do(Act())
        os.write(self._begin, b"!")

    def _answer(self) -> str | None:
        _, status = os.waitpid(self._child, 0)  # the terminal is closed, so it has ended
        self._do(Act())
        code = os.waitstatus_to_exitcode(status)
        assert 0 <= code < len(ANSWERS), (code, self._shown.decode(errors="replace"))
        return ANSWERS[code]

    def _do(self, act: Act) -> None:
        before = now()
        if act.keys:
            with contextlib.suppress(BlockingIOError):  # whoever is stopped takes no more than so much
                os.write(self._terminal, act.keys.encode())
        if act.signal:
            os.kill(self._child, act.signal)
        if act.columns:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, act.columns, 0, 0))
        self.done.append(Done(act, before, now()))

    def _read(self) -> None:
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # nobody has it open any more
            data = b""
        self._shown += data
        if not data:
            self._is_over = True
            asyncio.get_running_loop().remove_reader(self._terminal)
        self._changed.set()

    async def _until(self, words: bytes) -> None:
        while words not in self._shown and not self._is_over:
            self._changed.clear()
            await self._changed.wait()

    async def _ends(self, within: float) -> bool:
        """Whether the question is answered in so many seconds."""
        end = now() + within
        while not self._is_over and (left := end - now()) > 0:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
        return self._is_over

    def explains_yes(self) -> bool:
        """Whether a `y` was pressed alone, with silence before and behind it, and while nobody was stopped."""
        is_stopped, text = False, ""
        pressed = [each for each in self.done if not each.act.signal and not each.act.columns]
        stops = [each for each in self.done if each.act.signal]
        for each in self.done:
            if each.act.keys == "y":
                at = pressed.index(each)
                silence, behind = each.after - pressed[at - 1].before, pressed[at + 1].after - each.before
                is_cut = any(each.before < stop.after < each.before + ALONE - TICK for stop in stops)
                wanted = BROKEN_OFF if text.rfind(PASTE) > text.rfind(PASTE_END) else ARMING - TICK
                if silence >= wanted and behind >= ALONE - TICK and not is_stopped and not is_cut:
                    return True
            text += each.act.keys
            is_stopped = each.act.signal == signal.SIGSTOP if each.act.signal else is_stopped
        return False


def now() -> float:
    return asyncio.get_running_loop().time()


def ask(begin: int) -> NoReturn:
    """Ask as `dragoman run` does, at the terminal this process has got."""
    code = len(ANSWERS)
    try:
        os.read(begin, 1)
        code = ANSWERS.index(asyncio.run(answered()))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


async def answered() -> str | None:
    install()
    keyboard = Keyboard.of(0)
    assert keyboard
    return await KeyPrompt(Screen(sys.stdout, sys.stderr), keyboard).ask(QUESTION)


async def played(people: Sequence[Person]) -> dict[str, object]:
    async with asyncio.timeout(PATIENCE):
        answers = await asyncio.gather(*(person.play() for person in people))
    unexplained = [
        (number, person.script.awaits.decode(), person.done)
        for number, (person, answer) in enumerate(zip(people, answers, strict=True))
        if answer == "yes" and not person.explains_yes()
    ]
    return {"answers": Counter(map(str, answers)), "unexplained": unexplained}


def main() -> None:
    people: list[Person] = []
    for number, script in enumerate(scripts()):
        people.append(Person(script, "ny"[number % 2], people))
    print(json.dumps(asyncio.run(played(people))))


if __name__ == "__main__":
    main()
