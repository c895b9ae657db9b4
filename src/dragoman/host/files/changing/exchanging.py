"""The only place where a name of the user gets another file: exchange, check, put back.

`put` gives a finished file a name, `take` takes a name away from a file.  Both do it first, in one step, and then
check the file that had the name, which nobody else can replace any more.  If that file does not fulfil the
`Condition`, it gets its name back and the change is refused.  There is no gap between check and change.

Where names cannot be exchanged (shared folders, some FUSE file systems), the old file is renamed away and checked,
and the new one gets the name if it is still free.  For a moment no file has the name; the journal tells the next
start where the old file is.  Without hard links, the new file is created under its name and filled there
(`filling`), because a rename would replace any file that has the name by then.

No file of the user is ever removed here.  A file that can neither stay nor get its name back, because somebody has
saved another one meanwhile, is kept next to it (`keep_beside`), and the log says so.
"""

import errno
import logging
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .. import linux
from ..errors import FileRefused
from ..linux import UNSUPPORTED
from ..paths import MAX_TRIES, status_at
from ..reading import opened
from .condition import ANYTHING, Condition
from .filling import fill, make_new

log = logging.getLogger("dragoman")

PATIENCE = 10.0  # seconds to wait for another process that changes files of the same directory

_NO_LINKS = {*UNSUPPORTED, errno.EMLINK, errno.EXDEV}
_FILL = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST = 200  # characters of a name that gets a suffix


def put(dir_fd: int, new: str, aside: str, name: str, condition: Condition) -> bool:
    """Give the file `new` the name `name`; true if the name was free.

    A file that had the name is called `new` afterwards, or `aside` where names cannot be exchanged.
    """
    with _alone(dir_fd):
        for _ in range(MAX_TRIES):
            try:
                if condition.is_absent:
                    return _put_new(dir_fd, new, name, condition)
                return _put_over(dir_fd, new, aside, name, condition)
            except FileExistsError:  # somebody has just created it
                continue
    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def take(dir_fd: int, aside: str, name: str, condition: Condition) -> None:
    """Rename a file to `aside`; raises FileNotFoundError if it is missing."""
    with _alone(dir_fd):
        _rename_away(dir_fd, name, aside)
        try:
            _look(dir_fd, aside, condition)
        except BaseException:
            give_back(dir_fd, aside, name)
            raise


def _put_new(dir_fd: int, new: str, name: str, condition: Condition) -> bool:
    try:
        rename_new(dir_fd, new, name)
    except FileExistsError:
        raise FileRefused(condition.refusal) from None
    return True


def _put_over(dir_fd: int, new: str, aside: str, name: str, condition: Condition) -> bool:
    ours = os.stat(new, dir_fd=dir_fd, follow_symlinks=False)
    try:
        linux.exchange(dir_fd, new, name)
    except FileNotFoundError:  # the name is free
        condition.check(None)
        rename_new(dir_fd, new, name)
        return True
    except OSError as exc:
        if exc.errno not in UNSUPPORTED:
            raise
        return _put_in_two_steps(dir_fd, new, aside, name, condition)
    try:
        _look(dir_fd, new, condition)
    except BaseException:
        _put_back(dir_fd, new, name, ours)
        raise
    return False


def _put_in_two_steps(dir_fd: int, new: str, aside: str, name: str, condition: Condition) -> bool:
    if condition == ANYTHING and _linked(dir_fd, name, aside):  # nothing to check, so no gap is needed
        os.rename(new, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        return False
    try:
        os.rename(name, aside, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except FileNotFoundError:
        condition.check(None)
        rename_new(dir_fd, new, name)
        return True
    try:
        _look(dir_fd, aside, condition)
        rename_new(dir_fd, new, name)
    except FileExistsError:  # saved at this very moment
        give_back(dir_fd, aside, name)
        raise FileRefused("changed") from None
    except BaseException:
        give_back(dir_fd, aside, name)
        raise
    return False


def _linked(dir_fd: int, name: str, aside: str) -> bool:
    """Give a regular file a further name; false if the file system cannot."""
    status = status_at(dir_fd, name)
    if status is None or not stat.S_ISREG(status.st_mode):
        return False
    try:
        os.link(name, aside, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def _look(dir_fd: int, name: str, condition: Condition) -> None:
    """Check a file whose name only this process knows; a file open for writing elsewhere counts as changed."""
    try:
        with opened(name, dir_fd) as file:
            before = identity(os.fstat(file))
            condition.check(file)
            if identity(os.fstat(file)) != before:
                raise FileRefused("changed")
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR):  # a link, a socket
            raise FileRefused("not_a_file") from exc
        raise


def _put_back(dir_fd: int, taken: str, name: str, ours: os.stat_result) -> None:
    """Undo an exchange.  A file saved under the name since then is newer, and stays."""
    try:
        linux.exchange(dir_fd, taken, name)
    except FileNotFoundError:  # it was removed meanwhile
        give_back(dir_fd, taken, name)
        return
    out = status_at(dir_fd, taken)
    if out is not None and identity(out) == identity(ours):
        return
    linux.exchange(dir_fd, taken, name)
    keep_beside(dir_fd, taken, name)


def give_back(dir_fd: int, taken: str, name: str) -> None:
    """Give a file its name back; if another file has it by now, keep both."""
    try:
        rename_new(dir_fd, taken, name)
    except FileExistsError:
        now = status_at(dir_fd, name)
        if is_same(dir_fd, taken, name):  # it never lost it
            remove(dir_fd, taken)
        elif now and stat.S_ISREG(now.st_mode) and not now.st_size:  # a killed process created it
            _fill_empty(dir_fd, taken, name)
        else:
            keep_beside(dir_fd, taken, name)


def _fill_empty(dir_fd: int, taken: str, name: str) -> None:
    """Move the content of another file into an empty one; keep both if it is no longer empty."""
    try:
        with opened(taken, dir_fd) as source:
            fill(dir_fd, source, os.open(name, _FILL, dir_fd=dir_fd), name)
    except FileExistsError:
        keep_beside(dir_fd, taken, name)
    else:
        remove(dir_fd, taken)


def is_same(dir_fd: int, one: str, other: str) -> bool:
    """Whether two names stand for one file."""
    first, second = status_at(dir_fd, one), status_at(dir_fd, other)
    return first is not None and second is not None and os.path.samestat(first, second)


def keep_beside(dir_fd: int, taken: str, name: str) -> None:
    """Keep a user's file next to the one that has its name now, under a name that a person can find."""
    beside = f"{name[:_LONGEST]}.kept-{secrets.token_hex(4)}"
    _rename_away(dir_fd, taken, beside)
    log.warning("%s was saved while it was being changed; the version before is kept as %s", name, beside)


def identity(status: os.stat_result) -> tuple[int, int, int, int]:
    """A value that differs if a file was replaced or its content changed."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def rename_new(dir_fd: int, old: str, new: str) -> None:
    """Rename a file to a free name; raises FileExistsError if it is not free."""
    try:
        linux.rename_new(dir_fd, old, new)
    except OSError as exc:
        if exc.errno not in UNSUPPORTED:
            raise
        _link_new(dir_fd, old, new)


def _link_new(dir_fd: int, old: str, new: str) -> None:
    try:
        os.link(old, new, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        make_new(dir_fd, old, new)
    os.unlink(old, dir_fd=dir_fd)


def can_link(dir_fd: int, ours: str) -> bool:
    """Whether hard links work here."""
    further = f"{ours}.link"
    if not _linked(dir_fd, ours, further):
        return False
    remove(dir_fd, further)
    return True


def _rename_away(dir_fd: int, name: str, ours: str) -> None:
    """Rename a file to a name that nobody else uses."""
    try:
        linux.rename_new(dir_fd, name, ours)
    except OSError as exc:
        if exc.errno not in UNSUPPORTED:
            raise
        os.rename(name, ours, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def _alone(dir_fd: int) -> Iterator[None]:
    """Lock a directory against exchanges by other workspaces, in this process and in others.

    Two that put files back at the same time would put back each other's files.
    """
    with _ONE_AT_A_TIME:
        try:
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
        except PermissionError:  # one may write to a directory one may not read
            yield
            return
        try:
            _lock(fd)
            yield
        finally:
            os.close(fd)


def _lock(fd: int) -> None:
    import fcntl  # not everywhere

    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise
        except OSError:  # there are no locks on this file system
            return
        time.sleep(0.005)


def remove(dir_fd: int, name: str) -> None:
    """Remove a file if it exists; a read-only disk also refuses to remove a missing one."""
    try:
        os.unlink(name, dir_fd=dir_fd)
    except OSError:
        if status_at(dir_fd, name) is not None:
            raise


def sync_directory(dir_fd: int) -> None:
    """Sync a directory's names to the disk, where the system can."""
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    except PermissionError:  # one may write to a directory one may not read
        return
    try:
        os.fsync(fd)
    except OSError as exc:
        if exc.errno not in UNSUPPORTED:
            raise
    finally:
        os.close(fd)
