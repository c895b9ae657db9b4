"""The lines of a file that match."""

import itertools
import os
import re
import stat
from collections.abc import Iterator

from ...host.trees import ignoring
from .literals import finder, spans_lines, stays_in_line
from .messages import MOST_FOUND, FileMatches, SearchCounts

MAX_FILE = 32 * 1024 * 1024  # bytes of a file that are searched
MAX_SHOWN = 400  # shown characters of a line
SMALLEST = 64 * 1024  # bytes read at once, at least
UTF_8, UTF_16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")  # byte order marks
BINARY = 8192  # the first bytes, in which a NUL means that a file is binary


class Unsearchable(Exception):
    """No line can match the pattern; the message says why."""


class Matcher:
    """Matches lines with a regular expression."""

    def __init__(self, pattern: str, *, ignore_case: bool = False) -> None:
        try:
            self._pattern = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        except (re.error, RecursionError, OverflowError) as exc:
            raise Unsearchable(f"This is not a regular expression: {exc}.") from exc
        if spans_lines(self._pattern):
            raise Unsearchable(
                "Lines are searched one by one: no line has a line break in it. Search for one line."
            )
        self._find = finder(self._pattern)
        self._stays_in_line = stays_in_line(self._pattern)

    def hits(self, path: str, counts: SearchCounts) -> FileMatches | None:
        """The matches in a file; unsearched parts are noted."""
        try:
            descriptor = os.open(path, ignoring.FLAGS)
        except OSError:
            counts.unreadable.add(path)
            return None
        try:
            data = _data(descriptor)
            hits = self._hits(path, data[:MAX_FILE])
            if hits and not _is_at(descriptor, path):
                raise OSError("it is another file by now")
        except OSError:
            counts.unreadable.add(path)
            return None
        finally:
            os.close(descriptor)
        counts.files += 1
        if len(data) > MAX_FILE:
            counts.cut.add(path)
        return hits

    def _hits(self, path: str, data: bytes) -> FileMatches | None:
        if data.startswith(UTF_16):
            data = data.decode("utf-16", "replace").encode()
        data = data.removeprefix(UTF_8)
        lines = list(itertools.islice(self._lines(data), MOST_FOUND + 1))
        if not lines:
            return None
        is_binary = b"\0" in data[:BINARY]
        return FileMatches(path, () if is_binary else lines, is_binary)

    def _lines(self, data: bytes) -> Iterator[tuple[int, str]]:
        if self._find is None and self._stays_in_line and b"\r" not in data and (text := _text(data)) is not None:
            yield from self._lines_of(text)
            return
        number, start = 1, 0
        while start < len(data):
            if self._find:
                if (place := self._find(data, start)) < 0:
                    return
                number += data.count(b"\n", start, place)
                start = data.rfind(b"\n", start, place) + 1 or start
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            if (shown := self._shown(_decoded(data[start:end]))) is not None:
                yield number, shown
            number, start = number + 1, end + 1

    def _lines_of(self, text: str) -> Iterator[tuple[int, str]]:
        """The matches in a text that is searched in one go."""
        number, start = 1, 0
        while start < len(text) and (match := self._pattern.search(text, start)):
            number += text.count("\n", start, match.start())
            begin = text.rfind("\n", start, match.start()) + 1 or start
            end = text.find("\n", match.start())
            end = len(text) if end < 0 else end
            if (shown := self._shown(text[begin:end])) is not None:
                yield number, shown
            number, start = number + 1, end + 1

    def _shown(self, line: str) -> str | None:
        """A line around its first match; the carriage return at its end may be part of the match or not."""
        bare = line.removesuffix("\r")
        match = self._pattern.search(bare) or (self._pattern.search(line) if bare != line else None)
        if match is None or len(bare) <= MAX_SHOWN:
            return match and bare
        start = max(0, min(match.start() - MAX_SHOWN // 4, len(bare) - MAX_SHOWN))
        end = start + MAX_SHOWN
        return f"{'…' if start else ''}{bare[start:end]}{'…' if end < len(bare) else ''}"


def _data(descriptor: int) -> bytes:
    """The content of a regular file, up to one byte more than is searched."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError("it is no file")
    data = os.read(descriptor, max(SMALLEST, min(status.st_size, MAX_FILE) + 1))
    if len(data) == status.st_size:
        return data
    pieces, left = [data], MAX_FILE + 1 - len(data)
    while left > 0 and (piece := os.read(descriptor, left)):  # it is growing, or a virtual file of the kernel
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _is_at(descriptor: int, path: str) -> bool:
    """Whether an open file is the one at its path, so that no directory became a link meanwhile."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}") == path
    except OSError:
        return os.path.realpath(path) == path


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _decoded(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")
