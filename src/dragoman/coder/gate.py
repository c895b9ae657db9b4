"""Whether the agent may do something now: one place that everything with an effect passes.

The first of these that applies decides; the rules are those of `dragoman.host.rules`:

    no      a deny rule
    no      the mode changes nothing, and this would
    ask     a protected path, an address nobody can read, an ask rule, outside the session's directories: once only
    yes     an allow rule
    yes     reading in the session's directories; in the mode `code`, editing there
    yes     the user allowed this for the session
    ask     everything else
"""

import json
import os
import time
from collections.abc import Sequence

from msgspec import Struct

from .. import schema as s
from ..errors import Error
from ..host.addresses import origin
from ..host.display import COMMAND_LIMIT, is_elided, visible
from ..host.operations import Execute, FileDelete, FileRead, FileWrite, McpTool, NetworkAccess, Operation
from ..host.permissions import scrutiny
from ..host.permissions.matching import Place, is_in
from ..host.permissions.rules import Rules, Verdict, user_file
from ..runs import ToolRun
from ..turn import AgentSession, Turn
from .markdown import fenced
from .modes import MODES

MAX_NAMED = 200  # letters in which an option says what it covers
_FILES = FileRead | FileWrite | FileDelete


class Denied(Error):
    """It must not be done; the words are for the model."""


class Cancelled(Error):
    """The user took the question away: the turn is over."""


class Scope(Struct, frozen=True):
    """What "for this session" would allow: the key it is remembered by, and the words that name it exactly."""

    key: str
    words: str


class Gate:
    """Decides for one session; `allowed` is what the user allowed for its time, and can be stored."""

    def __init__(self, session: AgentSession, rules: Rules, allowed: list[str]) -> None:
        self._session = session
        self._rules = rules
        self.allowed = allowed
        self._place = Place(workspace=os.path.realpath(session.cwd))
        self.roots = [os.path.realpath(path) for path in (session.cwd, *session.additional_directories)]

    async def admit(self, turn: Turn, call: ToolRun, operation: Operation, *, reads_only: bool = False) -> None:
        """Return when it may be done; raise Denied when it must not, Cancelled when nobody decides any more.

        `reads_only`: this call of a foreign tool is said to change nothing.
        """
        self._refuse(operation, reads_only)
        verdicts = [self._rules.judge(name, self._now()) for name in scrutiny.names(operation)]
        doubts = self._doubts(operation, verdicts)
        if not doubts and (self._is_settled(operation) or self._rule(verdicts, "allow")):
            return
        await self._ask(turn, call, operation, doubts)
        self._refuse(operation, reads_only)  # the mode may have changed while the question was open

    def _refuse(self, operation: Operation, reads_only: bool) -> None:
        if why := scrutiny.impossible(operation):
            raise Denied(f"This cannot be done: {why}.")
        for name in scrutiny.names(operation):
            verdict = self._rules.judge(name, self._now())
            if verdict and verdict.effect == "deny":
                raise Denied(f"A rule of the user forbids this{': ' + verdict.why if verdict.why else ''}.")
        if not (isinstance(operation, FileRead | NetworkAccess) or (isinstance(operation, McpTool) and reads_only)):
            self.must_be_able_to_change()

    def must_be_able_to_change(self) -> None:
        """Raise Denied in a mode that changes nothing."""
        mode = MODES[self._session.mode or "ask"]
        if mode.changes == "never":
            raise Denied(f"Nothing can be changed or run in the mode {mode.id!r}; only the user can leave it.")

    def _now(self) -> Place:
        return Place(workspace=self._place.workspace, now=time.time())

    def _rule(self, verdicts: Sequence[Verdict | None], effect: str) -> bool:
        return all(verdict is not None and verdict.effect == effect for verdict in verdicts)

    def _doubts(self, operation: Operation, verdicts: Sequence[Verdict | None]) -> list[str]:
        """Why this must be asked about every time."""
        own = [str(user_file().parent)]
        doubts = [doubt for name in scrutiny.names(operation) for doubt in scrutiny.doubts(name, own)]
        doubts += [verdict.why or "a rule says so" for verdict in verdicts if verdict and verdict.effect == "ask"]
        if isinstance(operation, _FILES) and not self.is_inside(operation.path):
            doubts.append("it lies outside the session's directories")
        return list(dict.fromkeys(doubts))

    def is_inside(self, path: str) -> bool:
        """Whether a path, followed to where it leads, is in one of the session's directories."""
        real = os.path.realpath(path)
        return any(is_in(real, root) for root in self.roots)

    def may_show(self, path: str) -> bool:
        """Whether a file may be listed and searched without a question: what would be asked about is left out."""
        operation = FileRead(path=path)
        verdicts = [self._rules.judge(name, self._now()) for name in scrutiny.names(operation)]
        refused = any(verdict and verdict.effect == "deny" for verdict in verdicts)
        return not refused and not self._doubts(operation, verdicts)

    def _is_settled(self, operation: Operation) -> bool:
        if isinstance(operation, FileRead):
            return True
        if isinstance(operation, FileWrite) and MODES[self._session.mode or "ask"].changes == "edits":
            return True
        scope = self.scope(operation)
        return scope is not None and scope.key in self.allowed

    def scope(self, operation: Operation) -> Scope | None:
        """What an answer "for this session" would cover; None where there is no such answer."""
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
            raise Denied(
                "The user did not allow this. Do not try to reach it another way; ask what they want instead."
            )
        if scope and permission.option.option_id == "allow_session":
            self.allowed.append(scope.key)


def _details(operation: Operation) -> str:
    """What whoever decides on an operation has to see of it, where a title may not show it."""
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
