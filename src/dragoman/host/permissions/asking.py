"""Asks the user: one question at a time in each session, or all at once; equal questions as one, up to a limit.

A yes is a token that one operation spends.  Equal questions are shown once with their number, and the answer says
how many of them it covers; the user is asked about the others again.  Every failure while asking is a no.
"""

import asyncio
import logging
from typing import Any

from msgspec import Struct

from .questions import DENY_TURN, Asker, Option, Question

log = logging.getLogger("dragoman")

MAX_WAITING = 32  # waiting questions of one session
MAX_OPEN = 256  # questions of all sessions: an agent may invent sessions
MAX_EQUAL = 256  # operations that wait for the answer to one question
MAX_EARLY = 3  # seconds in which an answer comes too soon to be meant


class Answer(Struct, frozen=True):
    """The end of a question: the option the user chose, or why there is none."""

    option: Option | None = None
    why: str = "the user chose"
    cancelled: bool = False


CANCELLED = Answer(why="the question was withdrawn", cancelled=True)
SILENCED = Answer(why="the user denied everything for the rest of this turn")


TOO_MANY = Answer(why="too many questions are open already")


class _Waiting:
    """One operation that waits for an answer."""


class _Open:
    """A question that is being asked, and the callers that wait for its answer."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.waiting: list[_Waiting] = []
        self.task: asyncio.Task[Answer]
        self.instead: Answer | None = None  # the answer of a withdrawn question, whatever the screen returns later
        self.withdrawn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._shown: list[_Waiting] = []
        self._allowed: list[_Waiting] = []  # the callers that a yes of the scope `once` covers

    @property
    def session_id(self) -> str:
        return self.question.session_id

    def show(self) -> Question:
        """The question as it is shown now, for the present number of callers."""
        self._shown = list(self.waiting)
        return self.question.repeated(len(self._shown))

    def answered(self, option: Option) -> None:
        """Give the yes to as many callers as it covers, among those that the user saw."""
        self._allowed = [each for each in self._shown if each in self.waiting][: option.times]

    def withdraw(self, reply: Answer) -> None:
        """Answer it now, even if the screen closes it later."""
        self.instead = reply
        self.task.cancel()
        if not self.withdrawn.done():
            self.withdrawn.set_result(None)

    @property
    def is_open(self) -> bool:
        """Whether another caller with the same question may wait for this answer: not after it was given."""
        return not self.task.done() and self.instead is None

    def reply(self, waiting: _Waiting) -> Answer | None:
        """The answer for one caller; None if it has to ask again."""
        reply = self.instead or (CANCELLED if self.task.cancelled() else self.task.result())
        is_token = reply.option is not None and reply.option.allows and reply.option.scope == "once"
        return None if is_token and waiting not in self._allowed else reply


class Questions:
    """Asks the user through any screen."""

    def __init__(
        self, asker: Asker | None, *, timeout: float | None = None, arming: float = 0.0, at_once: bool = False
    ) -> None:
        self.asker = asker
        self._at_once = at_once  # the screen shows all questions of a session, not one after the other
        self._timeout = timeout
        self._arming = arming
        self._open: dict[tuple[str, str], _Open] = {}
        self._shows: dict[str, asyncio.Lock] = {}  # one question of a session is shown at a time
        self._silenced: set[str] = set()

    async def ask(self, question: Question) -> Answer:
        """Ask a question; it never raises, and every failure is a no."""
        waiting = _Waiting()
        while True:
            if question.session_id in self._silenced:
                return SILENCED
            if self.asker is None:
                return Answer(why="there is nobody to ask")
            if (asking := self._asking(question)) is None:
                return TOO_MANY
            if (reply := await self._wait(asking, waiting)) is not None:
                return reply

    def _asking(self, question: Question) -> _Open | None:
        """The equal open question, or else this one, now open; None if there are too many."""
        key = (question.session_id, question.key)
        asking = self._open.get(key)
        if asking is not None and asking.is_open:
            return asking if len(asking.waiting) < MAX_EQUAL else None
        others = [each.session_id for known, each in self._open.items() if known != key]
        if others.count(question.session_id) > MAX_WAITING or len(others) >= MAX_OPEN:
            return None
        asking = self._open[key] = _Open(question)
        asking.task = asyncio.create_task(self._put(asking), name="question")
        return asking

    async def _wait(self, asking: _Open, waiting: _Waiting) -> Answer | None:
        """Wait for an answer; returns none if it was for other callers with the same question."""
        asking.waiting.append(waiting)
        try:
            ends: list[asyncio.Future[Any]] = [asking.task, asking.withdrawn]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return asking.reply(waiting)
        finally:
            asking.waiting.remove(waiting)
            if not asking.waiting:
                asking.task.cancel()
                self._close(asking)

    def withdraw(self, session_id: str, reply: Answer = CANCELLED) -> None:
        """Take back every open question of a session."""
        asked = [asking for asking in self._open.values() if asking.session_id == session_id]
        for asking in asked:
            if asking.task is not asyncio.current_task():
                asking.withdraw(reply)

    def silence(self, session_id: str) -> None:
        """Answer every question of a session with no until its next turn."""
        self._silenced.add(session_id)
        self.withdraw(session_id, SILENCED)

    def unsilence(self, session_id: str) -> None:
        self._silenced.discard(session_id)

    def is_silenced(self, session_id: str) -> bool:
        return session_id in self._silenced

    def _close(self, asking: _Open) -> None:
        """Withdraw a question for which nobody waits any more."""
        session_id = asking.session_id
        if self._open.get(key := (session_id, asking.question.key)) is asking:
            del self._open[key]
        shows = self._shows.get(session_id)
        if shows and not shows.locked() and not any(asked == session_id for asked, _ in self._open):
            del self._shows[session_id]

    async def _put(self, asking: _Open) -> Answer:
        loop = asyncio.get_running_loop()
        shows = asyncio.Lock() if self._at_once else self._shows.setdefault(asking.session_id, asyncio.Lock())
        async with shows:
            for _ in range(MAX_EARLY):
                shown_at = loop.time()
                reply = await self._answer(asking.show())
                soon = loop.time() - shown_at < self._arming
                if not (soon and reply.option and reply.option.allows):
                    break
            else:
                return Answer(why="the answers came too soon to have been meant")
            if reply.option == DENY_TURN:
                self.silence(asking.session_id)
            if reply.option:
                asking.answered(reply.option)
            return reply

    async def _answer(self, question: Question) -> Answer:
        try:
            async with asyncio.timeout(self._timeout) as limit:
                chosen = await self.asker(question)  # type: ignore[misc]
            if limit.expired():  # it ignored the cancellation
                raise TimeoutError
        except TimeoutError:
            return Answer(why="nobody answered in time")
        except Exception:
            log.exception("a question could not be asked")
            return Answer(why="the question could not be asked")
        if chosen is None:
            return Answer(why="nobody answered")
        if (option := question.option(chosen)) is None:
            log.warning("a question was answered with %r, which it did not offer", chosen)
            return Answer(why="the answer was none of the options")
        return Answer(option, why="the user allowed it" if option.allows else "the user denied it")
