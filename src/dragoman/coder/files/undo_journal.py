"""The undo journal of a session: the text that each edit of the agent replaces, stored before the edit.

An entry stays until its file has its old text again, or until the journal is full and its turn is the oldest.
After an agent was killed at any moment, its journal lists every edit that it may have made.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...agent.turn import AgentSession
from ...foundation.comparing import hunks, in_patch, lines_of
from .project_files import canonical, digest

UNDONE = "coder.redo."  # the key of the undone entries
KEY = "coder.undo."  # each entry has a key of its own in the session's state, so that it is stored once
CONTEXT = 3  # lines around a change in a patch
MOST_TURNS = 20
MOST_LETTERS = 16 * 1024 * 1024  # characters of all kept texts together


class UndoEntry(Struct, frozen=True):
    """One edit, or consecutive edits of one file without a foreign change between them; None means no file."""

    path: str  # the file's real path
    named: str  # the path it was last written by
    before: str | None
    after: str
    turn: int
    midway: str = ""  # SHA-256 of our own text that the last of several edits replaces
    is_kept: bool = True  # False: its texts were too large for the journal and were dropped
    made: list[str] = []  # the directories that had to be made for it, the outermost first
    is_put_off: bool = False  # it could not be undone, or the user kept the file: other turns are undone first

    def is_ours(self, text: str | None) -> bool:
        """Whether this entry's edits wrote this text."""
        return text is not None and (text == self.after or digest(text) == self.midway)


class UndoChange(Struct, frozen=True):
    """A file before and after several edits; None means no file."""

    before: str | None
    after: str


class UndoJournal:
    """The entries of one session by number, oldest first; they are kept in the session's state."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._entries = dict(sorted(_stored(session.state, KEY)))
        self._undone = dict(sorted(_stored(session.state, UNDONE)))  # undone entries, until a new edit
        self._next = max([*self._entries, *self._undone], default=-1) + 1
        self._turn = 0
        self.begin()

    def begin(self) -> None:
        """Begin a new turn, whose edits are undone together."""
        self._turn = max((entry.turn for entry in self._entries.values()), default=-1) + 1

    async def record(self, path: str, before: str | None, after: str, *, is_again: bool = False) -> int:
        """Store an edit before it is made; returns its number.

        A new edit drops the undone edits; one that is redone keeps the others.
        """
        real = canonical(path)
        for number in [] if is_again else list(self._undone):
            self.forget_undone(number)
        number, last = self._last_of(real)
        if last is not None and last.turn == self._turn and last.is_kept and last.after == before:
            entry = replace(last, named=path, after=after, midway=digest(before))
        else:
            number, self._next = self._next, self._next + 1
            entry = UndoEntry(real, path, before, after, self._turn, made=_missing_above(real))
        self._put(number, entry)
        self._forget(number)
        await self._session.save()
        return number

    async def withdraw(self, number: int, text: str | None) -> None:
        """Note that an edit was not made and that its file holds `text`."""
        entry = self._entries[number]
        if text is not None and digest(text) == entry.midway:
            self._put(number, replace(entry, after=text, midway=""))
        elif text == entry.before:
            self._drop(number)
        await self._session.save()

    def last_turn(self) -> list[tuple[int, UndoEntry]]:
        """The edits of the last turn that can be undone, newest first; postponed ones come last."""
        waiting = {n: entry for n, entry in self._entries.items() if not entry.is_put_off} or self._entries
        turn = max((entry.turn for entry in waiting.values()), default=-1)
        return [(n, entry) for n, entry in reversed(waiting.items()) if entry.turn == turn]

    def settle(self, number: int) -> None:
        """Remove an entry whose file has its old text again; the next save stores this."""
        self._drop(number)

    def undo(self, number: int) -> None:
        """Keep an undone entry so that it can be redone; the next save stores this."""
        entry = self._undone[number] = self._entries[number]
        self._session.state[f"{UNDONE}{number}"] = msgspec.to_builtins(entry)
        self._drop(number)

    def last_undone(self) -> list[tuple[int, UndoEntry]]:
        """The edits of the last undone turn, oldest first."""
        turn = min((entry.turn for entry in self._undone.values()), default=-1)
        return [(number, entry) for number, entry in sorted(self._undone.items()) if entry.turn == turn]

    def forget_undone(self, number: int) -> None:
        """Remove an undone edit that was redone or cannot be redone any more."""
        del self._undone[number]
        self._session.state.pop(f"{UNDONE}{number}", None)

    def put_off(self, number: int) -> None:
        """Keep an entry, but undo other turns first."""
        self._put(number, replace(self._entries[number], is_put_off=True))

    def changes(self) -> Mapping[str, UndoChange]:
        """Each file as it was before the session's edits and after them."""
        found: dict[str, UndoChange] = {}
        for entry in self._entries.values():
            if entry.is_kept:
                before = found[entry.path].before if entry.path in found else entry.before
                found[entry.path] = UndoChange(before, entry.after)
        return {path: change for path, change in found.items() if change.before != change.after}

    def changed_in_turn(self) -> Sequence[str]:
        """The files this turn has edited so far."""
        return list(dict.fromkeys(entry.named for entry in self._entries.values() if entry.turn == self._turn))

    def _last_of(self, path: str) -> tuple[int, UndoEntry | None]:
        found = ((n, entry) for n, entry in reversed(self._entries.items()) if entry.path == path)
        return next(found, (-1, None))

    def _put(self, number: int, entry: UndoEntry) -> None:
        self._entries[number] = entry
        self._session.state[f"{KEY}{number}"] = msgspec.to_builtins(entry)

    def _drop(self, number: int) -> None:
        del self._entries[number]
        self._session.state.pop(f"{KEY}{number}", None)

    def _forget(self, newest: int) -> None:
        """Drop the oldest turns; if a single turn is too large, drop the texts of its oldest edits."""
        turns = sorted({entry.turn for entry in self._entries.values()})
        while len(turns) > MOST_TURNS or (len(turns) > 1 and self._letters() > MOST_LETTERS):
            oldest = turns.pop(0)
            for number in [n for n, entry in self._entries.items() if entry.turn == oldest]:
                self._drop(number)
        kept = [n for n, entry in self._entries.items() if entry.is_kept and n != newest]
        while kept and self._letters() > MOST_LETTERS:
            number = kept.pop(0)
            self._put(number, replace(self._entries[number], before=None, after="", is_kept=False))

    def _letters(self) -> int:
        return sum(len(entry.before or "") + len(entry.after) for entry in self._entries.values())


def _stored(state: Mapping[str, object], prefix: str) -> Iterator[tuple[int, UndoEntry]]:
    for key, value in state.items():
        if key.startswith(prefix):
            with contextlib.suppress(ValueError):  # an unreadable entry does not affect others
                yield int(key.removeprefix(prefix)), msgspec.convert(value, UndoEntry)


def _missing_above(path: str) -> list[str]:
    """The missing directories above a file, the outermost first."""
    missing: list[str] = []
    while (path := os.path.dirname(path)) and not os.path.lexists(path):
        missing.insert(0, path)
    return missing


def patch(path: str, change: UndoChange) -> str:
    """A change as a unified diff."""
    found = list(hunks(lines_of(change.before or ""), lines_of(change.after), CONTEXT))
    lines = [line for hunk in found for line in (hunk.head, *map(in_patch, hunk.lines))]
    return "\n".join([f"--- a/{path}", f"+++ b/{path}", *lines, ""]) if lines else ""
