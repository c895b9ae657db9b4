"""The only way to a terminal: all output passes here, and nothing in it acts on the terminal.

`install` replaces stdout and stderr by a `SafeOutput`, so that prints, logs, warnings and tracebacks pass it, too.
Control characters, and those that change the order of letters, are escaped (`\\u{1b}`).  Only
a sequence that this process itself has marked reaches the terminal unchanged, and nobody else knows the mark.
"""

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

MOST_TOLD = 8000  # characters of one error message
_MARK = f"\x1b{os.urandom(12).hex()}\x1b"
# Blanks are visible by their width; joiners do not act on terminals, and `legible` checks them where it matters.
_KEPT = frozenset("\n\t\u00a0\u1680\u202f\u205f\u3000\u200c\u200d" + "".join(map(chr, range(0x2000, 0x200B))))


def marked(sequence: str) -> str:
    """A control sequence for the terminal, marked for `SafeOutput`."""
    return f"{_MARK}{sequence}{_MARK}"


def unmarked(text: str) -> str:
    """The visible text, without the marked sequences."""
    return "".join(text.split(_MARK)[::2])


def defused(text: str) -> str:
    """The text with every character escaped that a terminal might obey; an escaped text stays unchanged."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char in _KEPT else f"\\u{{{ord(char):x}}}" for char in text)


def complaint(message: str) -> str:
    """An error message: a line of ours, and foreign text after it, indented and shortened."""
    from .legible import legible, settled_line

    if len(message) > MOST_TOLD:
        half, left_out = MOST_TOLD // 2, len(message) - MOST_TOLD
        message = f"{message[:half]} … {left_out} characters left out … {message[-half:]}"
    first, *further = message.split("\n")
    return "\n  ".join([f"dragoman: {legible(first)}", *map(settled_line, further)])


class OutputFailed(OSError):
    """Our output could not be written: the disk is full, or the terminal is gone."""


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # the reader has closed it
        raise
    except OSError as exc:
        raise OutputFailed(exc.errno, exc.strerror) from exc


class SafeOutput(io.TextIOBase):
    """A stream that is safe to read: stderr always, stdout if it leads to a terminal.

    A program that reads our stdout gets every character unchanged.
    """

    def __init__(self, stream: TextIO, *, for_people: bool) -> None:
        self._stream, self._for_people = stream, for_people
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, text: str) -> int:
        if self._for_people or self._stream.isatty():
            parts = text.split(_MARK)  # every other piece is ours
            shown = "".join(part if at % 2 else defused(part) for at, part in enumerate(parts))
        else:
            shown = text
        with _writing():
            self._stream.write(shown)
        return len(text)

    def write_bytes(self, data: bytes) -> None:
        """Write text that arrives as bytes, cut anywhere; a program gets exactly these bytes."""
        if self._for_people or self._stream.isatty():
            self.write(self._decoder.decode(data))
        else:
            with _writing():
                self._stream.flush()
                self._stream.buffer.write(data)

    @property
    def buffer(self) -> "_Buffer":
        """The stream for bytes, which are handled in the same way."""
        return _Buffer(self)

    def flush(self) -> None:
        with _writing():
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def reconfigure(self, **options: Any) -> None:
        if isinstance(self._stream, io.TextIOWrapper):
            self._stream.reconfigure(**options)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding

    def close(self) -> None:
        """Do nothing: the stream is not ours to close."""

    def __del__(self) -> None:
        """Do nothing, for the same reason."""


class _Buffer(io.RawIOBase):
    def __init__(self, output: SafeOutput) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._output.write_bytes(bytes(data))
        return len(data)

    def flush(self) -> None:
        self._output.flush()


def install() -> tuple[SafeOutput, SafeOutput]:
    """Let everything that this process writes to stdout and stderr pass a `SafeOutput`; returns the two."""
    sys.stdout = cast(TextIO, stdout := _safe(sys.stdout, for_people=False))
    sys.stderr = cast(TextIO, stderr := _safe(sys.stderr, for_people=True))
    return stdout, stderr


def _safe(stream: object, *, for_people: bool) -> SafeOutput:
    if isinstance(stream, SafeOutput):
        return stream
    output = SafeOutput(cast(TextIO, stream), for_people=for_people)
    output.reconfigure(errors="backslashreplace")  # characters that the encoding lacks are escaped
    return output
