"""What the user is asked, and how: one question at a time in each session, the same one once, and never too many.

Whatever goes wrong while asking is a no.  What a question shows has been made safe to show; what an agent says
about itself is marked as that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..addresses import host_warning
from ..display import is_elided, scripts, shown_command, visible
from ..operations import Execute, FileOperation, FileWrite, McpTool, NetworkAccess, Operation
from .approvals import Scope

log = logging.getLogger("dragoman")

MAX_WAITING = 32  # questions of one session behind the one that is shown
MAX_OPEN = 256  # questions of all sessions: an agent may invent sessions
MAX_EARLY = 3  # answers that come too soon to have been meant
DETAIL_LIMIT = 64_000  # characters shown of a diff


class Option(Struct, frozen=True):
    """One answer the user may give; `scope` is how far it reaches."""

    id: str
    label: str
    allows: bool
    scope: Scope = "once"


class Question(Struct, frozen=True, kw_only=True):
    """Something to ask the user; every text in it can be shown as it is.

    `operation` is what will be done, exactly; without one, `text` is what the agent claims and nobody can check.
    """

    session_id: str
    title: str
    text: str
    options: tuple[Option, ...]
    warnings: tuple[str, ...] = ()
    operation: Operation | None = None
    tool_call_id: str = ""  # of the call the agent asks about, where it asks
    detail: str = ""  # such as a diff
    key: str = ""  # equal for questions that are the same

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out of the text."""
        return not is_elided(self.text)

    def option(self, id: object) -> Option | None:
        return next((option for option in self.options if isinstance(id, str) and option.id == id), None)


Asker = Callable[[Question], Awaitable[str | None]]  # gives the id of the option the user chose; None for none

DENY_ONCE = Option("reject_once", "Deny", allows=False)
DENY_TURN = Option("reject_turn", "Deny everything for the rest of this turn", allows=False)
_ALLOW: dict[Scope, Option] = {
    "once": Option("allow_once", "Allow once", allows=True),
    "session": Option("allow_session", "Allow exactly this in this session", allows=True, scope="session"),
    "workspace": Option("allow_workspace", "Allow exactly this in this workspace", allows=True, scope="workspace"),
    "always": Option("allow_always", "Always allow exactly this", allows=True, scope="always"),
}
_TITLES = {
    "file_read": "Read a file?",
    "file_write": "Write a file?",
    "file_delete": "Delete a file?",
    "terminal_execute": "Run a command?",
    "network_access": "Use the network?",
    "mcp_tool": "Call an MCP tool?",
}


def about(
    operation: Operation,
    session_id: str,
    *,
    scopes: Sequence[Scope] = ("once",),
    warnings: Sequence[str] = (),
    detail: str = "",
) -> Question:
    """The question whether the host may do something."""
    text = _text(operation)
    offered: Sequence[Scope] = ("once",) if is_elided(text) else scopes  # what was not seen whole is not for keeps
    return Question(
        session_id=session_id,
        title=_TITLES[operation.kind],
        text=text,
        options=(*(_ALLOW[scope] for scope in offered), DENY_ONCE, DENY_TURN),
        warnings=tuple(dict.fromkeys(visible(warning) for warning in (*warnings, *_warnings(operation)))),
        operation=operation,
        detail=visible(detail, limit=DETAIL_LIMIT, lines=True),
        key=f"{operation.kind} {operation.fingerprint()}",
    )


def _text(operation: Operation) -> str:
    match operation:
        case Execute():
            return shown_command(operation.argv, operation.env, operation.cwd, operation.shell)
        case FileWrite():
            return f"{visible(operation.path)}\n{'a new file' if operation.creates else 'replaces what is there'}"
        case FileOperation():
            return visible(operation.path)
        case NetworkAccess():
            return visible(operation.url)
        case McpTool():
            arguments = msgspec.json.encode(operation.arguments).decode()
            return f"{visible(operation.tool)} of {visible(operation.server)}\n{visible(arguments)}"


def _warnings(operation: Operation) -> list[str]:
    match operation:
        case NetworkAccess():
            return [warning] if (warning := host_warning(operation.url)) else []
        case Execute() if not operation.argv[0].isascii():
            return [f"the program's name has letters that are {' and '.join(scripts(operation.argv[0]))}"]
        case _:
            return []


class Reply(Struct, frozen=True):
    """How a question ended: the option the user chose, or why there is none."""

    option: Option | None = None
    why: str = "the user chose"
    cancelled: bool = False


CANCELLED = Reply(why="the question was withdrawn", cancelled=True)
SILENCED = Reply(why="the user denied everything for the rest of this turn")


class _Open:
    """A question that is being asked, and how many wait for its answer."""

    def __init__(self, session_id: str, task: asyncio.Task[Reply]) -> None:
        self.session_id = session_id
        self.task = task
        self.waiting = 0
        self.instead: Reply | None = None  # the answer once it is withdrawn, whatever the screen still says
        self.withdrawn: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def withdraw(self, reply: Reply) -> None:
        """Answer it now, though the screen may take its time to let go of it."""
        self.instead = reply
        self.task.cancel()
        if not self.withdrawn.done():
            self.withdrawn.set_result(None)

    @property
    def is_open(self) -> bool:
        """Whether somebody who asks the same may wait for this answer: not once it is given."""
        return not self.task.done() and self.instead is None

    @property
    def reply(self) -> Reply:
        return self.instead or (CANCELLED if self.task.cancelled() else self.task.result())


class Questions:
    """Puts questions to the user, through whatever screen there is."""

    def __init__(self, asker: Asker | None, *, timeout: float | None = None, arming: float = 0.0) -> None:
        self.asker = asker
        self._timeout = timeout
        self._arming = arming
        self._open: dict[tuple[str, str], _Open] = {}
        self._shows: dict[str, asyncio.Lock] = {}  # one question of a session is shown at a time
        self._silenced: set[str] = set()

    async def ask(self, question: Question) -> Reply:
        """Have a question answered; it never raises, and anything but an answer is a no."""
        if question.session_id in self._silenced:
            return SILENCED
        key = (question.session_id, question.key)
        if (asking := self._open.get(key)) is None or not asking.is_open:
            if self.asker is None:
                return Reply(why="there is nobody to ask")
            in_session = sum(asking.session_id == question.session_id for asking in self._open.values())
            if in_session > MAX_WAITING or len(self._open) >= MAX_OPEN:
                return Reply(why="too many questions are open already")
            asking = _Open(question.session_id, asyncio.create_task(self._put(question), name="question"))
            self._open[key] = asking
        asking.waiting += 1
        try:
            ends: list[asyncio.Future[Any]] = [asking.task, asking.withdrawn]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asking.waiting -= 1
            if not asking.waiting:
                asking.task.cancel()
                self._close(key, asking)
        return asking.reply

    def withdraw(self, session_id: str, reply: Reply = CANCELLED) -> None:
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

    def _close(self, key: tuple[str, str], asking: _Open) -> None:
        """Nobody waits for this question any more."""
        if self._open.get(key) is asking:
            del self._open[key]
        shows = self._shows.get(session_id := key[0])
        if shows and not shows.locked() and not any(asked == session_id for asked, _ in self._open):
            del self._shows[session_id]

    async def _put(self, question: Question) -> Reply:
        async with self._shows.setdefault(question.session_id, asyncio.Lock()):
            for _ in range(MAX_EARLY):
                shown_at = asyncio.get_running_loop().time()
                reply = await self._answer(question)
                soon = asyncio.get_running_loop().time() - shown_at < self._arming
                if not (soon and reply.option and reply.option.allows):
                    break
            else:
                return Reply(why="the answers came too soon to have been meant")
            if reply.option == DENY_TURN:
                self.silence(question.session_id)
            return reply

    async def _answer(self, question: Question) -> Reply:
        try:
            async with asyncio.timeout(self._timeout) as limit:
                chosen = await self.asker(question)  # type: ignore[misc]
            if limit.expired():  # it would not be interrupted
                raise TimeoutError
        except TimeoutError:
            return Reply(why="nobody answered in time")
        except Exception:
            log.exception("a question could not be asked")
            return Reply(why="the question could not be asked")
        if chosen is None:
            return Reply(why="nobody answered")
        if (option := question.option(chosen)) is None:
            log.warning("a question was answered with %r, which it did not offer", chosen)
            return Reply(why="the answer was none of the options")
        return Reply(option, why="the user allowed it" if option.allows else "the user denied it")
