"""Frames on disk, first in first out, in nameless temporary files.

A file is closed once it has been read, so a slow reader uses about as much disk as it has not read.
"""

from collections import deque
from typing import IO

BATCH = 1024 * 1024  # bytes written or read at once
LENGTH = 4  # bytes before each frame


class Spool:
    """Keeps about `limit` bytes; the owner sets the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._on_disk = 0  # bytes in files, including frames that were taken from them
        self._unread = 0  # bytes in files of frames that were not taken yet
        self._files: deque[_File] = deque()
        self._unwritten = bytearray()

    @property
    def size(self) -> int:
        """The bytes it takes up on disk."""
        return self._on_disk + len(self._unwritten)

    @property
    def is_empty(self) -> bool:
        return not self._unread and not self._unwritten

    def append(self, frame: bytes) -> None:
        """Add a frame; raises OSError when there is no room for it, and loses only this frame."""
        if len(self._unwritten) > BATCH:
            self._write()
        self._unwritten += len(frame).to_bytes(LENGTH, "big")
        self._unwritten += frame

    def take(self) -> list[bytes]:
        """Take frames from the front, at least one if there is any; raises OSError."""
        if not self._unread:
            data, self._unwritten = bytes(self._unwritten), bytearray()
            return _frames(data)[0]
        file = self._files[0]
        frames, size = _frames(file.read(BATCH))
        if not frames:  # the first frame is larger than that
            frames, size = _frames(file.read(LENGTH + file.next_size()))
        file.read_at += size
        self._unread -= size
        if file.read_at == file.write_at:
            self._let_go_of_first()
        return frames

    def close(self) -> None:
        while self._files:
            self._let_go_of_first()
        self._unread = 0
        self._unwritten.clear()

    def _write(self) -> None:
        if not self._files or self._files[-1].write_at > min(self._unread, self._limit // 4):
            try:
                self._files.append(_File())
            except OSError:
                if not self._files:
                    raise
        self._files[-1].write(self._unwritten)
        self._on_disk += len(self._unwritten)
        self._unread += len(self._unwritten)
        self._unwritten = bytearray()

    def _let_go_of_first(self) -> None:
        file = self._files.popleft()
        self._on_disk -= file.write_at
        file.close()


class _File:
    def __init__(self) -> None:
        import tempfile  # rarely needed, and slow to import

        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="dragoman-", buffering=0)  # noqa: SIM115
        self.close = self._file.close
        self.read_at = self.write_at = 0

    def write(self, data: bytearray) -> None:
        self._file.seek(self.write_at)
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += self._file.write(view[written:])
        self.write_at += len(data)

    def read(self, size: int) -> bytes:
        """Bytes from where reading goes on."""
        self._file.seek(self.read_at)
        parts = []
        size = min(size, self.write_at - self.read_at)
        while size and (part := self._file.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def next_size(self) -> int:
        return int.from_bytes(self.read(LENGTH), "big")


def _frames(data: bytes) -> tuple[list[bytes], int]:
    """The complete frames at the start of some bytes, and their length in bytes."""
    frames: list[bytes] = []
    at = 0
    while at + LENGTH <= len(data):
        end = at + LENGTH + int.from_bytes(data[at : at + LENGTH], "big")
        if end > len(data):
            break
        frames.append(data[at + LENGTH : end])
        at = end
    return frames, at
