"""A file replaced at once or not at all.

The new content goes to a temporary file in the very directory, with the old file's mode, owner and extended
attributes, and to the disk; then the two names are exchanged in one step, the directory goes to the disk too, and
the old file is removed.  The old file itself is never written to: its other hard links keep what they have.
"""

import errno
import hashlib
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from . import linux
from .errors import Refused
from .paths import DIRECTORY, MAX_TRIES, Place, status_at

log = logging.getLogger("dragoman")

CHUNK = 256 * 1024

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP}
_EFFECTIVE_IDS = os.access in os.supports_effective_ids
_NOT_KEPT = ("security.capability", "security.ima", "security.evm")  # vouch for the old content

Expected = str | int | None  # the SHA-256 of what is there, or when it was changed in ns; None: nothing is there


def read_chunks(fd: int, offset: int = 0, *, until: Callable[[], bool] = lambda: False) -> Iterator[bytes]:
    """A file's bytes from an offset on, until `until` says that nobody wants them any more.

    What is added meanwhile is not waited for; a file that has no size, yet something in it, may never end.
    """
    size = os.fstat(fd).st_size
    if not size and os.pread(fd, 1, 0) and not os.fstat(fd).st_size:
        raise Refused("not_a_file")
    while offset < size and not until() and (chunk := os.pread(fd, min(CHUNK, size - offset), offset)):
        yield chunk
        offset += len(chunk)


def digest_of(chunks: Iterable[bytes]) -> str:
    """The SHA-256 of some bytes, in hexadecimal digits."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def open_regular(name: str, dir_fd: int) -> int:
    """Open a regular file of a directory; anything else is refused, and nothing is waited for."""
    fd = os.open(name, _READ, dir_fd=dir_fd)
    if stat.S_ISREG(os.fstat(fd).st_mode) and not linux.is_pseudo(fd):
        return fd
    os.close(fd)
    raise Refused("not_a_file")


@contextmanager
def opened(name: str, dir_fd: int) -> Iterator[int]:
    """The same, for as long as the block runs."""
    fd = open_regular(name, dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def digest_at(dir_fd: int, name: str) -> str | None:
    """The SHA-256 of a file of a directory; None when there is none."""
    try:
        with opened(name, dir_fd) as fd:
            return digest_of(read_chunks(fd))
    except FileNotFoundError:
        return None


def check_writable(place: Place) -> None:
    """Refuse where no file may be written or replaced; a file that is read-only is so on purpose."""
    if not place.root.writable:
        raise Refused("read_only")
    if not place.name or (place.status and not stat.S_ISREG(place.status.st_mode)):
        raise Refused("not_a_file")
    with place as dir_fd:
        if place.status and not os.access(place.name, os.W_OK, dir_fd=dir_fd, effective_ids=_EFFECTIVE_IDS):
            raise Refused("access_denied")


def write_new(dir_fd: int, name: str, content: Iterable[bytes], like: str, mode: int) -> None:
    """Make a file, on the disk when this returns; like another one if that is there, else with a mode."""
    fd = os.open(name, _CREATE, 0o600, dir_fd=dir_fd)
    try:
        for chunk in content:
            view = memoryview(chunk)
            while view:
                view = view[os.write(fd, view) :]
        try:
            with opened(like, dir_fd) as old:
                _keep_attributes(old, fd)
        except FileNotFoundError:
            os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


def _keep_attributes(old: int, new: int) -> None:
    status = os.fstat(old)
    mode = status.st_mode & 0o1777  # set-user-id vouched for the old content
    try:
        os.fchown(new, status.st_uid, status.st_gid)
    except PermissionError:
        mode &= ~0o070 | (mode & 0o007) << 3  # the group is another one: it gets what everybody gets
    if hasattr(os, "listxattr"):
        _keep_extended_attributes(old, new)
    os.fchmod(new, mode)


def _keep_extended_attributes(old: int, new: int) -> None:
    try:
        names = os.listxattr(old)
    except OSError as exc:
        if exc.errno not in _UNSUPPORTED:
            raise
        return
    for name in names:
        if name in _NOT_KEPT:
            continue
        try:
            os.setxattr(new, name, os.getxattr(old, name))
        except OSError as exc:
            if exc.errno not in (*_UNSUPPORTED, errno.EACCES, errno.ENODATA):
                raise


_ONE_AT_A_TIME = threading.Lock()  # a file that is put back must not take the place of a third one


def install(dir_fd: int, temp: str, name: str, expected: "Expected | Anything", overwrite: bool) -> bool:
    """Give a finished file its name, on the disk when this returns; true when nothing had that name before."""
    for _ in range(MAX_TRIES):
        seen = _check(dir_fd, name, expected)
        if seen is not None and not overwrite:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        try:
            if seen is not None:
                _replace(dir_fd, temp, name, seen, expected)
                return False
            rename_new(dir_fd, temp, name)
        except (FileExistsError, FileNotFoundError):  # somebody made or removed it just now: look again
            continue
        _settle(dir_fd, lambda: remove(dir_fd, name))
        return True
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def _replace(dir_fd: int, temp: str, name: str, seen: os.stat_result, expected: "Expected | Anything") -> None:
    if put_over(dir_fd, temp, name, None if expected is ANYTHING else seen):
        _settle(dir_fd, lambda: linux.exchange(dir_fd, temp, name))
        with suppress(OSError):  # the new file is there; what is left over is swept some time
            remove(dir_fd, temp)
    else:
        _settle(dir_fd, None)


def put_over(dir_fd: int, temp: str, name: str, seen: os.stat_result | None) -> bool:
    """Put a finished file in another's place, which goes by the first one's name then.

    What is replaced must be the file that was `seen`: it is looked at afterwards and put back if it is another, so
    that there is no gap.  Where names cannot be exchanged there is one, the old file is gone, and this gives false.
    """
    with _ONE_AT_A_TIME:
        try:
            linux.exchange(dir_fd, temp, name)
        except OSError as exc:
            if exc.errno not in _UNSUPPORTED:
                raise
            os.rename(temp, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
            return False
        old = os.stat(temp, dir_fd=dir_fd, follow_symlinks=False)
        if not stat.S_ISREG(old.st_mode) or (seen and identity(old) != identity(seen)):
            linux.exchange(dir_fd, temp, name)
            raise Refused("changed")
        return True


def take_away(dir_fd: int, temp: str, name: str, seen: os.stat_result) -> None:
    """Give a file another name nothing has; it must be the file that was `seen`, else it is put back."""
    with _ONE_AT_A_TIME:
        rename_new(dir_fd, name, temp)
        if identity(os.stat(temp, dir_fd=dir_fd, follow_symlinks=False)) != identity(seen):
            rename_new(dir_fd, temp, name)
            raise Refused("changed")


def _settle(dir_fd: int, undo: Callable[[], None] | None) -> None:
    """Have the directory on the disk; failing that, it is as it was before, where that can be had."""
    try:
        sync_directory(dir_fd)
    except OSError:
        if undo is None:
            log.warning("a file was replaced, but its directory could not be written to the disk", exc_info=True)
            return
        undo()
        raise


class Anything:
    """Says that whatever is there may be replaced."""


ANYTHING = Anything()


def _check(dir_fd: int, name: str, expected: "Expected | Anything") -> os.stat_result | None:
    """What has the name now; refused when it is not what was expected."""
    status = status_at(dir_fd, name)
    if status is None:
        if expected is not ANYTHING and expected is not None:
            raise Refused("changed")
        return None
    if not stat.S_ISREG(status.st_mode):
        raise Refused("not_a_file")
    if expected is None:
        raise Refused("changed")
    if isinstance(expected, int) and status.st_mtime_ns != expected:
        raise Refused("changed")
    if isinstance(expected, str) and digest_at(dir_fd, name) != expected:
        raise Refused("changed")
    return status


def identity(status: os.stat_result) -> tuple[int, int, int, int]:
    """Differs when a file is another one, or the same one with other content."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def rename_new(dir_fd: int, old: str, new: str) -> None:
    """Rename to a name nothing has; raises FileExistsError when something has it."""
    try:
        linux.rename_new(dir_fd, old, new)
    except OSError as exc:
        if exc.errno not in _UNSUPPORTED:
            raise
        os.link(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
        os.unlink(old, dir_fd=dir_fd)


def sync_directory(dir_fd: int) -> None:
    """Have a directory's names on the disk, where that can be asked for."""
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    except PermissionError:  # one may write to a directory one may not read
        return
    try:
        os.fsync(fd)
    except OSError as exc:
        if exc.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(fd)


def remove(dir_fd: int, name: str) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=dir_fd)


def make_directories(dir_fd: int, names: Sequence[str]) -> tuple[int, list[int]]:
    """Make directories one in the other; a descriptor of the last, and which of them were not there before."""
    fd = os.dup(dir_fd)
    made: list[int] = []
    try:
        for depth, name in enumerate(names):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=fd)
                made.append(depth)
                sync_directory(fd)
            child = os.open(name, DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = child
    except BaseException:
        os.close(fd)
        remove_directories(dir_fd, names, made)
        raise
    return fd, made


def remove_directories(dir_fd: int, names: Sequence[str], made: Sequence[int]) -> None:
    """Remove directories that were made for nothing, innermost first; one that somebody has used stays."""
    fds = [os.dup(dir_fd)]
    try:
        with suppress(OSError):
            fds += (os.open(name, DIRECTORY, dir_fd=fds[-1]) for name in names[:-1])
        for depth in reversed(made):
            with suppress(OSError, IndexError):
                os.rmdir(names[depth], dir_fd=fds[depth])
    finally:
        for fd in fds:
            os.close(fd)


def current_umask() -> int:
    """The permissions new files do not get."""
    with suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
