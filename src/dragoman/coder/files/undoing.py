"""Undoes the edits of a turn, newest first, and redoes them, with permission and in the same files."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct

from ...agent.runs import ToolRun
from ...agent.turn import Turn
from ...errors import ConnectionClosed, Error, RpcError
from ...foundation.owning import side_by_side
from ...host.operations import FileDelete, FileWrite
from ..permissions import Cancelled, Rejected
from ..workplace import Workplace
from .project_files import canonical, digest
from .undo_journal import UndoEntry

NOT_OURS = "somebody else changed it since"
AT_ONCE = 16  # files at once: each waits for the client and its disk several times while the user waits

Outcome = Literal["restored", "emptied", "the same"]
Numbered = tuple[int, UndoEntry]


class NotRestored(Error):
    """A file stays as it is; the message says why."""


class Undone(Struct):
    """The outcome for each file, by its shown path."""

    restored: list[str]
    emptied: list[str]
    failed: dict[str, str]  # with the reason


async def undo_last_turn(turn: Turn, place: Workplace) -> Undone | None:
    """Restore the files that the last turn with changes changed; None if there is no such turn.

    A file that cannot be restored, or that the user keeps, does not stop the others and keeps its entry.
    """
    await asyncio.to_thread(place.files.clear_up)
    entries = place.journal.last_turn()
    undoing = _Undoing(turn, place)
    try:
        await side_by_side([partial(undoing.undo, chain) for chain in _chains(entries)], AT_ONCE)
        await asyncio.to_thread(undoing.remove_directories, entries)
    finally:
        await place.session.save()
    return undoing.undone(entries) if entries else None


async def redo_last_turn(turn: Turn, place: Workplace) -> Undone | None:
    """Redo the edits that were undone last; None if there are none.

    They become edits of this turn and are undone together.  An edit that fails does not stop the others.
    """
    entries = place.journal.last_undone()
    redoing = _Undoing(turn, place)
    try:
        await side_by_side([partial(redoing.redo, chain) for chain in _chains(entries)], AT_ONCE)
    finally:
        await place.session.save()
    return redoing.undone(entries) if entries else None


def _chains(entries: Iterable[Numbered]) -> Iterable[Sequence[Numbered]]:
    """Chains of edits: different chains can be undone at the same time, the edits of one chain only in order.

    If a file replaced a directory, or the other way round, the files of the directory are in its chain.
    """
    entries = list(entries)
    paths = {entry.path for _, entry in entries}
    chains: dict[str, list[Numbered]] = {}
    for number, entry in entries:
        above = outermost = entry.path
        while (above := os.path.dirname(above)) not in ("/", ""):
            outermost = above if above in paths else outermost
        chains.setdefault(outermost, []).append((number, entry))
    return chains.values()


class _Undoing:
    """Restores or redoes the files of one turn; the user is asked about one file at a time."""

    def __init__(self, turn: Turn, place: Workplace) -> None:
        self._turn, self._place = turn, place
        self._outcomes: dict[int, Outcome] = {}
        self._failed: dict[str, str] = {}
        self._asking = asyncio.Lock()

    async def undo(self, chain: Sequence[Numbered]) -> None:
        """Undo edits one after the other."""
        journal = self._place.journal
        for number, entry in chain:
            name = self._place.shown(entry.path)
            if name in self._failed:  # an older edit of a file whose newer one stays
                journal.put_off(number)
                continue
            try:
                outcome = self._outcomes[number] = await self._undo(entry)
            except NotRestored as exc:
                self._failed[name] = str(exc)
                if entry.is_kept:
                    journal.put_off(number)
                else:
                    journal.settle(number)
                continue
            if outcome == "the same":
                journal.settle(number)
            else:
                journal.undo(number)

    async def redo(self, chain: Sequence[Numbered]) -> None:
        """Redo edits one after the other."""
        for number, entry in chain:
            try:
                self._outcomes[number] = await _shown(self._turn, self._place, entry, "Redo", self._asking)
            except NotRestored as exc:
                self._failed[self._place.shown(entry.path)] = str(exc)
            self._place.journal.forget_undone(number)

    async def _undo(self, entry: UndoEntry) -> Outcome:
        if not entry.is_kept:
            raise NotRestored("its old text was too long to be kept")
        return await _shown(self._turn, self._place, entry, "Undo", self._asking)

    def remove_directories(self, entries: Iterable[Numbered]) -> None:
        """Remove the directories that were created for files that are gone, newest first."""
        for number, entry in entries:
            if self._outcomes.get(number) == "restored" and entry.before is None:
                self._place.files.remove_empty(entry.made)

    def undone(self, entries: Iterable[Numbered]) -> Undone:
        """The outcomes for the files, in the order of the journal."""
        names: dict[Outcome, dict[str, None]] = {"restored": {}, "emptied": {}, "the same": {}}
        failed: dict[str, str] = {}
        for number, entry in entries:
            name = self._place.shown(entry.path)
            if name in self._failed:
                failed[name] = self._failed[name]
            if number in self._outcomes:
                names[self._outcomes[number]][name] = None
        return Undone(list(names["restored"]), list(names["emptied"]), failed)


async def _shown(
    turn: Turn, place: Workplace, entry: UndoEntry, verb: Literal["Undo", "Redo"], asking: asyncio.Lock
) -> Outcome:
    """Undo or redo an edit, as a tool call; raises NotRestored."""
    if canonical(entry.path) != entry.path:
        raise NotRestored("its path leads elsewhere now")
    path = entry.named if canonical(entry.named) == entry.path else entry.path
    async with turn.tool(f"{verb} {place.shown(entry.path)}", kind="edit", locations=[path]) as call:
        try:
            if verb == "Redo":
                return await _make_again(turn, call, place, entry, path, asking)
            return await _bring_back(turn, call, place, entry, path, asking)
        except (Cancelled, ConnectionClosed):
            raise
        except (Rejected, RpcError, Error) as exc:
            words = _words(exc)
            call.fail(words)
            raise NotRestored(words) from exc


async def _bring_back(
    turn: Turn, call: ToolRun, place: Workplace, entry: UndoEntry, path: str, asking: asyncio.Lock
) -> Outcome:
    now = await place.text(turn, path)
    if now == entry.before:
        return "the same"
    await _agree(turn, call, place, entry, path, asking, now=now, then=entry.before, is_ours=entry.is_ours(now))
    if entry.before is not None:
        await place.files.put(turn, path, now, entry.before)
        return "restored"
    if not await place.files.remove(turn, path, now or ""):
        return "emptied"
    await asyncio.to_thread(place.files.remove_empty, entry.made)  # now, because an older edit may need the name
    return "restored"


async def _make_again(
    turn: Turn, call: ToolRun, place: Workplace, entry: UndoEntry, path: str, asking: asyncio.Lock
) -> Outcome:
    now = await place.text(turn, path)
    if now == entry.after:
        return "the same"
    is_as_left = now == entry.before or (entry.before is None and now == "")  # emptied, not removed
    await _agree(turn, call, place, entry, path, asking, now=now, then=entry.after, is_ours=is_as_left)
    await place.put(turn, path, now, entry.after, is_again=True)
    return "restored"


async def _agree(
    turn: Turn,
    call: ToolRun,
    place: Workplace,
    entry: UndoEntry,
    path: str,
    asking: asyncio.Lock,
    *,
    now: str | None,
    then: str | None,
    is_ours: bool,
) -> None:
    """Get permission for a change, and check that the file still has the shown text; `then` None removes it."""
    place.must_be_writable(path)
    await call.diff(path, now, then or "")
    removes = then is None
    operation = FileDelete(path=path) if removes else FileWrite(path=path, digest=digest(then), creates=now is None)
    doubt = "" if is_ours else NOT_OURS
    await place.permissions.admit(turn, call, operation, is_ordered=True, doubt=doubt, asking=asking)
    await call.start()
    if canonical(path) != entry.path or await place.text(turn, path) != now:
        raise NotRestored("it was changed while the question was open")
    for seen in (path, entry.path):
        place.seen.pop(seen, None)  # the model has to read it again


def _words(exc: Exception) -> str:
    if isinstance(exc, Rejected):
        return "you kept it as it is"
    return exc.message if isinstance(exc, RpcError) else str(exc).rstrip(".")


def told(undone: Undone) -> Iterator[str]:
    """The report of an undo to the user, in sentences."""
    if undone.restored:
        yield f"Brought back: {_quoted(undone.restored)}."
    if undone.emptied:
        yield f"Emptied, for your editor does not let me remove files: {_quoted(undone.emptied)}."
    if undone.failed:
        failed = "; ".join(f"`{name}` ({why})" for name, why in undone.failed.items())
        yield f"Not brought back: {failed}. When nothing else is left to undo, `/undo` tries these again."
    if not (undone.restored or undone.emptied or undone.failed):
        yield "The files of that turn are already what they were before it."


def told_again(redone: Undone) -> Iterator[str]:
    """The report of a redo to the user, in sentences."""
    if redone.restored:
        yield f"Made again: {_quoted(redone.restored)}."
    if redone.failed:
        failed = "; ".join(f"`{name}` ({why})" for name, why in redone.failed.items())
        yield f"Not made again: {failed}."
    if not (redone.restored or redone.failed):
        yield "The files of that turn are already what it made of them."


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
