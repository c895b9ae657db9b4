"""The lines of an audit log: each names the one before it, so none can be changed, removed, added or moved unseen.

    {"seq":7,"time":"2026-01-31T12:00:00.123Z","event":"decision",…,"prev":"9f86…","hash":"6030…"}

`hash` is the SHA-256 of every byte of the line in front of `,"hash"`, `prev` the hash of the line before.  A file
begins with a `start` record, which says how many records came before it in other files.  A small file next to the
log, its seal, says how far the log has come, so that a missing end is noticed.

The chain has no secret, so it cannot show that somebody rewrote the log from some line to its end, seal included.
To notice that as well, keep the last hash elsewhere; `verified` returns it.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from ..disk import lock
from ..display import visible

GENESIS = "0" * 64  # stands for the line before the first line of the first file
MAX_LINE = 256 * 1024
OWN_FIELDS = ("seq", "time", "prev", "hash")
OWN_EVENTS = ("start", "repaired")
_HASH = b',"hash":"'
_TAIL = len(_HASH) + 64 + len(b'"}\n')
_SEAL_SIZE = 20 + 1 + 64 + 1


class AuditRecord(Struct, frozen=True):
    """An unchanged line."""

    seq: int
    prev: str
    hash: str
    fields: Mapping[str, object]


class LogSeal(Struct, frozen=True):
    """How far a log has come: its last record."""

    seq: int = 0
    hash: str = GENESIS

    def written(self) -> bytes:
        return f"{self.seq:020d} {self.hash}\n".encode()


class Problem(Struct, frozen=True):
    """One place where a log was changed: the file, the line (counted from 1), and the fault."""

    file: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{visible(self.file)}:{self.line}: {self.what}"


def line_of(fields: Mapping[str, object]) -> tuple[bytes, str]:
    """A record as a line, in printable ASCII alone so that looking at it is harmless, and its hash."""
    text = json.dumps(fields, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    body = text[:-1].replace("\x7f", "\\u007f").encode()
    digest = hashlib.sha256(body).hexdigest()
    return body + _HASH + digest.encode() + b'"}\n', digest


def read_line(line: bytes) -> AuditRecord | None:
    """The record in a line; None if the line is not exactly as it was written."""
    body = line[:-_TAIL]
    if line[len(body) :] != _HASH + hashlib.sha256(body).hexdigest().encode() + b'"}\n':
        return None
    try:
        fields = json.loads(line)
        return AuditRecord(fields["seq"], fields["prev"], fields["hash"], fields)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def last_record(fd: int, size: int) -> tuple[AuditRecord | None, bytes]:
    """The last sound line of a file, and everything after it."""
    for start in (max(0, size - 2 * MAX_LINE), 0):
        data = os.pread(fd, size - start, start)
        end = len(data)
        while (end := data.rfind(b"\n", 0, end)) >= 0:
            begin = data.rfind(b"\n", 0, end) + 1
            if record := read_line(data[begin : end + 1]):
                return record, data[end + 1 :]
    return None, data


def seal_path(path: Path) -> Path:
    return path.with_name(path.name + ".seal")


def read_seal(fd: int) -> LogSeal | None:
    """The content of a seal; None for a file that is no seal, empty for one that was just made."""
    data = os.pread(fd, _SEAL_SIZE + 1, 0)
    seq, _, digest = data.decode("ascii", "replace").removesuffix("\n").partition(" ")
    is_seal = len(data) == _SEAL_SIZE and seq.isdigit() and len(digest) == 64
    return LogSeal(int(seq), digest) if is_seal else None


def verify(path: str | os.PathLike[str], *newer: str | os.PathLike[str]) -> list[Problem]:
    """Every place where a log was changed; several files are one log, the oldest first.

    Older parts of the log are found next to the first file, under its name with a suffix.
    """
    return _read(path, *newer).problems


def verified(path: str | os.PathLike[str], *newer: str | os.PathLike[str]) -> tuple[list[str], bool]:
    """The output of `dragoman audit --verify`, and whether the log is unchanged."""
    chain = _read(path, *newer)
    if chain.problems:
        count = len(chain.problems)
        verdict = f"{count} problem{'s' * (count > 1)}: this log is not what was written"
        return [*map(str, chain.problems), verdict], False
    return [f"{chain.count} records as they were written; the last hash is {chain.last.hash}"], True


def shown(*paths: str | os.PathLike[str]) -> Iterator[str]:
    """The output of `dragoman audit`: one readable line for each record."""
    for path in paths:
        try:
            with open(path, "rb") as file:
                for number, line in enumerate(_lines(file), 1):
                    record = read_line(line)
                    yield _shown(record.fields) if record else f"line {number} is not what was written"
        except OSError as exc:
            yield f"{visible(str(path))}: the log cannot be read: {exc.strerror}"


def _shown(fields: Mapping[str, object]) -> str:
    words = [str(fields.get("time")), str(fields.get("event"))]
    for name, value in fields.items():
        if name not in (*OWN_FIELDS, "event") and value not in (None, "", [], {}):
            is_plain = isinstance(value, str) and value.replace("_", "").isalnum()
            words.append(f"{name}={value if is_plain else json.dumps(value, ensure_ascii=False)}")
    return visible(" ".join(words))


def _read(*names: str | os.PathLike[str]) -> "_Chain":
    paths = [Path(name) for name in names]
    while (older := _older(paths[0])) and older not in paths:
        paths.insert(0, older)
    seal, size = _snapshot(paths[-1])
    chain = _Chain(seal)
    for path in paths:
        chain.read(path, size if path is paths[-1] else None)
    chain.compare()
    return chain


def _snapshot(path: Path) -> tuple[LogSeal | None, int | None]:
    """A log's seal and size at one moment in which nobody writes to it."""
    try:
        fd = os.open(seal_path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None, None
    try:
        lock(fd, shared=True)
        with contextlib.suppress(OSError):
            return read_seal(fd), path.stat().st_size
        return read_seal(fd), None
    finally:
        os.close(fd)


def _older(path: Path) -> Path | None:
    """The file that a file of a log continues, when it lies next to it."""
    try:
        with open(path, "rb") as file:
            first = read_line(file.readline(MAX_LINE))
    except OSError:
        return None
    if first is None or first.prev == GENESIS:
        return None
    for sibling in path.parent.glob(f"{path.name.partition('.jsonl')[0]}*"):
        if sibling != path and sibling.is_file() and not sibling.name.endswith(".seal"):
            with contextlib.suppress(OSError), open(sibling, "rb") as file:
                last, _ = last_record(file.fileno(), os.fstat(file.fileno()).st_size)
                if last and last.hash == first.prev:
                    return sibling
    return None


def _lines(file: BinaryIO, size: int | None = None) -> Iterator[bytes]:
    """Lines up to a size, of bounded length."""
    while line := file.readline(4 * MAX_LINE):
        yield line if size is None else line[:size]
        if size is not None and (size := size - len(line)) <= 0:
            return


class _Chain:
    """Follows a log line by line and notes where it does not fit."""

    def __init__(self, seal: LogSeal | None) -> None:
        self.problems: list[Problem] = []
        self.count = 0
        self.last = LogSeal()  # the last unchanged line
        self._seal = seal
        self._place = ("", 0)
        self._seq = 0  # the number of the last line, sound or not
        self._hashes: set[str] = set()  # the hashes that the next line may name: two where the last was changed
        # Damaged lines; they are no problem if the next record says that they were torn and each is the beginning
        # of the record that was expected.
        self._doubts: list[Problem] = []
        self._doubted = hashlib.sha256()
        self._forgivable = True

    def read(self, path: Path, size: int | None) -> None:
        self._place = (str(path), 0)
        try:
            with open(path, "rb") as file:
                for number, line in enumerate(_lines(file, size), 1):
                    self._place = (str(path), number)
                    if record := read_line(line):
                        self._settle(record)
                        self._follow(record)
                    else:
                        self._doubt(line)
        except OSError as exc:
            self._note(f"the log cannot be read: {exc.strerror}")
        self._confirm_doubts()

    def _doubt(self, line: bytes) -> None:
        is_whole = line.endswith(b'"}\n')
        what = "this line was changed" if is_whole else "this line is torn"
        self._doubted.update(b"\n" * bool(self._doubts) + line.removesuffix(b"\n"))
        self._doubts.append(Problem(*self._place, what))
        self._forgivable &= _may_be_torn(line.removesuffix(b"\n"), self.last.seq + 1)
        self._seq += 1
        claimed = line[-67:-3].decode("ascii", "replace")
        self._hashes = {claimed, hashlib.sha256(line[:-_TAIL]).hexdigest()}

    def _settle(self, record: AuditRecord) -> None:
        """Check whether this record says that the lines before it were torn."""
        torn = record.fields.get("torn") if record.fields.get("event") in OWN_EVENTS else None
        known = isinstance(torn, dict) and torn.get("sha256") == self._doubted.hexdigest()
        if self._doubts and known and record.prev == self.last.hash:
            self._seq, self._hashes = self.last.seq, {self.last.hash} if self.count else set()
            self._doubts = [] if self._forgivable else self._doubts
        self._confirm_doubts()

    def _confirm_doubts(self) -> None:
        self.problems += self._doubts
        self._doubts, self._doubted, self._forgivable = [], hashlib.sha256(), True

    def _follow(self, record: AuditRecord) -> None:
        first = not self._hashes
        if first and record.fields.get("event") != "start":
            self._note(f"the beginning is missing: the first record here is number {record.seq}")
        elif first and record.prev != GENESIS:
            self._note(f"records 1 to {record.seq - 1} are in an older file, which is not here")
        elif not first and (record.prev not in self._hashes or record.seq != self._seq + 1):
            self._note(_sequence_error(record.seq, self._seq + 1))
        if "sealed" in record.fields and record.fields.get("event") in OWN_EVENTS:
            self._note(_unsealed(record.fields["sealed"]))
        if self._seal and record.seq == self._seal.seq and record.hash != self._seal.hash:
            self._note("this is not the record that was written: its seal differs")
        self.count += 1
        self.last, self._seq, self._hashes = LogSeal(record.seq, record.hash), record.seq, {record.hash}

    def compare(self) -> None:
        """Check that the log has come as far as its seal says."""
        if self._seal is None:
            self._note("there is no seal next to this file, so a missing end would not be seen")
        elif self._seal.seq > self._seq:
            self._note(f"the end is missing: records {self._seq + 1} to {self._seal.seq}")

    def _note(self, what: str) -> None:
        self.problems.append(Problem(*self._place, what))


def _may_be_torn(line: bytes, seq: int) -> bool:
    """Whether a line may be what a crash left of the record with this number."""
    begins = f'{{"seq":{seq},"time":"'.encode()
    return bool(line) and (line.startswith(begins) or begins.startswith(line))


def _sequence_error(seq: int, expected: int) -> str:
    if seq > expected:
        return f"records {expected} to {seq - 1} are missing before this line"
    if seq < expected:
        return f"record {seq} is out of place: number {expected} was to come"
    return "this line does not follow the one before it"


def _unsealed(sealed: object) -> str:
    if not isinstance(sealed, dict):
        return "before this line was written, the seal had been spoilt"
    return f"before this line was written, the log had come to record {sealed.get('seq')} and then lost its end"
