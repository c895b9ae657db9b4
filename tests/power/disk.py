"""A disk as the power may leave it: what was synced is there; what was not may be there or not, or in part.

The content of a file lasts from when the file is synced, its name from when the directory is.  What was written and
not synced may have reached the disk in any order, and the last of it in part.  Names that were not synced are there
up to some moment.
"""

import os
import random
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .calls import Call

SECTOR = 512  # bytes a disk writes at once


class Change(NamedTuple):
    """Bytes written, or a new length."""

    place: int
    data: bytes | None


@dataclass
class File:
    """The content that lasts, and what was done to it since."""

    lasting: bytes = b""
    pending: list[Change] = field(default_factory=list)
    modified: int | None = None  # when it was written, in ns, as the program was told

    def change(self, *change: Change) -> None:
        self.pending += change
        self.modified = None

    def now(self) -> bytes:
        return _changed(self.lasting, self.pending)

    def sync(self) -> None:
        self.lasting, self.pending = self.now(), []

    def left(self, chance: random.Random, keep: float) -> bytes:
        changes = [change for change in self.pending if chance.random() < keep]
        if chance.random() < 0.3:
            chance.shuffle(changes)
        if changes and changes[-1].data and chance.random() < 0.5:
            place, data = changes[-1]
            changes[-1] = Change(place, data[: chance.randrange(len(data) // SECTOR + 1) * SECTOR])
        return _changed(self.lasting, changes)


def _changed(content: bytes, changes: Iterable[Change]) -> bytes:
    now = bytearray(content)
    for place, data in changes:
        if data is None:
            now[:] = now[:place].ljust(place, b"\0")
        else:
            now.extend(bytes(max(0, place - len(now))))
            now[place : place + len(data)] = data
    return bytes(now)


Names = dict[str, File | None]  # None: a directory


class Disk:
    """The files beneath a directory, and what was done to them since they were last synced."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        found = {str(path): File(path.read_bytes()) if path.is_file() else None for path in root.rglob("*")}
        for path, file in found.items():
            if file:
                file.modified = os.stat(path).st_mtime_ns
        self._lasting: Names = dict(found)
        self._names: Names = dict(found)
        self._pending: list[dict[str, tuple[File | None] | None]] = []  # each: paths and what has them, if anything
        self._places: dict[int, int] = {}  # by descriptor, where it writes next
        self._appending: set[int] = set()

    def happen(self, call: Call) -> None:
        """Do what a call did."""
        path, *more = call.paths
        match call.name:
            case "openat" | "open" | "creat":
                self._open(path, call)
            case "write" | "pwrite64" | "ftruncate" | "truncate" if file := self._names.get(path):
                self._write(file, call)
            case "lseek":
                self._places[call.fd] = call.result
            case "rename" | "renameat" | "renameat2" if "EXCHANGE" in call.rest or "0x2" in call.rest.split(", "):
                self._name({path: (self._names[more[0]],), more[0]: (self._names[path],)})
            case "rename" | "renameat" | "renameat2":
                self._name({path: None, more[0]: (self._names[path],)})
            case "link" | "linkat":
                self._name({more[0]: (self._names[path],)})
            case "unlink" | "unlinkat" | "rmdir":
                self._name({path: None})
            case "mkdir" | "mkdirat":
                self._name({path: (None,)})
            case "fsync" | "fdatasync":
                self._sync(path)
            case "fstat" | "newfstatat" | "statx" if file := self._names.get(path):
                if found := re.search(r"st_mtime=(\d+).*?st_mtime_nsec=(\d+)", call.rest):
                    file.modified = int(found[1]) * 10**9 + int(found[2])

    def _open(self, path: str, call: Call) -> None:
        if path not in self._names and path != self.root:
            self._name({path: (File(),)})
        file = self._names.get(path)
        if file and "O_TRUNC" in call.rest:
            file.change(Change(0, None))
        self._places[call.fd] = 0
        (self._appending.add if "O_APPEND" in call.rest else self._appending.discard)(call.fd)

    def _write(self, file: File, call: Call) -> None:
        numbers = [int(number) for number in call.rest.split(", ") if number.isdigit()]
        if call.name in ("ftruncate", "truncate"):
            file.change(Change(numbers[0], None))
        elif call.name == "pwrite64":
            file.change(Change(numbers[1], call.data[: call.result]))
        else:
            place = len(file.now()) if call.fd in self._appending else self._places[call.fd]
            file.change(Change(place, call.data[: call.result]))
            self._places[call.fd] = place + call.result

    def _name(self, change: dict[str, tuple[File | None] | None]) -> None:
        self._pending.append(change)
        _rename(self._names, change)

    def _sync(self, path: str) -> None:
        if file := self._names.get(path):
            file.sync()
            return
        directories, kept = {path}, list[dict[str, tuple[File | None] | None]]()
        lasting: list[dict[str, tuple[File | None] | None]] = []
        for change in reversed(self._pending):  # with a name, all that happened before to its directories
            touched = {os.path.dirname(name) for name in change}
            if touched & directories:
                directories |= touched
                lasting.append(change)
            else:
                kept.append(change)
        for change in reversed(lasting):
            _rename(self._lasting, change)
        self._pending = kept[::-1]

    def leave(self, chance: random.Random) -> None:
        """Write down beneath the directory what may be left; directories that stay are the same ones."""
        keep = chance.choice((0.0, 0.5, 0.9, 1.0))
        names = dict(self._lasting)
        for change in self._pending[: chance.randint(0, len(self._pending)) if keep else 0]:
            _rename(names, change)
        there = {path: file for path, file in names.items() if self._is_reached(os.path.dirname(path), names)}
        for path in sorted(Path(self.root).rglob("*"), reverse=True):
            if not path.is_dir():
                path.unlink()
            elif there.get(str(path), path) is not None:
                shutil.rmtree(path)
        content = {id(file): file.left(chance, keep) for file in there.values() if file}
        for name, file in sorted(there.items()):
            if file is None:
                Path(name).mkdir(mode=0o700, exist_ok=True)
                continue
            with open(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
                written.write(content[id(file)])
            if file.modified is not None:
                os.utime(name, ns=(file.modified, file.modified))

    def _is_reached(self, path: str, names: Names) -> bool:
        return path == self.root or (path in names and self._is_reached(os.path.dirname(path), names))


def _rename(names: Names, change: dict[str, tuple[File | None] | None]) -> None:
    for path, found in change.items():
        if found is None:
            names.pop(path, None)
        else:
            names[path] = found[0]
