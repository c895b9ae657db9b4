"""Creates a file under its own name and fills it there, for file systems without rename flags and hard links.

A rename would be one step, but it replaces any file that has the name by then, perhaps one the user has just saved.
Creating a file replaces nothing, and neither does appending to it:

* the user renames another file to the name: ours has no name any more, theirs stays;
* the user writes to our file before we do: our part is cut off again, theirs stays;
* the user writes to it after us: that is a save like any other.
"""

import errno
import os
import stat

from ..attributes import keep_attributes
from ..paths import status_at
from ..reading import opened, read_chunks

_MAKE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_new(dir_fd: int, old: str, new: str) -> None:
    """Create a file with the attributes of another one; raises FileExistsError if the name is not free."""
    status = os.stat(old, dir_fd=dir_fd, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(old, dir_fd=dir_fd), new, dir_fd=dir_fd)
        return
    with opened(old, dir_fd) as source:
        fill(dir_fd, source, os.open(new, _MAKE, 0o600, dir_fd=dir_fd), new)


def fill(dir_fd: int, source: int, made: int, name: str) -> None:
    """Fill an empty file, open for appending, from another one; it is synced and closed when this returns.

    Raises FileExistsError if somebody else has written to it or given its name to another file.
    """
    try:
        before = os.fstat(source)
        size = 0
        for chunk in read_chunks(source):
            size += _append(made, chunk, size)
        keep_attributes(source, made)
        os.utime(made, ns=(before.st_atime_ns, before.st_mtime_ns))
        os.fsync(made)
        now, named = os.fstat(made), status_at(dir_fd, name)
        if now.st_size != size or named is None or not os.path.samestat(now, named):
            raise _taken()
    finally:
        os.close(made)


def _append(made: int, chunk: bytes, size: int) -> int:
    """Append to a file of this size; if somebody else has written to it, cut our part off again."""
    view = memoryview(chunk)
    while view:
        view = view[os.write(made, view) :]
    now = os.fstat(made).st_size
    if now != size + len(chunk):
        if now >= len(chunk) and os.pread(made, len(chunk), now - len(chunk)) == chunk:
            os.ftruncate(made, now - len(chunk))
        raise _taken()
    return len(chunk)


def _taken() -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
