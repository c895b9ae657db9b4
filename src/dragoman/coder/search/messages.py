"""The request to the searching process and its answers, a line of JSON each."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

MOST_FOUND = 500  # lines, or files where only files are wanted
MOST_NAMES = 3  # names of files that were not searched completely


class SearchRequest(Struct, frozen=True):
    """The directory, the paths and the pattern to search for; without a pattern, the files are listed.

    `root` has no links in it.  `top` is a directory at or above it: paths are compared with `glob` from there as
    well, and outside a Git repository no .gitignore above it counts.
    """

    root: str
    top: str
    glob: str = ""
    pattern: str = ""
    ignore_case: bool = False


class FileMatches(Struct, frozen=True, tag="hits"):
    """A file that fits, with its matching lines: their numbers and the text around the match."""

    path: str
    lines: Sequence[tuple[int, str]] = ()
    is_binary: bool = False  # its lines are not shown


class FileList(Struct):
    """A number of files, the first of them by name."""

    count: int = 0
    first: list[str] = []

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.first) < MOST_NAMES:
            self.first.append(name)


class SearchCounts(Struct, tag="counts"):
    """Counts of files that were and were not searched, so far or, if `done`, in total."""

    files: int = 0  # searched, or listed
    others: int = 0  # files that do not fit the glob
    ignored: int = 0  # files and directories
    nameless: int = 0  # files and directories whose names are not text
    cut: FileList = msgspec.field(default_factory=FileList)  # files of which only the beginning was searched
    unreadable: FileList = msgspec.field(default_factory=FileList)  # files and directories
    done: bool = False


class SearchRefused(Struct, frozen=True, tag="refused"):
    """Why the search cannot be done."""

    why: str


Message = FileMatches | SearchCounts | SearchRefused
