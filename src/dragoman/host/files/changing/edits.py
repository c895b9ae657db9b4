"""Changes files: all of them or none, even if the process is killed half way.

The steps, and the journal's record that is on the disk before the next step begins (`records`):

    1  begun: for each file its directory, its name, and two further names in that directory
    2  missing directories are made, each with a record; the new contents are written under the first of the names
    3  prepared: for each file its condition and the digest of its new content
    4  each new content takes its file's name, and each file to be deleted loses it (`exchanging`); if a file does
       not fulfil its condition, it and all others are put back (`settling`)
    5  done: everything left under further names is removed, then the record

If the process is killed before 3, no file has been touched and the leftovers are removed.  Between 3 and 5, the
change is finished if every file was exchanged, and taken back otherwise.  After 5, only leftovers remain.  The next
workspace does this before anything else; so does this process if a step fails.
"""

import errno
import logging
import os
from collections.abc import Sequence
from typing import Self

import msgspec
from msgspec import Struct

from ....schema import Diff
from ...operations import FileDelete, FileWrite
from ..errors import FileRefused, answering, refusal
from ..extensions import EditedFile
from ..paths import Entry
from ..reading import digest_at, digest_of, opened, read_chunks
from ..texts import MAX_TEXT, text_of
from ..writing import check_writable, write_new
from .condition import ANYTHING, Condition
from .exchanging import put, sync_directory, take
from .journal import Journal, JournalRecord
from .locations import Directories, Identity, Location, location_of
from .new_directories import make_directories
from .records import Begun, Done, FileContent, FileNames, Line, Made, Prepared, Progress
from .settling import settle

log = logging.getLogger("dragoman")


class Seen(Struct, frozen=True):
    """The current file, to be shown: its digest (None: no file) and its text (None: not text)."""

    digest: str | None
    text: str | None = None


def look_at(dir_fd: int, name: str, encoding: str | None = None) -> Seen:
    """The file with a name in a directory; digest and text are of the same bytes."""
    try:
        with opened(name, dir_fd) as file:
            if os.fstat(file).st_size > MAX_TEXT:
                return Seen(digest_of(read_chunks(file)))
            data = b"".join(read_chunks(file))
    except FileNotFoundError:
        return Seen(None)
    try:
        return Seen(digest_of([data]), text_of(data, encoding))
    except FileRefused:
        return Seen(digest_of([data]))


class Edit:
    """The change of one file: new content, or None to delete it."""

    def __init__(
        self, named: str, entry: Entry, path: str, content: bytes | None, condition: Condition = ANYTHING
    ) -> None:
        check_writable(entry)
        self.named, self.path, self.content = named, path, content
        self.exists = entry.status is not None
        self.condition = condition
        self.location = location_of(entry, path)
        if content is None and not self.exists:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if self.exists and condition.is_absent:
            raise FileRefused(condition.refusal)

    @property
    def operation(self) -> FileWrite | FileDelete:
        """The operation, for the permission decision."""
        if self.content is None:
            return FileDelete(path=self.path)
        return FileWrite(path=self.path, digest=digest_of([self.content]), creates=not self.exists)

    def look(self, encoding: str | None = None) -> Seen:
        """The current file, to be shown; from now on, only this file can be changed."""
        with Directories() as directories, directories.innermost(self.location) as fd:
            seen = Seen(None) if fd is None else look_at(fd, self.location.name, encoding)
        if seen.digest is None and self.content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self.condition = self.condition.shown(seen.digest)
        self.exists = seen.digest is not None
        return seen

    def diff(self) -> Diff | None:
        """The change, to be shown; None if it is not text.  From now on, only this file can be changed."""
        with answering(self.named):
            seen = self.look()
        if seen.digest is not None and seen.text is None:
            return None
        try:
            return Diff(path=self.path, old_text=seen.text, new_text=text_of(self.content or b""))
        except FileRefused:
            return None


class EditSet:
    """Edits that were read and not yet made."""

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
        """Nothing is held."""

    def commit(self) -> list[EditedFile]:
        """Make all edits or none; they are synced when this returns."""
        if not self.edits:
            return []
        try:
            record = self._journal.begin()
        except OSError as exc:
            raise refusal("no_journal", self.edits[0].named) from exc
        created = Change(self.edits, self._journal, record, self._mode, pins=True).carry_out()
        return [
            EditedFile(
                path=edit.named,
                bytes_written=len(edit.content or b""),
                created=is_new,
                deleted=edit.content is None,
            )
            for edit, is_new in zip(self.edits, created, strict=True)
        ]


def write_one(edit: Edit, journal: Journal, mode: int) -> bool:
    """Change a single file; true if it was created."""
    try:
        record = journal.begin()
    except OSError as exc:
        log.warning("leftovers of a crash will not be removed: %s: %s", journal.directory, exc.strerror)
        record = None
    return Change([edit], journal, record, mode, pins=False).carry_out()[0]


def make_path(location: Location, journal: Journal) -> bool:
    """Create a directory and those above it; false if it existed."""
    names = FileNames(
        msgspec.structs.replace(location, missing=(*location.missing, location.name)),
        journal.edit_name(),
        journal.edit_name(),
    )
    record, progress = journal.begin(), Progress()

    def write(line: Line) -> None:
        record.write(line)
        progress.add(line)

    with Directories() as directories:
        try:
            write(Begun((names,)))
            with directories.outermost(names.location) as top:
                os.close(
                    make_directories(top, names.location.missing, names.new, lambda *made: write(Made(0, *made)))
                )
        except BaseException:
            settle(progress, directories)
            record.remove()
            raise
    record.remove()
    return bool(progress.made)


class Change:
    """Edits being made; `record` is None if a single file is changed, which needs no journal.

    With `pins`, no file may change after it was prepared, even if the request has no condition for it.
    """

    def __init__(
        self, edits: Sequence[Edit], journal: Journal, record: JournalRecord | None, mode: int, *, pins: bool
    ) -> None:
        self._edits, self._journal, self._record, self._mode = edits, journal, record, mode
        self._pins = pins
        self._reached = 0  # those files in whose directories something may have been created
        self._progress = Progress()
        self._directories = Directories()

    def carry_out(self) -> list[bool]:
        """Make all edits or none; returns for each whether it created a file."""
        with self._directories:
            try:
                created = self._carry_out()
            except BaseException:
                self._settle("a change could not be taken back", has_failed=True)
                raise
            self._settle("leftovers of a change could not be removed")
            return created

    def _carry_out(self) -> list[bool]:
        name = self._journal.edit_name
        self._write(Begun(tuple(FileNames(edit.location, name(), name()) for edit in self._edits)))
        contents = []
        for index, edit in enumerate(self._edits):
            with answering(edit.named):
                contents.append(self._prepare(index, edit))
        self._write(Prepared(tuple(contents)), sync=True)
        created = []
        for edit, names, content in zip(self._edits, self._progress.files, contents, strict=True):
            with answering(edit.named):
                created.append(self._apply(names, content))
        # With a single file, all of it was done.
        self._write(Done(), sync=len(contents) > 1)
        return created

    def _prepare(self, index: int, edit: Edit) -> FileContent:
        names = self._progress.files[index]
        fd = self._make_directories(index, names)
        try:
            condition = edit.condition
            if condition != ANYTHING or self._pins:
                condition = condition.shown(digest_at(fd, names.location.name))
            if edit.content is None:
                return FileContent(condition, None)
            modified = write_new(fd, names.new, [edit.content], names.location.name, self._mode)
            return FileContent(condition, digest_of([edit.content]), modified)
        finally:
            os.close(fd)

    def _make_directories(self, index: int, names: FileNames) -> int:
        def tell(depth: int, identity: Identity) -> None:
            self._write(Made(index, depth, identity))

        try:
            with self._directories.outermost(names.location) as top:
                self._reached = index + 1
                return make_directories(top, names.location.missing, names.new, tell)
        except FileNotFoundError as exc:  # it was moved: it is not the allowed file any more
            raise FileRefused("changed") from exc

    def _apply(self, names: FileNames, content: FileContent) -> bool:
        with self._directories.innermost(names.location) as fd:
            if fd is None:
                raise FileRefused("changed")
            try:
                if content.digest is None:
                    take(fd, names.aside, names.location.name, content.condition)
                    created = False
                else:
                    created = put(fd, names.new, names.aside, names.location.name, content.condition)
            except FileNotFoundError as exc:
                raise FileRefused("changed") from exc
            sync_directory(fd)
            return created

    def _write(self, line: Line, *, sync: bool = False) -> None:
        if self._record:
            with answering(self._edits[0].named):
                self._record.write(line, sync=sync)
        self._progress.add(line)

    def _settle(self, failure: str, *, has_failed: bool = False) -> None:
        """Finish or undo the change; if that fails, the record stays and the next start tries again."""
        if self._progress.contents is None:  # a directory that cannot be reached any more needs no clearing up
            self._progress.files = self._progress.files[: self._reached]
        try:
            settle(self._progress, self._directories, has_failed=has_failed)
        except OSError:
            log.error("%s; the next start will try again", failure, exc_info=True)
            if self._record:
                self._record.leave()
        else:
            if self._record:
                self._record.remove()
