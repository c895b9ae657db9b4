"""What this process has under way, written down outside the workspace, so that the next one can finish or undo it.

In a directory only the user can enter (`$XDG_STATE_HOME/dragoman/files`) there are two kinds of files:

    TOKEN.temps     the directories in which this process makes temporary files; their names carry the token
    TOKEN-N.edits   a change of several files at once: see `edits`

Both are lines of JSON.  Whoever writes one holds a lock on it, which the kernel lets go of when the process is
gone, however it went.  A file that can be locked is therefore left over, and `recover` deals with it.
"""

import errno
import json
import logging
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ...directories import state_directory
from .paths import DIRECTORY, MAX_TRIES, components, descend
from .writing import remove

log = logging.getLogger("dragoman")

KEPT = 30 * 24 * 3600  # seconds for which a change that cannot be undone (a disk not mounted) is kept in mind
_NEW = "new-"
_APPEND = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_APPEND | os.O_CLOEXEC


class Record:
    """A locked file of lines, each of which is on the disk when `write` returns."""

    def __init__(self, directory: int, name: str) -> None:
        self._directory, self._name = directory, name
        for _ in range(MAX_TRIES):
            self._fd = os.open(_NEW + name, _APPEND, 0o600, dir_fd=directory)
            try:
                # Locked before it has its name: nobody finds it unlocked while this process lives.
                if _lock(self._fd):
                    os.rename(_NEW + name, name, src_dir_fd=directory, dst_dir_fd=directory)
                    return
            except FileNotFoundError:  # somebody who starts just now took it for left over
                pass
            except BaseException:
                self.leave()
                raise
            self.leave()
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def write(self, line: Any) -> None:
        data = memoryview(json.dumps(line).encode() + b"\n")
        while data:
            data = data[os.write(self._fd, data) :]
        os.fsync(self._fd)

    def leave(self) -> None:
        """Let go of it, for somebody else to deal with."""
        os.close(self._fd)

    def remove(self) -> None:
        """It has served; should it not go away, dealing with it once more does no harm."""
        with suppress(OSError):
            remove(self._directory, self._name)
        self.leave()


class Journal:
    """The records of one workspace; their directory is made when there is something to write down."""

    def __init__(self, state: str | os.PathLike[str] | None = None) -> None:
        self.directory = os.path.join(os.fspath(state or state_directory()), "files")
        self._token = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._temps: Record | None = None
        self._known: set[str] = set()  # directories that are written down
        self._lying_about: set[str] = set()  # temporary files
        self._edits = 0

    def temp_name(self, directory: str) -> str:
        """A name for a temporary file in a directory, which is swept should this process not live to see to it."""
        name = f".dragoman-{self._token}-{secrets.token_hex(8)}.tmp"
        with self._lock:
            self._lying_about.add(name)
            if directory not in self._known:
                self._known.add(directory)
                self._expect_temps(directory)
        return name

    def forget(self, temp: str) -> None:
        """A temporary file is there no more."""
        with self._lock:
            self._lying_about.discard(temp)

    def edit_name(self) -> str:
        """A name for a file that a record of edits tells of."""
        return f".dragoman-{self._token}-{secrets.token_hex(8)}.edit"

    def begin(self) -> Record:
        """A new record of a change of several files; raises OSError when there is no place for it."""
        with self._lock:
            self._edits += 1
            return Record(self._open(), f"{self._token}-{self._edits}.edits")

    def close(self) -> None:
        with self._lock:
            if self._temps:
                if self._lying_about:  # one could not be removed: the next start tries again
                    self._temps.leave()
                else:
                    self._temps.remove()
                self._temps = None
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def _expect_temps(self, directory: str) -> None:
        try:
            if self._temps is None:
                self._temps = Record(self._open(), f"{self._token}.temps")
            self._temps.write(directory)
        except OSError as exc:
            log.warning("temporary files of a crash will not be swept: %s: %s", self.directory, exc.strerror)

    def _open(self) -> int:
        if self._fd is None:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            self._fd = _open_private(self.directory)
        return self._fd


def _open_private(path: str) -> int:
    """A directory of the user's own; refused when others could have put something there."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(fd)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        os.close(fd)
        raise PermissionError(errno.EACCES, "others can write to it")
    return fd


def recover(directory: str, undo: Callable[[list[Any]], bool]) -> None:
    """Deal with what processes that are gone have left.

    `undo` is given the record of a change of several files, and says whether that is dealt with now.
    """
    try:
        fd = _open_private(directory)
    except FileNotFoundError:
        return
    except OSError as exc:
        log.warning("what a crash may have left cannot be looked at: %s: %s", directory, exc.strerror)
        return
    try:
        # A change of several files first: its temporary files are still needed.
        for name in sorted(os.listdir(fd), key=lambda name: name.endswith(".temps")):
            with _left_over(fd, name) as record:
                if record is not None and _deal_with(name, record, undo):
                    remove(fd, name)
    finally:
        os.close(fd)


@contextmanager
def _left_over(directory: int, name: str) -> Iterator[int | None]:
    """A record nobody holds; it is ours until the block ends."""
    try:
        fd = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        yield None
        return
    try:
        is_ours = _lock(fd)
        status = os.fstat(fd)  # its owner may have removed it just now
        yield fd if is_ours and stat.S_ISREG(status.st_mode) and status.st_nlink else None
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    """Lock a file for as long as it is open here; false when somebody else has."""
    import fcntl  # not everywhere

    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _deal_with(name: str, fd: int, undo: Callable[[list[Any]], bool]) -> bool:
    if name.startswith(_NEW):
        return True
    lines = list(_lines(fd))
    if match := re.fullmatch(r"([0-9a-f]{16})\.temps", name):
        for directory in lines:
            _sweep(directory, match[1])
        return True
    if not name.endswith(".edits"):
        return False
    return not lines or undo(lines) or time.time() - os.fstat(fd).st_mtime > KEPT


def _lines(fd: int) -> Iterator[Any]:
    """The lines of a record, up to one that was cut short."""
    with open(os.dup(fd), "rb") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                return


def _sweep(path: Any, token: str) -> None:
    """Remove the temporary files a process has left in a directory, if that is still there."""
    try:
        fd = open_real(str(path))
    except OSError:
        return
    try:
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
        try:
            for name in os.listdir(listing):
                if name.startswith(f".dragoman-{token}-") and name.endswith(".tmp"):
                    remove(fd, name)
        finally:
            os.close(listing)
    except OSError as exc:
        log.warning("temporary files of a crash are left in %s: %s", path, exc.strerror)
    finally:
        os.close(fd)


def open_real(path: str) -> int:
    """Open a directory by its real path: one with a link in it is another one."""
    top = os.open("/", DIRECTORY)
    try:
        return descend(top, components(path))
    finally:
        os.close(top)
