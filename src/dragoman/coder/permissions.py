"""Whether the agent may do something: every operation with an effect is checked here.

The first of these that applies decides; the rules are those of `dragoman.host.rules`:

    no      a deny rule
    no      the mode changes nothing, and this would
    ask     a protected path, an address nobody can read, an ask rule, outside the session's directories: once only
    yes     an allow rule
    yes     reading in the session's directories; in the mode `code`, editing there
    yes     the user allowed this for the session
    ask     everything else
"""

import asyncio
import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from msgspec import Struct

from .. import schema as s
from ..agent.runs import ToolRun
from ..agent.turn import AgentSession, Turn
from ..errors import Error
from ..host.addresses import origin
from ..host.display import COMMAND_LIMIT, is_elided, visible
from ..host.operations import Execute, FileDelete, FileRead, FileWrite, McpTool, NetworkAccess, Operation
from ..host.permissions import scrutiny
from ..host.permissions.hard_links import HardLinks, has_other_names
from ..host.permissions.rules.matching import Circumstances, is_in
from ..host.permissions.rules.rules import Rules, Verdict, user_file
from .markdown import fenced
from .modes import MODES

MAX_NAMED = 200  # characters of the scope in an option's name
_FILES = FileRead | FileWrite | FileDelete


class Denied(Error):
    """The operation is forbidden; the message is for the model."""


class Rejected(Denied):
    """The user refused."""


class Cancelled(Error):
    """The question was cancelled: the turn is over."""


class Scope(Struct, frozen=True):
    """The scope of "for this session": the key under which it is stored, and its exact description."""

    key: str
    words: str


class CoderPermissions:
    """Decides for one session; `allowed` holds the user's approvals for the session, and can be stored."""

    def __init__(self, session: AgentSession, rules: Rules, allowed: list[str]) -> None:
        self._session = session
        self._rules = rules
        self.allowed = allowed
        self._place = Circumstances(workspace=os.path.realpath(session.cwd))
        self.roots = [os.path.realpath(path) for path in (session.cwd, *session.additional_directories)]

    async def admit(
        self,
        turn: Turn,
        call: ToolRun,
        operation: Operation,
        *,
        reads_only: bool = False,
        is_ordered: bool = False,
        doubt: str = "",
        asking: AbstractAsyncContextManager[None] | None = None,
    ) -> None:
        """Return when an operation is allowed; raises Denied if it is not, Cancelled if the question was cancelled.

        `reads_only`: the server declares that this call changes nothing.  `is_ordered`: the user ordered it by a
        command, and is asked only if there are doubts.  `doubt`: why the caller wants the user to be asked.
        `asking`: a lock that is held while the user is asked.
        """
        self._refuse(operation, reads_only)
        is_allowed, doubts = await self._weighed(operation)
        doubts = [*([doubt] if doubt else ()), *doubts]
        if (is_allowed or is_ordered) and not doubts:
            return
        async with asking or nullcontext():
            await self._ask(turn, call, operation, doubts)
        self._refuse(operation, reads_only)  # the mode may have changed while the question was open

    async def admit_together(self, turn: Turn, call: ToolRun, operations: Sequence[FileWrite | FileDelete]) -> None:
        """Return when every part of the change that `call` shows is allowed; one question covers all of it."""
        doubts: list[str] = []
        open_ones = []
        for operation in operations:
            self._refuse(operation, False)
            is_allowed, found = await self._weighed(operation)
            doubts += [f"{visible(operation.path, limit=MAX_NAMED)}: {why}" for why in found]
            if not is_allowed or found:
                open_ones.append(operation)
        if not open_ones:
            return
        asked = next((operation for operation in open_ones if self.scope(operation) is None), open_ones[0])
        await self._ask(turn, call, asked, doubts)
        for operation in operations:
            self._refuse(operation, False)

    async def _weighed(self, operation: Operation) -> tuple[bool, list[str]]:
        """Whether an operation is allowed without a question, and reasons to ask the user all the same."""
        verdict = self._judged(operation)
        doubts = self._doubts(operation, verdict)
        if isinstance(operation, _FILES) and not doubts and has_other_names(operation.path):
            doubts = await asyncio.to_thread(self._other_names, operation, HardLinks(self.roots))
        is_allowed = self._is_settled(operation) or (verdict is not None and verdict.effect == "allow")
        return is_allowed, doubts

    def _refuse(self, operation: Operation, reads_only: bool) -> None:
        if why := scrutiny.impossible(operation):
            raise Denied(f"This cannot be done: {why}.")
        verdict = self._judged(operation)
        if verdict and verdict.effect == "deny":
            raise Denied(f"A rule of the user forbids this{': ' + verdict.why if verdict.why else ''}.")
        if not (isinstance(operation, FileRead | NetworkAccess) or (isinstance(operation, McpTool) and reads_only)):
            self.must_be_able_to_change()

    def must_be_able_to_change(self) -> None:
        """Raise Denied in a mode that forbids changes."""
        mode = MODES[self._session.mode or "ask"]
        if mode.changes == "never":
            raise Denied(f"Nothing can be changed or run in the mode {mode.id!r}; only the user can leave it.")

    def _judged(self, operation: Operation) -> Verdict | None:
        """The rules' current verdict on an operation."""
        place = Circumstances(workspace=self._place.workspace, now=time.time())
        return scrutiny.judged(self._rules, scrutiny.names(operation), place, self.roots, self._own)

    @property
    def _own(self) -> list[str]:
        return [str(user_file().parent)]

    def _doubts(self, operation: Operation, verdict: Verdict | None) -> list[str]:
        """Why the user must be asked about an operation every time."""
        doubts: list[str] = []
        for name in scrutiny.names(operation):
            doubts += scrutiny.doubts(name, self._own)
        if verdict and verdict.effect == "ask":
            doubts.append(verdict.why or "a rule says so")
        if isinstance(operation, _FILES) and not self.is_inside(operation.path):
            doubts.append("it lies outside the session's directories")
        return list(dict.fromkeys(doubts))

    def is_inside(self, path: str) -> bool:
        """Whether the target of a path is in one of the session's directories."""
        real = os.path.realpath(path)
        return any(is_in(real, root) for root in self.roots)

    def may_show(self, paths: Iterable[str], hard_links: HardLinks) -> set[str]:
        """The files that may be listed and searched without a question."""
        return {path for path in paths if self._may_show(FileRead(path=path), hard_links)}

    def _may_show(self, operation: FileRead, hard_links: HardLinks) -> bool:
        verdict = self._judged(operation)
        if (verdict is not None and verdict.effect == "deny") or self._doubts(operation, verdict):
            return False
        return not (has_other_names(operation.path) and self._other_names(operation, hard_links))

    def _other_names(self, operation: FileRead | FileWrite | FileDelete, hard_links: HardLinks) -> list[str]:
        """Why the user must be asked about a file with several names: one of them is protected."""
        if (twin := hard_links.of(operation.path)) is None:
            return []
        other, protection = twin
        if isinstance(operation, FileRead) and not protection.secret:
            return []
        return [f"it is also {visible(other, limit=MAX_NAMED)}; {protection}"]

    def _is_settled(self, operation: Operation) -> bool:
        if isinstance(operation, FileRead):
            return True
        if isinstance(operation, FileWrite) and MODES[self._session.mode or "ask"].changes == "edits":
            return True
        scope = self.scope(operation)
        return scope is not None and scope.key in self.allowed

    def scope(self, operation: Operation) -> Scope | None:
        """The scope of an answer "for this session"; None if there is no such answer."""
        match operation:
            case FileWrite():
                return Scope("edits", "all edits in the project")
            case Execute(argv=argv, shell=shell, cwd=cwd):
                words = argv[-1] if shell else " ".join(argv)
                return Scope(f"run:{cwd}:{shell}:{argv!r}", f"exactly `{visible(words, limit=MAX_NAMED)}`")
            case NetworkAccess(url=url):
                found = origin(url)
                if found is None:
                    return None
                return Scope(f"visit:{found.scheme}:{found.host}:{found.port}", f"visits to {found.host}")
            case McpTool(server=server, tool=tool):
                words = f"{visible(tool, limit=MAX_NAMED)} of {visible(server, limit=MAX_NAMED)}"
                return Scope(f"mcp:{(server, tool)!r}", words)
            case _:
                return None

    async def _ask(self, turn: Turn, call: ToolRun, operation: Operation, doubts: Sequence[str]) -> None:
        details = _details(operation)
        if is_elided(details):
            raise Denied("This is too long for anybody to judge; make it shorter, or put it into a file.")
        if details:
            await call.text(details)
        scope = None if doubts else self.scope(operation)
        options = [s.PermissionOption(option_id="allow", name="Allow once", kind="allow_once")]
        if scope:
            name = f"Allow {scope.words} for this session"
            options.append(s.PermissionOption(option_id="allow_session", name=name, kind="allow_always"))
        options.append(s.PermissionOption(option_id="reject", name="Reject", kind="reject_once"))
        if doubts:
            await call.text(f"Asked every time: {'; '.join(doubts)}.")
        permission = await turn.ask(call, options)
        if permission.option is None:
            raise Cancelled("the question was taken away")
        if not permission:
            raise Rejected(
                "The user did not allow this. Do not try to reach it another way; ask what they want instead."
            )
        if scope and permission.option.option_id == "allow_session":
            self.allowed.append(scope.key)


def _details(operation: Operation) -> str:
    """The details of an operation that the user must see, in case the title does not show them."""
    match operation:
        case Execute(argv=argv, shell=shell):
            words = argv[-1] if shell else " ".join(argv)
            if words == visible(words, limit=MAX_NAMED):
                return ""
        case McpTool(arguments=arguments):
            words = json.dumps(arguments, indent=2, ensure_ascii=False) if arguments else ""
        case _:
            return ""
    return fenced(visible(words, limit=COMMAND_LIMIT, lines=True)) if words else ""
