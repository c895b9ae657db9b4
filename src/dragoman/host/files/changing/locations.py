"""The place of a present or future file: a directory by path and identity, directories to be made, and a name.

A location holds nothing open, so there can be thousands.  It is opened from the root of the file system on, without
following a link, and only if the directory is still the same.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from msgspec import Struct

from ....foundation.places import descend, open_unlinked
from .. import linux
from ..errors import FileRefused
from ..paths import Entry

HELD = 64  # directories held open while several files are changed


class Identity(Struct, frozen=True):
    """Distinguishes a directory from another one that was created under its name."""

    inode: int
    born: int


class Location(Struct, frozen=True):
    directory: str  # the existing directory
    identity: Identity
    missing: tuple[str, ...]  # directories to be created in it
    name: str


def location_of(entry: Entry, path: str) -> Location:
    """The location of an entry; refused if its directory has moved."""
    with entry as fd:
        if entry.path() != path:
            raise FileRefused("changed")
        top = path.split("/")[: -1 - len(entry.missing)]
        return Location("/".join(top) or "/", identity_of(fd), entry.missing, entry.name)


def identity_of(fd: int) -> Identity:
    return Identity(os.fstat(fd).st_ino, linux.born(fd))


class Directories:
    """The directories of some locations, some held open so that files in a moved one can still be restored.

    A context manager that closes them.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[str, Identity], int] = {}

    @contextmanager
    def outermost(self, location: Location) -> Iterator[int]:
        """The existing directory; raises FileNotFoundError if another one has its name."""
        fd = self._open(location)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def innermost(self, location: Location) -> Iterator[int | None]:
        """The directory of the name; None if it was not created, or if a link or file has its name."""
        with self.outermost(location) as top:
            try:
                fd = descend(top, location.missing)
            except OSError as exc:
                if exc.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    raise
                fd = None
        try:
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    def _open(self, location: Location) -> int:
        key = location.directory, location.identity
        if key in self._held:
            return os.dup(self._held[key])
        try:
            fd = open_unlinked(location.directory).fd
        except OSError as exc:
            if exc.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            raise FileNotFoundError(errno.ENOENT, "a link or a file has taken its place") from exc
        if identity_of(fd) != location.identity:
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "another directory has taken its place")
        if len(self._held) < HELD:
            self._held[key] = os.dup(fd)
        return fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._held:
            os.close(self._held.popitem()[1])
