"""Opened files of a workspace: a file is opened first, then permitted, then read or written.

A handle stands for the opened file, not for a path: `read` and `commit` use exactly the file that `path` and
`operation` name.  Closing a handle while a thread works with it makes that thread stop soon.
"""

import errno
import heapq
import os
import stat
from collections.abc import Callable, Iterator
from typing import Self

from msgspec import Struct

from ..operations import FileRead, FileWrite
from . import texts
from .changing.condition import ANYTHING, Condition
from .changing.edits import Edit, Seen, make_path, write_one
from .changing.journal import Journal
from .changing.locations import location_of
from .errors import FileRefused, answering
from .extensions import DirectoryEntry
from .paths import Descriptors, Entry, checked_name
from .reading import digest_at, digest_of, open_regular, opened, read_chunks
from .texts import Window

MAX_BINARY = 10 * 1024 * 1024  # bytes in one answer
MAX_ENTRIES = 10_000

Overlay = Callable[[str], str | None]
Save = Callable[[str, str], bool]


class Handle:
    """An opened file or directory; a context manager that closes it."""

    def __init__(self, named: str, entry: Entry, path: str) -> None:
        self._named, self._entry = named, entry
        self.path = path  # its real path

    def close(self) -> None:
        """Release the open directory; nothing is written."""
        self._entry.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OpenFile(Handle):
    """A regular file open for reading, or the editor's text of it."""

    def __init__(self, named: str, entry: Entry, path: str, overlay: Overlay | None) -> None:
        super().__init__(named, entry, path)
        self._overlay = overlay
        self._buffer: str | None = None
        self._has_looked = False
        self._descriptors = Descriptors(*self._open())

    def _open(self) -> list[int]:
        if self._entry.status is None:
            self.load()
            if self._buffer is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            return []
        if not stat.S_ISREG(self._entry.status.st_mode):
            raise FileRefused("not_a_file")
        with self._entry as dir_fd:
            fd = open_regular(self._entry.name, dir_fd)
            try:
                named = os.stat(self._entry.name, dir_fd=dir_fd, follow_symlinks=False)
                if not os.path.samestat(os.fstat(fd), named):  # just replaced: the path would be another file's
                    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
                self.path = self._entry.path()
            except BaseException:
                os.close(fd)
                raise
        return [fd]

    def close(self) -> None:
        """Close the file."""
        self._descriptors.close()
        super().close()

    @property
    def operation(self) -> FileRead:
        """The read operation, for the permission decision."""
        return FileRead(path=self.path)

    @property
    def size(self) -> int:
        """In bytes."""
        with self._descriptors as fds:
            return os.fstat(fds[0]).st_size if fds else len((self._buffer or "").encode())

    def load(self) -> None:
        """Take the editor's text now, in this thread; otherwise `read` takes it."""
        self._buffer = self._overlay(self.path) if self._overlay else None
        self._has_looked = True

    def read(self, line: int | None = None, limit: int | None = None, *, encoding: str | None = None) -> str:
        """At most `limit` lines from `line` on, counted from 1 (0 counts as 1); by default all lines."""
        start = max(line or 1, 1)
        stop = None if limit is None else start + limit - 1
        return self._window(encoding, start, stop, is_part=line is not None or limit is not None).content

    def window(
        self, start_line: int | None = None, end_line: int | None = None, *, encoding: str | None = None
    ) -> Window:
        """Lines from one to another, both included; the result says if lines beyond one answer are left out."""
        return self._window(encoding, max(start_line or 1, 1), end_line, counting=True, cutting=True)

    def _window(
        self,
        encoding: str | None,
        start: int,
        stop: int | None,
        *,
        counting: bool = False,
        cutting: bool = False,
        is_part: bool = True,
    ) -> Window:
        with answering(self._named):
            wanted = texts.encoding_named(encoding)
            if not self._has_looked:
                self.load()
            if self._buffer is not None:
                return texts.window(
                    [self._buffer], wanted, start=start, stop=stop, counting=counting, cutting=cutting
                )
            if not is_part and self.size > texts.MAX_TEXT:
                raise FileRefused("too_large")
            used, pieces = texts.decode(self._chunks(), wanted)
            return texts.window(pieces, used, start=start, stop=stop, counting=counting, cutting=cutting)

    def read_bytes(self, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes on the disk, from an offset on."""
        with answering(self._named):
            wanted = max(self.size - offset, 0) if length is None else length
            if wanted > MAX_BINARY:
                raise FileRefused("too_large")
            data = bytearray()
            for chunk in self._chunks(offset):
                data += chunk
                if len(data) >= wanted:
                    break
            return bytes(data[:wanted])

    def digest(self) -> str:
        """The SHA-256 of the bytes, which a later write can require."""
        with answering(self._named):
            return digest_of(self._chunks())

    def _chunks(self, offset: int = 0) -> Iterator[bytes]:
        with self._descriptors as fds:
            if fds:
                yield from read_chunks(fds[0], offset, until=lambda: self._descriptors.closed)
        if self._descriptors.closed:
            raise ValueError("the file has been closed")


class Written(Struct, frozen=True):
    """The result of a write: how many bytes, and whether the file is new."""

    bytes_written: int
    created: bool


class Target(Handle):
    """A file about to be written, whether it exists or not."""

    def __init__(
        self,
        named: str,
        entry: Entry,
        path: str,
        journal: Journal,
        mode: int,
        *,
        overlay: Overlay | None = None,
        save: Save | None = None,
        create_directories: bool = True,
        condition: Condition = ANYTHING,
    ) -> None:
        super().__init__(named, entry, path)
        self._journal, self._mode = journal, mode
        self._overlay, self._save = overlay, save
        self._condition = condition
        self._buffer: str | None = None  # the editor's text that was shown
        self._has_looked = False
        if named.endswith(("/", "/.")):
            raise FileRefused("not_a_file")
        if entry.missing and not create_directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._edit = Edit(named, entry, path, b"", condition)

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self._edit.exists

    def operation(self, content: str | bytes, *, encoding: str | None = None) -> FileWrite:
        """The operation of writing this content, for the permission decision.

        The question is about the current file: if it is replaced or changed afterwards, the write is refused.
        """
        if not self._has_looked:
            self.look()
        with answering(self._named):
            digest = digest_of([_encoded(content, encoding)])
        return FileWrite(path=self.path, digest=digest, creates=not self.exists)

    def look(self, *, encoding: str | None = None) -> Seen:
        """The current file, without unsaved changes, to be shown; from now on, only this one can be replaced."""
        with answering(self._named):
            seen = self._edit.look(encoding)
        self._has_looked = True
        return seen

    def show_buffer(self) -> str | None:
        """The editor's unsaved text, to be shown; from now on, only this text can be replaced in the editor."""
        self._buffer = self.buffer()
        return self._buffer

    def buffer(self) -> str | None:
        """The editor's unsaved text."""
        return self._overlay(self.path) if self._overlay else None

    def saved_text(self, *, encoding: str | None = None) -> str | None:
        """The text on the disk; None when there is no such file."""
        if self._entry.status is None:
            return None
        with answering(self._named), self._entry as dir_fd, opened(self._entry.name, dir_fd) as fd:
            used, pieces = texts.decode(read_chunks(fd), texts.encoding_named(encoding))
            return texts.window(pieces, used).content

    def digest(self) -> str | None:
        """The SHA-256 of the file now, without unsaved changes; None when there is no such file."""
        with answering(self._named), self._entry as dir_fd:
            return None if self._entry.missing else digest_at(dir_fd, self._entry.name)

    def commit(self, content: str | bytes, *, encoding: str | None = None) -> Written:
        """Replace or create the file in one step, synced when this returns; or give the text to the editor."""
        if isinstance(content, str) and (taken := self.offer(content)):
            return taken
        return self.write(content, encoding=encoding)

    def offer(self, text: str) -> Written | None:
        """Give the text to the editor, in this thread; None when the editor does not have the file."""
        with answering(self._named):
            if self._save is None:
                return None
            size = len(texts.encode(text, "utf-8"))
            self._check_buffer(self.buffer())
            if not self._save(self.path, text):
                return None
            return Written(size, not self.exists)

    def _check_buffer(self, buffer: str | None) -> None:
        if buffer is None or (self._has_looked and buffer == self._buffer):
            return
        expected = self._edit.condition if self._has_looked else self._condition
        if expected.is_absent or expected.digest not in (None, digest_of([buffer.encode(errors="surrogatepass")])):
            raise FileRefused("changed")

    def write(self, content: str | bytes, *, encoding: str | None = None) -> Written:
        """Replace or create the file on the disk."""
        with answering(self._named), self._entry:  # raises if it is closed
            self._edit.content = _encoded(content, encoding)
            return Written(len(self._edit.content), write_one(self._edit, self._journal, self._mode))


def _encoded(content: str | bytes, encoding: str | None) -> bytes:
    return content if isinstance(content, bytes) else texts.encode(content, texts.encoding_named(encoding))


class Directory(Handle):
    """A directory, whether it exists or not."""

    def __init__(self, named: str, entry: Entry, path: str, journal: Journal) -> None:
        super().__init__(named, entry, path)
        self._journal = journal
        self.exists = entry.status is not None
        if entry.root.only or (entry.status and not stat.S_ISDIR(entry.status.st_mode)):
            raise FileRefused("not_a_directory")

    @property
    def operation(self) -> FileRead | FileWrite:
        """The operation of listing or creating it, for the permission decision."""
        if self.exists:
            return FileRead(path=self.path)
        return FileWrite(path=self.path, digest=digest_of([]), creates=True)

    def open(self) -> int:
        """A descriptor of it, for the caller to close."""
        with answering(self._named), self._entry as dir_fd:
            if self._entry.missing:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(self._entry.name or ".", flags, dir_fd=dir_fd)

    def entries(self, limit: int = MAX_ENTRIES) -> tuple[list[DirectoryEntry], bool]:
        """Its first entries, by name, and whether some were left out."""
        fd = self.open()
        limit = min(limit, MAX_ENTRIES)
        try:
            with answering(self._named), os.scandir(fd) as entries:
                first = heapq.nsmallest(limit + 1, entries, key=lambda entry: entry.name)
                found = [described for entry in first[:limit] if (described := _described(entry))]
            return found, len(found) < len(first)
        finally:
            os.close(fd)

    def create(self) -> bool:
        """Create it and those above it; false if it existed."""
        with answering(self._named):
            if not self._entry.root.writable:
                raise FileRefused("read_only")
            return bool(self._entry.name) and make_path(location_of(self._entry, self.path), self._journal)


def _described(entry: "os.DirEntry[str]") -> DirectoryEntry | None:
    """An entry of the listing; None if it is gone, or if no request could name it."""
    try:
        return _entry(entry)
    except (FileRefused, FileNotFoundError):
        return None


def _entry(entry: "os.DirEntry[str]") -> DirectoryEntry:
    checked_name(entry.name)
    if entry.is_symlink():
        return DirectoryEntry(name=entry.name, type="symlink")
    if entry.is_dir(follow_symlinks=False):
        return DirectoryEntry(name=entry.name, type="directory")
    if entry.is_file(follow_symlinks=False):
        return DirectoryEntry(name=entry.name, type="file", size=entry.stat(follow_symlinks=False).st_size)
    return DirectoryEntry(name=entry.name, type="other")
