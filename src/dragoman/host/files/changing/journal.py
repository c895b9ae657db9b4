"""The running changes of this process, recorded outside the workspace; the next process settles them.

A directory that only the user can enter (`$XDG_STATE_HOME/dragoman/files`) has a file for each change under way:

    TOKEN-N.edits   lines of JSON, see `records`; the further names of its files carry the token

The writing process holds a lock on it, which the kernel releases when the process ends in any way.  A file that can
be locked is therefore left over, and `recover` finishes or undoes it.  An unreadable one is set aside as
`TOKEN-N.edits.damaged` for a person to look at, and the log says so.
"""

import errno
import logging
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec
from msgspec import Struct

from ....foundation.directories import state_directory
from ..paths import MAX_TRIES
from .exchanging import remove
from .locations import Directories
from .records import MAX_RECORD, DamagedRecord, read
from .settling import settle

log = logging.getLogger("dragoman")

KEPT = 30 * 24 * 3600  # seconds for which a change that cannot be undone (such as on an unmounted disk) is retried
_NEW = "new-"
_RECORD = re.compile(r"([0-9a-f]{16})-[0-9]+\.edits")
_APPEND = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC


class JournalRecord:
    """A locked file of lines."""

    def __init__(self, directory: int, name: str) -> None:
        self._directory, self._name = directory, name
        self._is_named = False  # on the disk
        for _ in range(MAX_TRIES):
            self._fd = os.open(_NEW + name, _APPEND, 0o600, dir_fd=directory)
            try:
                # Locked before it has its name, so that nobody finds it unlocked while this process lives.
                if _lock(self._fd):
                    os.rename(_NEW + name, name, src_dir_fd=directory, dst_dir_fd=directory)
                    return
            except FileNotFoundError:  # a starting process took it for a leftover
                pass
            except BaseException:
                self.leave()
                raise
            self.leave()
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def write(self, line: Struct, *, sync: bool = False) -> None:
        """Add a line; with `sync`, it and all earlier lines are synced when this returns."""
        data = memoryview(msgspec.json.encode(line) + b"\n")
        while data:
            data = data[os.write(self._fd, data) :]
        if sync:
            os.fsync(self._fd)
            if not self._is_named:
                os.fsync(self._directory)
                self._is_named = True

    def leave(self) -> None:
        """Release the record, so that another process settles it."""
        os.close(self._fd)

    def remove(self) -> None:
        """Remove the record; if that fails, settling it once more does no harm."""
        with suppress(OSError):
            remove(self._directory, self._name)
        self.leave()


class Journal:
    """The records of one workspace; their directory is created with the first record."""

    def __init__(self, state: str | os.PathLike[str] | None = None) -> None:
        self.directory = os.path.join(os.fspath(state or state_directory()), "files")
        self._token = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._edits = 0

    def edit_name(self) -> str:
        """A further name for a file in a record."""
        return f".dragoman-{self._token}-{secrets.token_hex(8)}.edit"

    def begin(self) -> JournalRecord:
        """A new record of a change; raises OSError if it cannot be created."""
        with self._lock:
            self._edits += 1
            return JournalRecord(self._open(), f"{self._token}-{self._edits}.edits")

    def close(self) -> None:
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _open(self) -> int:
        if self._fd is None:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            self._fd = _open_private(self.directory)
        return self._fd


def _open_private(path: str) -> int:
    """The user's own directory; refused if others can write to it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(fd)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        os.close(fd)
        raise PermissionError(errno.EACCES, "others can write to it")
    return fd


def recover(directory: str) -> None:
    """Finish or undo the changes of ended processes, and log each."""
    try:
        fd = _open_private(directory)
    except FileNotFoundError:
        return
    except OSError as exc:
        log.warning("leftovers of a crash cannot be inspected: %s: %s", directory, exc.strerror)
        return
    try:
        for name in sorted(os.listdir(fd)):
            with _left_over(fd, name) as record:
                if record is not None:
                    _deal_with(fd, name, record)
    finally:
        os.close(fd)


@contextmanager
def _left_over(directory: int, name: str) -> Iterator[int | None]:
    """Hold a left-over record until the block ends."""
    try:
        fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        yield None
        return
    try:
        is_ours = _lock(fd)
        status = os.fstat(fd)  # its owner may just have removed it
        yield fd if is_ours and stat.S_ISREG(status.st_mode) and status.st_nlink else None
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    """Lock a file while it is open here; false if another process has locked it."""
    import fcntl  # not everywhere

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _deal_with(directory: int, name: str, fd: int) -> None:
    match = _RECORD.fullmatch(name)
    try:
        if match:
            _settle(match[1], fd)
        if match or name.startswith(_NEW):
            remove(directory, name)
    except OSError as exc:
        log.warning("a change of files that was cut short cannot be taken back now: %s", exc.strerror or exc)
        if time.time() - os.fstat(fd).st_mtime > KEPT:
            _set_aside(directory, name, f"it could not be settled for {KEPT // 86400} days")
    except DamagedRecord as exc:
        _set_aside(directory, name, str(exc))
    except Exception as exc:  # a workspace must not fail because of it
        _set_aside(directory, name, f"{type(exc).__name__}: {exc}")


def _settle(token: str, fd: int) -> None:
    if os.fstat(fd).st_size > MAX_RECORD:
        raise DamagedRecord(f"it is larger than {MAX_RECORD} bytes")
    with open(os.dup(fd), "rb") as file:
        progress = read(file, token)
    if progress is None:
        return
    with Directories() as directories:
        is_finished = settle(progress, directories)
    outcome = "finished" if is_finished else "taken back"
    log.warning("a change of files that was cut short has been %s: %s", outcome, progress.paths())


def _set_aside(directory: int, name: str, why: str) -> None:
    aside = f"{name}.damaged"
    log.error(
        "the record of a change of files is set aside as %s: %s; files named .dragoman-* may remain", aside, why
    )
    with suppress(OSError):
        os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
