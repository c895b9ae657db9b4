"""The user's yes to an agent's question, as a token for one operation that does exactly that.

An agent asks about a change or a command and, once allowed, requests it from the host.  The yes is a token.  One
operation spends it, within a short time, in the same turn of the same session, if it writes the shown text to the
named file, or runs the named command with the named directory and variables.  The first question must also have
shown every warning that a question about the operation itself would show.  Otherwise the user is asked.
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
MAX_TOKENS = 32  # tokens of one session
MAX_TEXT = 8 * 1024 * 1024  # characters of changes kept for one session


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
    """The unspent tokens of all sessions."""

    def __init__(self, lifetime: float = LIFETIME) -> None:
        self._lifetime = lifetime
        self._kept: dict[str, list[Token]] = {}

    def grant(self, session_id: str, tool_call_id: str, subject: Subject, warnings: Iterable[str]) -> None:
        """Store the user's yes to a question about this subject, which showed these warnings."""
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
        """Spend and return the token for an operation, whose change is `diff`."""
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
    """Whether exactly these steps turn the old text into the new one."""
    text = diff.old_text or ""
    for old, new in steps:
        if not old:
            if text:  # a question about a new file does not cover an existing one
                return False
            text = new
        elif text.count(old) == 1:
            text = text.replace(old, new)
        else:
            return False
    return text == diff.new_text


def _runs(command: NamedCommand, operation: Execute) -> bool:
    """Whether an operation runs the named command, ignoring harmless variables."""
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
    """A line without a leading `cd` to the directory in which it runs anyway."""
    for place in (cwd, f"'{cwd}'"):
        if shlex.split(place) == [cwd] and line.startswith(f"cd {place} && "):
            return line.removeprefix(f"cd {place} && ")
    return line
