"""Several files changed at once: all of them or none, also when the process is killed half way.

What is done, and what is on the disk before the next step begins:

    1  a record is written outside the workspace: for each file its directory, its name, and two names in the same
       directory, one for the new content and one to keep the old file under
    2  the new contents are written under the first names; the old files get the second as a further hard link (or
       are copied, where there are no hard links), and are compared with what was expected
    3  the digests of all old and new contents are added to the record: everything is prepared
    4  each new content takes its file's name, and each file to be deleted loses it; should one turn out to be
       another file than in 2, it is put back, and so is everything
    5  "done" is added; then all further names go, then the record

Killed before 3, no file has been touched; what lies about is removed.  Killed between 3 and 5, every file that has
its new content already gets its old one back.  Killed after 5, only further names are left, and are removed.  The
next workspace that is made does this, before anything else; so does this process, when a step fails.  A file that
is no longer the one of step 2, or no longer holds what it held, was changed by somebody else, and is left alone.
"""

import errno
import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any, Self

import msgspec
from msgspec import Struct

from ...schema import Diff
from ..operations import FileDelete, FileWrite
from .errors import Refused, answering, refusal
from .extensions import EditedFile
from .journal import Journal, Record, open_real
from .paths import Place, descend, status_at
from .texts import MAX_TEXT
from .writing import (
    ANYTHING,
    Anything,
    Expected,
    check_writable,
    digest_at,
    digest_of,
    identity,
    make_directories,
    opened,
    put_over,
    read_chunks,
    remove,
    remove_directories,
    rename_new,
    sync_directory,
    take_away,
    write_new,
)

log = logging.getLogger("dragoman")


class _Names(Struct, frozen=True):
    """Step 1: all that is needed to find one file again, and what was made for it."""

    directory: str
    inode: int
    missing: tuple[str, ...]
    name: str
    temp: str
    kept: str


class _Contents(Struct, frozen=True):
    """Step 3: the digests of what a file held and is to hold, and the inode of that; None is no file."""

    old: str | None
    new: str | None
    inode: int | None


class _Prepared(Struct, frozen=True):
    contents: list[_Contents]


class Edit:
    """What is to become of one file: new content, or None to delete it."""

    def __init__(
        self,
        named: str,
        place: Place,
        path: str,
        content: bytes | None,
        *,
        expected: Expected | Anything = ANYTHING,
        overwrite: bool = True,
    ) -> None:
        self.named, self.content = named, content
        self.path = path
        self.exists = place.status is not None
        self._place = place
        self._expected = expected.lower() if isinstance(expected, str) else expected
        check_writable(place)
        if content is None and not self.exists:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if self.exists and not overwrite:
            raise Refused("exists")
        self.close = place.close
        self._fd = -1
        self._made: list[int] = []
        self._seen: os.stat_result | None = None

    @property
    def operation(self) -> FileWrite | FileDelete:
        """What it is, for whoever decides about permissions."""
        if self.content is None:
            return FileDelete(path=self.path)
        return FileWrite(path=self.path, digest=digest_of([self.content]), creates=not self.exists)

    def diff(self) -> Diff | None:
        """What changes, to be shown; None where that is no text."""
        try:
            old = self._old_text() if self.exists else None
            return Diff(path=self.path, old_text=old, new_text=(self.content or b"").decode())
        except (UnicodeDecodeError, OSError, Refused):
            return None

    def _old_text(self) -> str:
        with self._place as fd, opened(self._place.name, fd) as file:
            if os.fstat(file).st_size > MAX_TEXT:
                raise Refused("too_large")
            return b"".join(read_chunks(file)).decode()

    def names(self, journal: Journal) -> _Names:
        with answering(self.named):
            if self._place.path() != self.path:  # its directory was moved: it is no longer what was allowed
                raise Refused("changed")
        top = self.path.split("/")[: -1 - len(self._place.missing)]
        with self._place as fd:
            inode = os.stat(fd).st_ino
        self._names = _Names(
            directory="/".join(top) or "/",
            inode=inode,
            missing=self._place.missing,
            name=self._place.name,
            temp=journal.edit_name(),
            kept=journal.edit_name(),
        )
        return self._names

    def prepare(self, mode: int) -> _Contents:
        names = self._names
        with self._place as fd:
            self._fd, self._made = make_directories(fd, names.missing)
        old = self._keep_old(mode)
        if self._expected is not ANYTHING and not self._is_expected(old):
            raise Refused("changed")
        if self.content is None:
            return _Contents(old, None, None)
        write_new(self._fd, names.temp, [self.content], names.name, mode)
        sync_directory(self._fd)
        return _Contents(old, digest_of([self.content]), os.stat(names.temp, dir_fd=self._fd).st_ino)

    def _is_expected(self, old: str | None) -> bool:
        if isinstance(self._expected, int):
            return self._seen is not None and self._seen.st_mtime_ns == self._expected
        return old == self._expected

    def _keep_old(self, mode: int) -> str | None:
        """Give the old file a second name; the digest of what it holds."""
        names, fd = self._names, self._fd
        try:
            with opened(names.name, fd) as old:
                self._seen = os.fstat(old)
        except FileNotFoundError:
            return None
        try:
            os.link(names.name, names.kept, src_dir_fd=fd, dst_dir_fd=fd, follow_symlinks=False)
        except OSError:  # no hard links here, or not to this one
            with opened(names.name, fd) as old:
                write_new(fd, names.kept, read_chunks(old), names.name, mode)
        return digest_at(fd, names.kept)

    def apply(self) -> None:
        names, fd = self._names, self._fd
        try:
            now = os.stat(names.name, dir_fd=fd, follow_symlinks=False) if self._seen else None
            if now and self._seen and identity(now) != identity(self._seen):
                raise Refused("changed")
            if self._seen is None:
                rename_new(fd, names.temp, names.name)
            elif self.content is None:
                take_away(fd, names.temp, names.name, self._seen)
            else:
                put_over(fd, names.temp, names.name, self._seen)
        except (FileNotFoundError, FileExistsError) as exc:
            raise Refused("changed") from exc
        sync_directory(fd)

    def undo(self, contents: _Contents | None) -> None:
        if self._fd < 0:
            return
        _restore(self._fd, self._names, contents)
        with self._place as fd:
            remove_directories(fd, self._names.missing, self._made)

    def tidy(self) -> None:
        _tidy(self._fd, self._names)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class EditSet:
    """Edits that have been looked at and not yet made; a context manager that lets go of them."""

    def __init__(self, edits: Sequence[Edit], journal: Journal, mode: int) -> None:
        self.edits = tuple(edits)
        self._journal, self._mode = journal, mode
        seen: set[str] = set()
        for edit in edits:
            if edit.path in seen:
                raise refusal("conflict", edit.named)
            seen.add(edit.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for edit in self.edits:
            edit.close()

    def commit(self) -> list[EditedFile]:
        """Make all the edits, or none; they are on the disk when this returns."""
        if not self.edits:
            return []
        try:
            record = self._journal.begin()
        except OSError as exc:
            raise refusal("no_journal", self.edits[0].named) from exc
        with ExitStack() as stack:
            for edit in self.edits:
                stack.callback(edit.release)
            self._carry_out(record)
        return [
            EditedFile(
                path=edit.named,
                bytes_written=len(edit.content or b""),
                created=edit.content is not None and not edit.exists,
                deleted=edit.content is None,
            )
            for edit in self.edits
        ]

    def _carry_out(self, record: Record) -> None:
        contents: list[_Contents] | None = None
        try:
            self._write(record, [edit.names(self._journal) for edit in self.edits])
            prepared = []
            for edit in self.edits:
                with answering(edit.named):
                    prepared.append(edit.prepare(self._mode))
            contents = prepared
            self._write(record, _Prepared(prepared))
            for edit in self.edits:
                with answering(edit.named):
                    edit.apply()
            self._write(record, "done")
        except BaseException:
            self._undo(record, contents)
            raise
        try:
            for edit in self.edits:
                edit.tidy()
        except OSError:
            log.warning("what was needed to undo a change is left for the next start to remove", exc_info=True)
            record.leave()
        else:
            record.remove()

    def _write(self, record: Record, line: Any) -> None:
        with answering(self.edits[0].named):
            record.write(msgspec.to_builtins(line))

    def _undo(self, record: Record, contents: list[_Contents] | None) -> None:
        try:
            for index, edit in reversed(list(enumerate(self.edits))):
                edit.undo(contents[index] if contents else None)
        except OSError:
            log.error("a change could not be undone; the next start will try again", exc_info=True)
            record.leave()
        else:
            record.remove()


def recover_edits(lines: list[Any]) -> bool:
    """Undo what a process that is gone has begun, or clean up after it; false when that is not possible now."""
    try:
        files = msgspec.convert(lines[0], list[_Names])
        contents = msgspec.convert(lines[1], _Prepared).contents if len(lines) > 1 else None
    except msgspec.ValidationError:
        log.error("the record of a change cannot be read; it is left where it is")
        return False
    is_done = len(lines) > 2
    complete = True
    for index, names in enumerate(files):
        try:
            _recover(names, contents[index] if contents else None, is_done)
        except (OSError, Refused) as exc:
            log.warning("a change that was cut short cannot be undone in %s: %s", names.directory, exc)
            complete = False
    return complete


def _recover(names: _Names, contents: _Contents | None, is_done: bool) -> None:
    top = open_real(names.directory)
    try:
        if os.stat(top).st_ino != names.inode:
            raise FileNotFoundError(errno.ENOENT, "another directory has taken its place")
        try:
            fd = descend(top, names.missing)
        except (FileNotFoundError, NotADirectoryError):  # nothing was made, or nothing of it is left
            return
        try:
            if is_done:
                _tidy(fd, names)
            else:
                _restore(fd, names, contents)
        finally:
            os.close(fd)
    finally:
        if not is_done:
            remove_directories(top, names.missing, range(len(names.missing)))
        os.close(top)


def _restore(fd: int, names: _Names, contents: _Contents | None) -> None:
    """Have a file hold what it held before; to do it twice, or half and then again, does no harm."""
    if contents is not None:
        if contents.new is None:
            with suppress(FileNotFoundError, FileExistsError):  # not taken away; or there is another by now
                rename_new(fd, names.temp, names.name)
        elif _is_ours(fd, names.name, contents):
            if contents.old is None:
                remove(fd, names.name)
            else:
                os.rename(names.kept, names.name, src_dir_fd=fd, dst_dir_fd=fd)
        elif _digest(fd, names.name) != contents.old:
            log.warning("%s was changed by somebody else and is left as it is", names.name)
    _tidy(fd, names)
    sync_directory(fd)


def _is_ours(fd: int, name: str, contents: _Contents) -> bool:
    """Whether a name stands for the very file that was made in step 2, unchanged."""
    status = status_at(fd, name)
    return status is not None and status.st_ino == contents.inode and _digest(fd, name) == contents.new


def _digest(fd: int, name: str) -> str | None:
    try:
        return digest_at(fd, name)
    except (Refused, OSError):
        return ""  # of nothing that was ever ours


def _tidy(fd: int, names: _Names) -> None:
    remove(fd, names.temp)
    remove(fd, names.kept)
