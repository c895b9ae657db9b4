"""Sessions as files: one JSON object a line; the first is the head, the last proves that the file is complete."""

import collections
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Raw, Struct

from ... import codec
from ... import schema as s
from ...framing import check
from ..database.database import Database
from ..errors import StoreFailure
from ..lines import OWN, WHOLE, Head, TurnBegan, event_of, raw_values, state_line
from ..records import Damage
from .sealing import START, ExportSeal, Sealing

FORMAT = 1
DAMAGED = b'{"damaged":'  # the beginning of a line that stands for missing lines
LONGEST = 64 * 1024 * 1024  # bytes of a line; four times what one update may have
_NAMES = {OWN: "event", WHOLE: "notification"}
_MARKS = {name: mark for mark, name in _NAMES.items()} | {"update": b""}
_object = msgspec.json.Decoder(dict[str, Raw])


class _First(Struct, rename="camel"):
    dragoman_session: int
    session_id: str


def exported(db: Database, id: str) -> Iterator[bytes]:
    """A session as lines of JSON; damaged parts are left out and named."""
    summary = db.found(id)
    yield msgspec.json.encode(_First(FORMAT, id))
    sealing = Sealing()
    yield from map(sealing.add, _all_lines(db, id, summary.head))
    yield sealing.line()


def _all_lines(db: Database, id: str, head: Head) -> Iterator[bytes]:
    for part in db.lines(id, head.last):
        if isinstance(part, Damage):
            yield _damaged(str(part))
        else:
            yield from map(_outward, part)
    states, damages = db.states(id, head)
    yield from map(_damaged, damages)
    if states:
        yield b'{"state":%s}' % codec.encode(raw_values(states))


def _damaged(what: str) -> bytes:
    return DAMAGED + codec.encode(what) + b"}"


def _outward(line: bytes) -> bytes:
    mark = line[:1]
    return b'{"%s":%s}' % (_NAMES[mark].encode(), line[1:]) if mark in _NAMES else b'{"update":%s}' % line


def imported(db: Database, source: BinaryIO, id: str | None = None) -> str:
    """Import a session, under its own id or another: all of it, or nothing and an error that says why.

    The input is read twice and never held in memory, so other writers wait for the disk and not for a sender.
    """
    with readable_twice(source, db.path) as file:
        start = file.tell()
        own_id = _read_first(file).session_id
        collections.deque(_taken(file), maxlen=0)
        file.seek(start)
        _read_first(file)
        return db.adopt(id or own_id, _taken(file))


@contextlib.contextmanager
def readable_twice(source: BinaryIO, directory: Path) -> Iterator[BinaryIO]:
    """The input as a file: a pipe is copied to one first."""
    if source.seekable():
        yield source
        return
    with tempfile.TemporaryFile(dir=directory) as file:
        shutil.copyfileobj(source, file)
        file.seek(0)
        yield file


def _read_first(file: BinaryIO) -> _First:
    try:
        first = msgspec.json.decode(file.readline(LONGEST), type=_First)
    except msgspec.DecodeError:
        raise StoreFailure("this is not an exported session: its first line does not say so") from None
    if first.dragoman_session > FORMAT:
        raise StoreFailure(f"the session was exported by a newer Dragoman (format {first.dragoman_session})")
    return first


def _taken(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an exported session after the first; raises at the end if they are not complete."""
    sealing, last = Sealing(), None
    for number, whole in enumerate(iter(lambda: file.readline(LONGEST), b""), 2):
        line = whole.rstrip(b"\r\n")
        if last is not None:
            raise StoreFailure(f"line {number}: there is data after the end; nothing was imported")
        if len(whole) == LONGEST:
            raise StoreFailure(f"line {number} is longer than a session's lines can be; nothing was imported")
        if line.startswith(START):
            last = _last(number, line)
            continue
        if taken := _inward(number, sealing.add(line)):
            yield taken
    if last is None or last != sealing.seal():
        raise StoreFailure(
            "the exported session is not whole: its end is missing or does not fit; nothing was imported"
        )


def _last(number: int, line: bytes) -> ExportSeal:
    try:
        return msgspec.json.decode(line, type=ExportSeal)
    except msgspec.DecodeError:
        raise StoreFailure(f"line {number}, the end, is cut off; nothing was imported") from None


def _inward(number: int, line: bytes) -> bytes:
    """A line of a log; empty for a line in place of missing ones."""
    try:
        check(line)
        found = _object.decode(line)
        if "update" in found and len(found) > 1 and not found.keys() & {*_MARKS, "state"} - {"update"}:
            found = {"notification": Raw(msgspec.json.encode(found))}  # as older stores kept and exported them
        ((name, value),) = found.items()
        if name == "damaged":
            return b""
        if name == "state":
            return state_line({key: bytes(part) for key, part in _object.decode(value).items()})
        taken = _MARKS[name] + bytes(value)
        members = _object.decode(value)
        if name == "notification" and ("update" not in members or "sessionId" in members):
            raise ValueError("no notification without its session id")
        if isinstance(event := event_of(taken), TurnBegan):
            for block in event.prompt:
                codec.decode(block, s.ContentBlock)
        return taken
    except (KeyError, ValueError, codec.Malformed):
        raise StoreFailure(f"line {number} does not belong to a session; nothing was imported") from None
