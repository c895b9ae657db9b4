"""Writes the new content of a file into its directory, with the old file's mode, owner and extended attributes.

`exchanging` gives it the name.  The old file itself is never written to: its other hard links keep what they have.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from .attributes import keep_attributes
from .errors import FileRefused
from .paths import Entry
from .reading import opened

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_EFFECTIVE_IDS = os.access in os.supports_effective_ids


def check_writable(entry: Entry) -> None:
    """Refuse if the file may not be written or replaced; a read-only file is meant to stay."""
    if not entry.root.writable:
        raise FileRefused("read_only")
    if not entry.name or (entry.status and not stat.S_ISREG(entry.status.st_mode)):
        raise FileRefused("not_a_file")
    with entry as dir_fd:
        if os.fstatvfs(dir_fd).f_flag & os.ST_RDONLY:
            raise FileRefused("read_only")
        if entry.status and not os.access(entry.name, os.W_OK, dir_fd=dir_fd, effective_ids=_EFFECTIVE_IDS):
            raise FileRefused("access_denied")


def write_new(dir_fd: int, name: str, content: Iterable[bytes], like: str, mode: int) -> int:
    """Create a file, synced when this returns, with the attributes of another one if it exists, else with a mode.

    Returns the time of its last change, in ns.
    """
    fd = os.open(name, _CREATE, 0o600, dir_fd=dir_fd)
    try:
        for chunk in content:
            view = memoryview(chunk)
            while view:
                view = view[os.write(fd, view) :]
        try:
            with opened(like, dir_fd) as old:
                keep_attributes(old, fd)
        except FileNotFoundError:
            os.fchmod(fd, mode)
        os.fsync(fd)
        return os.fstat(fd).st_mtime_ns
    finally:
        os.close(fd)


def current_umask() -> int:
    """The umask: permissions that new files do not get."""
    with suppress(OSError), open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
