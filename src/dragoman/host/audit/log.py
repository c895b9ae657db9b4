"""Logs requests and decisions before they take effect, in a file in which every change is noticed.

`AuditLog.record` appends one line to the chain that `chain.py` describes.  A record that allows an operation is
synced to the disk before the operation; if the log cannot be written, it raises `AuditError` and the operation is
denied.  Secrets are removed here.  Writers share the log through a lock on its seal.  A line torn by a crash is
kept; the `repaired` record after it says so and continues the chain.
"""

import asyncio
import contextlib
import hashlib
import math
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...errors import Error
from ...foundation.directories import state_directory
from ...foundation.documents import Document
from ...foundation.unix import fcntl
from ..disk import lock, sync_directory
from .chain import (
    MAX_LINE,
    OWN_EVENTS,
    OWN_FIELDS,
    LogSeal,
    last_record,
    line_of,
    read_line,
    read_seal,
    seal_path,
)
from .redaction import Redactor

MAX_TEXT, MAX_RECORD, MAX_ITEMS, MAX_DEPTH = 4000, 16_000, 256, 12  # limits of a kept value


class AuditError(Error):
    """The audit log cannot be written, so no operation that it would record may be done."""


class AuditLog:
    """Appends records to a log that several threads and processes may share; without the environment's secrets.

    If another program moves the log away, a new file continues the same chain.
    """

    def __init__(self, path: str | os.PathLike[str], redactor: Redactor | None = None) -> None:
        self.path = Path(path)
        self.redactor = redactor or Redactor.of_environment()
        self._turn = threading.Lock()
        self._process = 0  # the process of the descriptors: a lock does not hold between a process and its fork
        self._fd = self._seal_fd = -1
        self._last, self._size = LogSeal(), -1  # the last record we know of, and the file's size behind it
        self._failure = ""

    def __enter__(self) -> "AuditLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        with self._turn:
            self._let_go()

    async def record(self, event: Mapping[str, object], *, durable: bool | None = None) -> str:
        """Append a record without blocking the event loop; returns its hash once it is written.

        A record that allows something (`decision` is `allow`) is synced by then, unless `durable` says otherwise.
        """
        return await asyncio.to_thread(self.append, event, durable=durable)

    def append(self, event: Mapping[str, object], *, durable: bool | None = None) -> str:
        """Append a record; returns its hash."""
        if event.get("event") in OWN_EVENTS or not event.keys().isdisjoint(OWN_FIELDS):
            raise ValueError(f"the events {OWN_EVENTS} and the fields {OWN_FIELDS} are reserved for the log")
        clean = cleaned(event, self.redactor)
        with self._turn:
            if self._failure:
                raise AuditError(self._failure)
            try:
                with self._held():
                    self._write(clean, event.get("decision") == "allow" if durable is None else durable)
            except OSError as exc:
                raise AuditError(f"the audit log {self.path} cannot be written: {exc.strerror or exc}") from exc
            return self._last.hash

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Lock out every other writer, and open the file that is at the path now."""
        if self._process != os.getpid():
            self._let_go()
            self._process = os.getpid()
        seal = seal_path(self.path)
        while True:
            if self._seal_fd < 0:
                self._seal_fd = _open(seal, os.O_RDWR)
            if not lock(self._seal_fd):
                raise AuditError(f"another process holds the audit log {self.path}")
            if _is_at(self._seal_fd, seal):
                break
            self._let_go()  # somebody removed the seal while we waited for the lock
        try:
            if self._fd < 0 or not _is_at(self._fd, self.path):
                self._drop_log()
                self._fd = _open(self.path, os.O_RDWR | os.O_APPEND)
            yield
        finally:
            fcntl.flock(self._seal_fd, fcntl.LOCK_UN)

    def _let_go(self) -> None:
        self._drop_log()
        if self._seal_fd >= 0:
            os.close(self._seal_fd)
            self._seal_fd = -1

    def _drop_log(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = self._size = -1

    def _write(self, fields: Mapping[str, object], durable: bool) -> None:
        size = os.fstat(self._fd).st_size
        before = b"" if size == self._size else self._catch_up(size)
        lines = before + self._line(fields)
        self._size = -1  # if this fails, the file is read again
        try:
            _write_all(self._fd, lines)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, size)
            raise
        if durable or size == 0:  # an empty log beside a seal would look as if somebody had removed the log
            self._sync()
        os.pwrite(self._seal_fd, self._last.written(), 0)
        self._size = size + len(lines)

    def _sync(self) -> None:
        try:
            os.fsync(self._fd)
        except OSError as exc:
            # The kernel may have dropped bytes that it could not write, and would call the next attempt a success.
            self._failure = f"the disk failed under the audit log {self.path}: {exc.strerror}; start again"
            raise

    def _catch_up(self, size: int) -> bytes:
        """Find the log's end in the file and the seal; returns the records that must be written first."""
        sealed = read_seal(self._seal_fd)
        if size == 0:
            self._last = sealed or LogSeal()
            os.pwrite(self._seal_fd, self._last.written(), 0)
            os.fsync(self._seal_fd)  # from now on, an empty seal counts as spoilt
            return self._line({"event": "start", "continues": self._last.seq})
        found, rest = last_record(self._fd, size)
        line_break = b"\n" if rest and not rest.endswith(b"\n") else b""
        if (whole := read_line(rest + line_break)) is not None:  # only its line break was torn off
            found, rest = whole, b""
        self._last = LogSeal(found.seq, found.hash) if found else LogSeal()
        wrong: Document = {}
        if rest or line_break:
            torn = rest.removesuffix(b"\n")
            wrong["torn"] = {"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}
        if sealed is None:
            wrong["sealed"] = None
        elif sealed.seq > self._last.seq or (sealed.seq == self._last.seq and (sealed != self._last or whole)):
            wrong["sealed"] = {"seq": sealed.seq, "hash": sealed.hash}
        if not wrong:
            return b""
        return line_break + self._line({"event": "repaired" if found else "start", **wrong})

    def _line(self, fields: Mapping[str, object]) -> bytes:
        """The next line of the chain, which becomes the last one."""
        seq, prev = self._last.seq + 1, self._last.hash
        now = datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
        line, digest = line_of({"seq": seq, "time": now, **fields, "prev": prev})
        if len(line) > MAX_LINE:
            few = {name: value for name, value in fields.items() if not isinstance(value, dict | list)}
            short = dict(list(_Cut(400, 4000).plain(few).items())[:20])
            line, digest = line_of({"seq": seq, "time": now, **short, "cut": len(line), "prev": prev})
        self._last = LogSeal(seq, digest)
        return line


def default_path() -> Path:
    """Where the user's log is."""
    return state_directory() / "audit.jsonl"


def cleaned(event: Mapping[str, object], redactor: Redactor) -> Document:
    """An event as it is written: plain JSON of bounded size, without secrets."""
    # Cut twice: the rest of a secret that the first cut leaves is beyond the second cut.
    plain = redactor.value(_Cut(4 * MAX_TEXT, 4 * MAX_RECORD).plain(event))
    clean: Document = _Cut(MAX_TEXT, MAX_RECORD).plain(plain)
    return clean


class _Cut:
    """Makes plain JSON of a value, with a limit for each text and for all of them."""

    def __init__(self, most: int, left: int) -> None:
        self._most = most
        self._left = left

    def plain(self, value: object, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0:
            return "[…]"
        match value:
            case bool() | None:
                return value
            case int() if abs(value) < 2**63:
                return value
            case float() if math.isfinite(value):
                return value
            case Mapping() if depth < MAX_DEPTH:
                some = list(value.items())[:MAX_ITEMS]
                return {self._text(str(name)): self.plain(inner, depth + 1) for name, inner in some}
            case list() | tuple() if depth < MAX_DEPTH:
                kept = [self.plain(inner, depth + 1) for inner in value[:MAX_ITEMS]]
                return kept if len(value) <= MAX_ITEMS else [*kept, f"[… {len(value) - MAX_ITEMS} more …]"]
            case _:
                return self._text(str(value))

    def _text(self, text: str) -> str:
        half = min(self._most, self._left) // 2
        if len(text) > 2 * half:
            end = text[len(text) - half :]
            text = f"{text[:half]} [… {len(text) - 2 * half} characters left out …] {end}"
        self._left = max(0, self._left - len(text))
        return text


def _open(path: Path, flags: int) -> int:
    """Open one of our own files, created on first use; never a link or another user's file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        fd = os.open(path, flags | os.O_CREAT, 0o600)
        sync_directory(path.parent)
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(fd)
        raise AuditError(f"{path} is not a plain file of this user, so the audit log cannot be there")
    if status.st_mode & 0o077:
        os.fchmod(fd, 0o600)
    return fd


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _write_all(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
