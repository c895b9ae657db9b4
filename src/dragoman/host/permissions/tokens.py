"""The user's yes to an agent's question, as a token for one operation that does exactly that.

An agent asks about a change or a command and, once allowed, has the host carry it out.  The yes is a token: one
operation spends it, within a short time, in the same turn of the same session, if it writes what was shown to the
file that was named, or runs what was named in the directory and with the variables that were named.  It also takes
every warning that a question about the operation itself would show to have been shown.  Anything else asks.
"""

import shlex
import time
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...schema import Diff
from ..operations import Execute, FileWrite, Operation
from ..variables import is_harmless
from .subjects import NamedCommand, ShownChange, Subject, plain_words, shell_line

LIFETIME = 60.0  # seconds
MAX_TOKENS = 32  # of one session
MAX_TEXT = 8 * 1024 * 1024  # characters of changes that are kept for one session


class Token(Struct, frozen=True, eq=False):
    """One yes, and its operation; `tool_call_id` is the call of the agent's question."""

    tool_call_id: str
    what: ShownChange | NamedCommand
    warnings: frozenset[str]
    ends: float

    @property
    def size(self) -> int:
        steps = self.what.steps if isinstance(self.what, ShownChange) else ()
        return sum(len(old or "") + len(new) for old, new in steps)


class PermissionTokens:
    """The unspent ones of all sessions."""

    def __init__(self, lifetime: float = LIFETIME) -> None:
        self._lifetime = lifetime
        self._kept: dict[str, list[Token]] = {}

    def grant(self, session_id: str, tool_call_id: str, subject: Subject, warnings: Iterable[str]) -> None:
        """The user said yes to a question about this, which showed these warnings."""
        ends, shown = time.monotonic() + self._lifetime, frozenset(warnings)
        what: list[ShownChange | NamedCommand] = [*subject.changes]
        if subject.command:
            what.append(subject.command)
        kept = [*self._unspent(session_id), *(Token(tool_call_id, each, shown, ends) for each in what)]
        while len(kept) > MAX_TOKENS or sum(token.size for token in kept) > MAX_TEXT:
            del kept[0]
        self._kept[session_id] = kept

    def spend(
        self, session_id: str, operation: Operation, diff: Diff | None, warnings: Iterable[str]
    ) -> Token | None:
        """The token that is for an operation, gone from here; `diff` is what the operation changes."""
        kept = self._unspent(session_id)
        needed = frozenset(warnings)
        for token in kept:
            if needed <= token.warnings and _is_for(token.what, operation, diff):
                self._kept[session_id] = [other for other in kept if other is not token]
                return token
        return None

    def forget(self, session_id: str) -> None:
        self._kept.pop(session_id, None)

    def _unspent(self, session_id: str) -> list[Token]:
        now = time.monotonic()
        return [token for token in self._kept.get(session_id, ()) if now < token.ends]


def _is_for(what: ShownChange | NamedCommand, operation: Operation, diff: Diff | None) -> bool:
    match what, operation:
        case ShownChange(), FileWrite():
            return diff is not None and operation.path == what.real and _makes(what.steps, diff)
        case NamedCommand(), Execute():
            return _runs(what, operation)
        case _:
            return False


def _makes(steps: Sequence[tuple[str | None, str]], diff: Diff) -> bool:
    """Whether these steps, and nothing besides them, make the new text of the old one."""
    text = diff.old_text or ""
    for old, new in steps:
        if not old:
            if text:  # a question that showed a new file is none about one that is there
                return False
            text = new
        elif text.count(old) == 1:
            text = text.replace(old, new)
        else:
            return False
    return text == diff.new_text


def _runs(command: NamedCommand, operation: Execute) -> bool:
    """Whether an operation runs a command as it was named, but for variables that change nothing."""
    named = dict(command.env)
    if command.cwd != operation.cwd:
        return False
    if any(named.get(name) != value and not is_harmless(name, value) for name, value in operation.env):
        return False
    if any(dict(operation.env).get(name) != value for name, value in named.items()):
        return False
    if command.line is None and operation.argv == command.words:
        return True
    asked = command.line if command.line is not None else shell_line(command.words)
    line = shell_line(operation.argv)
    if asked is None:
        return False
    if line is None:
        return operation.argv == plain_words(asked)
    return asked in (line, _there_already(line, operation.cwd))


def _there_already(line: str, cwd: str) -> str:
    """A line without the `cd` in front of it that leads to where it is run anyway."""
    for place in (cwd, f"'{cwd}'"):
        if shlex.split(place) == [cwd] and line.startswith(f"cd {place} && "):
            return line.removeprefix(f"cd {place} && ")
    return line
