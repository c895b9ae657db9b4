"""Taking back the edits of a turn, newest first, and making them again: through the gate, in the same files."""

import asyncio
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from ...agent.runs import ToolRun
from ...agent.turn import Turn
from ...errors import ConnectionClosed, Error, RpcError
from ...host.operations import FileDelete, FileWrite
from ..permissions import Cancelled, Rejected
from ..workplace import Workplace
from .project_files import canonical, digest
from .undo_journal import UndoEntry

NOT_OURS = "somebody else changed it since"

Outcome = Literal["restored", "emptied", "the same"]


class NotRestored(Error):
    """A file stays as it is; the words say why."""


class Undone(Struct):
    """What became of each file, by the path it is shown as."""

    restored: list[str]
    emptied: list[str]
    failed: dict[str, str]  # with the reason


async def undo_last_turn(turn: Turn, place: Workplace) -> Undone | None:
    """Bring files back to what they were before the last turn that changed any; None: there is none.

    A file that cannot be brought back, or that the user keeps, stops no other and keeps its entry.
    """
    await asyncio.to_thread(place.files.clear_up)
    entries = place.journal.last_turn()
    undone = Undone([], [], {})
    try:
        for number, entry in entries:
            name = place.shown(entry.path)
            if name in undone.failed:  # an older edit of a file whose newer one stays
                place.journal.put_off(number)
                continue
            try:
                outcome = await _undo(turn, place, entry)
            except NotRestored as exc:
                undone.failed[name] = str(exc)
                if entry.is_kept:
                    place.journal.put_off(number)
                else:
                    place.journal.settle(number)
                continue
            if outcome == "the same":
                place.journal.settle(number)
            else:
                place.journal.undo(number)
            _note(undone, name, outcome)
    finally:
        await place.session.save()
    return undone if entries else None


async def redo_last_turn(turn: Turn, place: Workplace) -> Undone | None:
    """Make the edits again that were undone last; None: there are none.

    They are edits of this turn then, to be undone together.  One that cannot be made stops no other.
    """
    entries = place.journal.last_undone()
    redone = Undone([], [], {})
    try:
        for number, entry in entries:
            name = place.shown(entry.path)
            try:
                outcome = await _shown(turn, place, entry, "Redo")
            except NotRestored as exc:
                redone.failed[name] = str(exc)
            else:
                _note(redone, name, outcome)
            place.journal.forget_undone(number)
    finally:
        await place.session.save()
    return redone if entries else None


def _note(undone: Undone, name: str, outcome: Outcome) -> None:
    names = {"restored": undone.restored, "emptied": undone.emptied}.get(outcome)
    if names is not None and name not in names:
        names.append(name)


async def _undo(turn: Turn, place: Workplace, entry: UndoEntry) -> Outcome:
    if not entry.is_kept:
        raise NotRestored("its old text was too long to be kept")
    return await _shown(turn, place, entry, "Undo")


async def _shown(turn: Turn, place: Workplace, entry: UndoEntry, verb: Literal["Undo", "Redo"]) -> Outcome:
    """Take an edit back or make it again, as a tool call; raises NotRestored."""
    if canonical(entry.path) != entry.path:
        raise NotRestored("its path leads elsewhere now")
    path = entry.named if canonical(entry.named) == entry.path else entry.path
    async with turn.tool(f"{verb} {place.shown(entry.path)}", kind="edit", locations=[path]) as call:
        try:
            if verb == "Redo":
                return await _make_again(turn, call, place, entry, path)
            return await _bring_back(turn, call, place, entry, path)
        except (Cancelled, ConnectionClosed):
            raise
        except (Rejected, RpcError, Error) as exc:
            words = _words(exc)
            call.fail(words)
            raise NotRestored(words) from exc


async def _bring_back(turn: Turn, call: ToolRun, place: Workplace, entry: UndoEntry, path: str) -> Outcome:
    now = await place.text(turn, path)
    if now == entry.before:
        return "the same"
    place.must_be_writable(path)
    await call.diff(path, now, entry.before or "")
    doubt = "" if entry.is_ours(now) else NOT_OURS
    removes = entry.before is None
    operation = (
        FileDelete(path=path) if removes else FileWrite(path=path, digest=digest(entry.before), creates=now is None)
    )
    await place.gate.admit(turn, call, operation, is_ordered=True, doubt=doubt)
    await call.start()
    if canonical(path) != entry.path or await place.text(turn, path) != now:
        raise NotRestored("it was changed while the question was open")
    for seen in (path, entry.path):
        place.seen.pop(seen, None)  # the model has to read it again
    if entry.before is not None:
        await place.files.put(turn, path, now, entry.before)
        return "restored"
    if not await place.files.remove(turn, path, now or ""):
        return "emptied"
    await asyncio.to_thread(place.files.remove_empty, entry.made)
    return "restored"


async def _make_again(turn: Turn, call: ToolRun, place: Workplace, entry: UndoEntry, path: str) -> Outcome:
    now = await place.text(turn, path)
    if now == entry.after:
        return "the same"
    place.must_be_writable(path)
    await call.diff(path, now, entry.after)
    is_as_left = now == entry.before or (entry.before is None and now == "")  # emptied, not removed
    operation = FileWrite(path=path, digest=digest(entry.after), creates=now is None)
    await place.gate.admit(turn, call, operation, is_ordered=True, doubt="" if is_as_left else NOT_OURS)
    await call.start()
    if canonical(path) != entry.path or await place.text(turn, path) != now:
        raise NotRestored("it was changed while the question was open")
    for seen in (path, entry.path):
        place.seen.pop(seen, None)  # the model has to read it again
    await place.put(turn, path, now, entry.after, is_again=True)
    return "restored"


def _words(exc: Exception) -> str:
    if isinstance(exc, Rejected):
        return "you kept it as it is"
    return exc.message if isinstance(exc, RpcError) else str(exc).rstrip(".")


def told(undone: Undone) -> Iterator[str]:
    """What the user is told of an undo, in sentences."""
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
    """What the user is told of a redo, in sentences."""
    if redone.restored:
        yield f"Made again: {_quoted(redone.restored)}."
    if redone.failed:
        failed = "; ".join(f"`{name}` ({why})" for name, why in redone.failed.items())
        yield f"Not made again: {failed}."
    if not (redone.restored or redone.failed):
        yield "The files of that turn are already what it made of them."


def _quoted(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
