"""The journal's records of one change of files, line by line; `edits` says when each is written.

begun       where each file is, and two further names in its directory: one for the new content, one for the old
made        a directory was created for one of the files; it gets its name after this line
prepared    for each file: its condition, the digest of its new content, and when that was written
done        every file has its new content; the leftovers may be removed
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from .condition import Condition
from .locations import Identity, Location

MAX_RECORD = 64 * 1024 * 1024  # bytes


class DamagedRecord(Exception):
    """A record is unreadable; the text says why."""


class FileNames(Struct, frozen=True):
    location: Location
    new: str  # the name of the new content until it has its own
    aside: str  # the name of the old file, if names cannot be exchanged or it is deleted


class FileContent(Struct, frozen=True):
    condition: Condition  # required of the file that had the name
    digest: str | None  # SHA-256 of the new content; None: the file is deleted
    modified: int | None = None  # when the new content was written, in ns

    @property
    def ours(self) -> Condition:
        """The state of the untouched new content."""
        return Condition(digest=self.digest, modified=self.modified)


class Begun(Struct, frozen=True, tag="begun"):
    files: tuple[FileNames, ...]


class Made(Struct, frozen=True, tag="made"):
    file: int
    depth: int  # which of the file's missing directories
    identity: Identity


class Prepared(Struct, frozen=True, tag="prepared"):
    contents: tuple[FileContent, ...]


class Done(Struct, frozen=True, tag="done"):
    pass


Line = Begun | Made | Prepared | Done


@dataclass
class Progress:
    """The progress of a change."""

    files: tuple[FileNames, ...] = ()
    made: dict[int, dict[int, Identity]] = field(default_factory=dict)  # by file and depth
    contents: tuple[FileContent, ...] | None = None
    done: bool = False

    def add(self, line: Line) -> None:
        match line:
            case Begun():
                self.files = line.files
            case Made():
                self.made.setdefault(line.file, {})[line.depth] = line.identity
            case Prepared():
                self.contents = line.contents
            case Done():
                self.done = True

    def paths(self) -> str:
        """The files of the change, for a message."""
        where = (names.location for names in self.files[:_TOLD])
        told = ", ".join("/".join((at.directory.rstrip("/"), *at.missing, at.name)) for at in where)
        return told if len(self.files) <= _TOLD else f"{told} and {len(self.files) - _TOLD} more"


_TOLD = 5
_LINE = msgspec.json.Decoder(Line)


def read(lines: Iterable[bytes], token: str) -> Progress | None:
    """A process's record, up to a torn line; None if nothing was begun.

    Raises Damaged for any content that this program does not write, because the record is followed blindly.
    """
    progress = Progress()
    began = False
    for line in lines:
        if not line.endswith(b"\n"):
            break
        try:
            found = _LINE.decode(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            raise DamagedRecord(f"a line of it cannot be read: {exc}") from exc
        if isinstance(found, Begun) == began:
            raise DamagedRecord("its lines are out of order")
        began = True
        _check(found, progress, token)
        progress.add(found)
    return progress if began else None


def _check(line: Line, progress: Progress, token: str) -> None:
    match line:
        case Begun():
            ours = re.compile(rf"\.dragoman-{token}-[0-9a-f]{{16}}\.edit")
            for names in line.files:
                _check_names(names, ours)
            used = [name for names in line.files for name in (names.new, names.aside)]
            if len(used) != len(set(used)):
                raise DamagedRecord("it has a name twice")
        case Made():
            if not (0 <= line.file < len(progress.files)):
                raise DamagedRecord("it made a directory for a file it does not have")
            if not (0 <= line.depth < len(progress.files[line.file].location.missing)):
                raise DamagedRecord("it made a directory it does not have")
        case Prepared():
            if len(line.contents) != len(progress.files) or progress.contents is not None:
                raise DamagedRecord("it has other contents than files")
        case Done():
            if progress.contents is None:
                raise DamagedRecord("it is done before it was prepared")


def _check_names(names: FileNames, ours: "re.Pattern[str]") -> None:
    at = names.location
    if not (ours.fullmatch(names.new) and ours.fullmatch(names.aside)):
        raise DamagedRecord("it has names that are not its own")
    if not at.directory.startswith("/") or "\0" in at.directory or ".." in at.directory.split("/"):
        raise DamagedRecord("it has a directory that cannot be one")
    if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in (*at.missing, at.name)):
        raise DamagedRecord("it has a name that cannot be one")
