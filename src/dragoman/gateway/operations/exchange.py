"""Sessions of a gateway as lines of JSON, byte for byte, from any engine to any other.

A session is a line with its id, its facts, its records, and a seal; a file has any number of sessions.
"""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import BinaryIO

import msgspec
from msgspec import Raw, Struct

from ...errors import Error
from ...store.exchange.sealing import START, ExportSeal, Sealing
from ..log import logs
from ..log.engine import Engine, Lease, LogEntry, LogReader, Origin, StoredRecord
from ..log.retention import forget_session
from ..log.session_facts import MEMBER, SessionFacts

FORMAT = 1
BATCH = 1024 * 1024  # bytes of records written at a time
LONGEST = 256 * 1024 * 1024  # bytes of a line; a binary frame takes four thirds of its size
DAMAGED = b'{"damaged":'
HELD = 3600.0  # seconds that an import may take for one session
_IMPORT = "an import"  # the owner of a session's lease meanwhile


class _First(Struct, rename="camel", forbid_unknown_fields=True):
    dragoman_gateway: int
    session: str


class _Record(Struct, omit_defaults=True, forbid_unknown_fields=True):
    number: int
    epoch: int
    time: float
    origin: Origin
    principal: str = ""
    client: str = ""
    frame: str | None = None
    bytes: str | None = None  # base64 of a frame that is not text


_NO_FACTS = Raw()


class _Line(Struct, omit_defaults=True, forbid_unknown_fields=True):
    facts: Raw = msgspec.field(default=_NO_FACTS, name="card")  # member names in the format
    record: _Record | None = None
    damaged: int | None = None  # the number of a record that could not be read


async def exported(engine: LogReader, session: str) -> AsyncIterator[bytes]:
    """A session as lines; a damaged record is named in its place."""
    fact = await engine.fact("session", session)
    if fact is None:
        raise Error(f"there is no session {session}")
    sealing = Sealing()
    yield msgspec.json.encode(_First(FORMAT, session))
    yield sealing.add(msgspec.json.encode(_Line(facts=Raw(fact.value))))
    async for record in logs.records(engine, session):
        line = _Line(record=_outward(record)) if record.is_whole else _Line(damaged=record.number)
        yield sealing.add(msgspec.json.encode(line))
    yield sealing.line()


def _outward(record: StoredRecord) -> _Record:
    entry = record.entry
    said = _Record(record.number, record.epoch, record.time, entry.origin, entry.principal, entry.client)
    try:
        said.frame = entry.frame.decode()
    except UnicodeDecodeError:
        said.bytes = base64.b64encode(entry.frame).decode()
    return said


async def imported(engine: Engine, file: BinaryIO) -> AsyncIterator[str]:
    """Import all sessions of a file, or none and an error that says why; returns their ids.

    The file is read twice: nothing is written before the whole file was checked.
    """
    start = file.tell()
    ids = [line.session for _, line in _read(file) if isinstance(line, _First)]
    if not ids:
        raise Error("there is no exported session in it")
    for id in ids:
        if ids.count(id) > 1 or await engine.fact("session", id):
            raise Error(f"there is a session {id} already; nothing was imported")
    file.seek(start)
    taking: _Taking | None = None
    try:
        for _, line in _read(file):
            match line:
                case _First():
                    taking = await _Taking(engine, line.session).begun()
                case _Line() if taking:
                    await taking.take(line)
                case ExportSeal() if taking:
                    await taking.finish()
                    yield taking.session
    except BaseException:
        for id in ids:
            await forget_session(engine, id)
        raise


class _Taking:
    """One session that is being imported."""

    def __init__(self, engine: Engine, session: str) -> None:
        self.session = session
        self._engine = engine
        self._lease = Lease(session, _IMPORT, 0)  # until `begun`
        self._facts = b""
        self._last = self._size = 0
        self._records: list[StoredRecord] = []

    async def begun(self) -> "_Taking":
        if await self._engine.last(self.session):  # left by an interrupted import
            await self._engine.forget(self.session)
        lease = await self._engine.acquire(self.session, _IMPORT, HELD)
        if lease is None:
            raise Error(f"the session {self.session} is being imported already")
        self._lease = lease
        return self

    async def take(self, line: _Line) -> None:
        if line.facts:
            self._facts = bytes(line.facts)
        elif line.record is not None:
            self._add(_inward(line.record))
        elif line.damaged is not None:
            frame = logs.damage_frame(self.session, line.damaged)
            self._add(StoredRecord(line.damaged, 0, 0.0, LogEntry("gateway", frame)))
        if self._size > BATCH:
            await self._write()

    def _add(self, record: StoredRecord) -> None:
        self._records.append(record)
        self._size += len(record.entry.frame)

    async def _write(self) -> None:
        if self._records:
            await logs.adopt(self._engine, self._lease, self._records, self._last)
            self._last, self._size, self._records = self._records[-1].number, 0, []

    async def finish(self) -> None:
        """Write the rest, and last the roles, which make the session visible."""
        await self._write()
        facts = msgspec.json.decode(self._facts, type=SessionFacts)
        for principal in (facts.principal, *facts.roles):
            await self._engine.put_fact(MEMBER, principal, self.session, value=b"")
        await self._engine.put_fact("session", self.session, value=self._facts)
        await self._engine.release(self._lease)


def _inward(said: _Record) -> StoredRecord:
    frame = said.frame.encode() if said.frame is not None else base64.b64decode(said.bytes or "", validate=True)
    return StoredRecord(
        said.number, said.epoch, said.time, LogEntry(said.origin, frame, said.principal, said.client)
    )


def _read(file: BinaryIO) -> Iterator[tuple[int, _First | _Line | ExportSeal]]:
    """The lines of an export; raises at the first wrong one."""
    sealing: Sealing | None = None
    expected = 0
    for number, whole in enumerate(iter(lambda: file.readline(LONGEST), b""), 1):
        line = whole.rstrip(b"\r\n")
        try:
            if sealing is None:
                first = msgspec.json.decode(line, type=_First)
                if first.dragoman_gateway > FORMAT:
                    raise ValueError(f"it is of a newer version ({first.dragoman_gateway})")
                sealing, expected = Sealing(), 0
                yield number, first
            elif line.startswith(START):
                if msgspec.json.decode(line, type=ExportSeal) != sealing.seal():
                    raise ValueError("the session before it is not whole")
                yield number, sealing.seal()
                sealing = None
            else:
                said = msgspec.json.decode(sealing.add(line), type=_Line)
                _check(said, expected)
                expected += 1
                yield number, said
        except ValueError as exc:  # msgspec's errors are ValueErrors
            raise Error(
                f"line {number} does not belong to an exported session: {exc}; nothing was imported"
            ) from None
    if sealing is not None:
        raise Error("the end of the last session is missing; nothing was imported")


def _check(line: _Line, expected: int) -> None:
    """Check the order of lines: first the facts, then records without a gap."""
    if expected == 0:
        if not line.facts:
            raise ValueError("its facts are missing")
        msgspec.json.decode(line.facts, type=SessionFacts)
        return
    number = line.record.number if line.record else line.damaged
    if number != expected:
        raise ValueError(f"record {expected} is missing")
    if line.record:
        _inward(line.record)
