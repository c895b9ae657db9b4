"""Shows the progress of a long command on a temporary line of the terminal; elsewhere nothing."""

import contextlib
import io
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

SHOWN_AFTER = 1.0  # seconds; shorter work shows nothing
BETWEEN = 0.1  # seconds between two states of the line


class _WatchedFile(io.FileIO):
    """A file that reports the bytes read from it, in all passes together."""

    def __init__(self, file: str | int, tell: "_Line") -> None:
        super().__init__(file, "rb", closefd=isinstance(file, str))
        self._tell, self._read = tell, 0

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._read += count or 0
        if count:
            self._tell(self._read)
        else:
            self._tell.end()  # the caller may print afterwards
        return count


class _Line:
    """The progress line: the work, and how much of it is done."""

    def __init__(self, words: str, whole: int) -> None:
        self._words, self._whole = words, whole
        self._next = time.monotonic() + SHOWN_AFTER
        self._is_shown = False

    def __call__(self, done: int) -> None:
        from ..ui.legible import one_line
        from ..ui.output import marked
        from ..ui.style import is_terminal, size_of

        if time.monotonic() < self._next or not is_terminal(sys.stderr):
            return
        self._next = time.monotonic() + BETWEEN
        told = f"{min(99, 100 * done // self._whole)} %" if self._whole else f"{done / 1e6:.1f} MB"
        line = f"{one_line(self._words, size_of(sys.stderr)[0] - 14)} … {told}"
        self._show(marked("\r\x1b[2K") + line)
        self._is_shown = True

    def end(self) -> None:
        from ..ui.output import marked

        if self._is_shown:
            self._show(marked("\r\x1b[2K"))
            self._is_shown = False

    def _show(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


@contextlib.contextmanager
def watched(file: str, passes: int = 2) -> Iterator[BinaryIO]:
    """Open a file, or stdin for `-`, and show how much of it was read, in this number of passes."""
    is_piped = file == "-"
    size = 0 if is_piped else os.stat(file).st_size
    line = _Line(f"importing {'from stdin' if is_piped else os.path.basename(file)}", size * passes)
    try:
        with io.BufferedReader(_WatchedFile(sys.stdin.fileno() if is_piped else file, line), 1 << 20) as opened:
            yield cast(BinaryIO, opened)
    finally:
        line.end()
