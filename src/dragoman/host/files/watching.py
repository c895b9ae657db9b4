"""Changes below a directory, as they happen; needs `watchfiles`.

`watchfiles` follows symbolic links wherever they lead, so it is given every directory by itself, found without
following any, and a new set of them when directories come or go.  A change is told by its path below the directory
as it was opened, and only when no link is on the way to it.
"""

import asyncio
import importlib
import os
import stat
import sys
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from ...errors import Error, ResourceNotFound, RpcError
from ...foundation.places import descend
from .errors import FileRefused, refusal
from .extensions import ChangeKind, FileChange, FilesChanged
from .paths import MAX_TRIES, checked_name, status_at

MAX_DIRECTORIES = 8192
MAX_CHANGES = 4096  # kept for a slow reader
QUIET, LONGEST = 50, 400  # ms: changes this close together are told together, but not for longer than that

_CREATED, _MODIFIED = 1, 2  # as watchfiles counts


class Changes:
    """An async iterator over batches of changes; for a slow reader changes are merged, then dropped with a mark."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pending: dict[str, ChangeKind] = {}
        self._overflow = False
        self._news = asyncio.Event()
        self.failure: RpcError | None = None

    def __aiter__(self) -> "Changes":
        return self

    async def __anext__(self) -> FilesChanged:
        await self._news.wait()
        with self._lock:
            pending, self._pending = self._pending, {}
            overflow, self._overflow = self._overflow, False
            if self.failure is None:
                self._news.clear()
        if self.failure and not (pending or overflow):  # earlier changes are reported first
            raise self.failure
        changes = [FileChange(path=path, type=kind) for path, kind in sorted(pending.items())]
        return FilesChanged(changes=changes, overflow=overflow)

    def add(self, changes: dict[str, ChangeKind]) -> None:
        """Called by the thread that watches."""
        with self._lock:
            for path, kind in changes.items():
                if path in self._pending or len(self._pending) < MAX_CHANGES:
                    self._pending[path] = kind
                else:
                    self._overflow = True
        self._tell()

    def fail(self, failure: RpcError) -> None:
        self.failure = failure
        self._tell()

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the loop is gone, and its readers with it
            self._loop.call_soon_threadsafe(self._news.set)


@asynccontextmanager
async def watching(fd: int, path: str, named: str, *, recursive: bool = True) -> AsyncIterator[Changes]:
    """Watch an open directory, which is at `path`; once entered, no change is missed."""
    try:
        watchfiles = importlib.import_module("watchfiles")
    except ImportError as exc:
        raise Error("watching files needs watchfiles: pip install 'dragoman[watch]'") from exc
    changes = Changes()
    watch = _Watch(watchfiles.watch, fd, path, named, recursive, changes)
    thread = threading.Thread(target=watch.run, name="dragoman-watch", daemon=True)
    thread.start()
    try:
        await asyncio.to_thread(watch.ready.wait)
        if changes.failure:
            raise changes.failure
        yield changes
    finally:
        watch.stop.set()
        await asyncio.to_thread(thread.join)


class _Watch:
    """The thread's side."""

    def __init__(self, watch: Any, fd: int, path: str, named: str, recursive: bool, changes: Changes) -> None:
        self._watch, self._fd, self._path, self._named = watch, fd, path, named
        self._recursive, self._changes = recursive, changes
        self._top = f"/proc/self/fd/{fd}" if sys.platform == "linux" else path
        self._known: set[str] = set()  # directories that are watched, by their paths from the top
        self.ready, self.stop = threading.Event(), threading.Event()

    def run(self) -> None:
        try:
            self._run()
        except FileRefused as exc:
            self._changes.fail(refusal(exc.kind, self._named))
        except RpcError as exc:
            self._changes.fail(exc)
        except Exception as exc:
            failure = refusal("io_error", self._named)
            failure.__cause__ = exc
            self._changes.fail(failure)
        finally:
            self.ready.set()

    def _run(self) -> None:
        feed, batch = self._start()
        self.ready.set()
        try:
            while batch is not None and not self.stop.is_set():
                found = self._inside(batch)
                if not os.fstat(self._fd).st_nlink:
                    self._tell({**found, "": "deleted"})
                    raise ResourceNotFound("the directory is gone", {"uri": self._named})
                others, batch = self._others(batch, found), None
                if self._recursive and others:
                    before = {name for name in self._known if not _is_under(name, others)}
                    old = feed
                    feed, batch = self._start()
                    found.update(self._inside(next(old, ())))
                    old.close()
                    for directory in self._known - before:  # entries made in them before they were watched
                        found.update((name, "created") for name in self._names(directory))
                if found:
                    self._tell(found)
                batch = batch or next(feed, None)
        finally:
            feed.close()

    def _tell(self, found: dict[str, ChangeKind]) -> None:
        self._changes.add({os.path.join(self._path, name).rstrip("/"): kind for name, kind in found.items()})

    def _start(self) -> tuple[Any, Any]:
        """Watch all directories there are: a feed of changes, and the first of them; the watch is on by then."""
        for _ in range(MAX_TRIES):
            self._known = set(self._directories())
            feed = self._watch(
                *(os.path.join(self._top, directory) for directory in self._known),
                watch_filter=None,
                recursive=False,
                debounce=LONGEST,
                step=QUIET,
                rust_timeout=QUIET,
                yield_on_timeout=True,
                raise_interrupt=False,
                stop_event=self.stop,
                ignore_permission_denied=True,
            )
            try:
                return feed, next(feed, None)
            except FileNotFoundError:  # one of them is gone already
                continue
        raise FileRefused("busy")

    def _directories(self) -> Iterator[str]:
        yield ""
        waiting = [""] if self._recursive else []
        count = 1
        while waiting:
            above = waiting.pop()
            for name in self._names(above):
                if self._is_directory(name):
                    count += 1
                    if count > MAX_DIRECTORIES:
                        raise FileRefused("too_large")
                    waiting.append(name)
                    yield name

    def _names(self, directory: str) -> list[str]:
        try:
            return [os.path.join(directory, name) for name in os.listdir(os.path.join(self._top, directory))]
        except OSError:  # gone, or not for us to see
            return []

    def _is_directory(self, name: str) -> bool:
        try:
            status = self._status(name)
        except OSError:
            return False
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _others(self, batch: Iterable[tuple[int, str]], found: Iterable[str]) -> set[str]:
        """Directories that have come or gone, or have been removed and made again, also within one batch.

        One that was made again may have the old one's number, so what counts is that its name came or went.
        """
        named = {os.path.relpath(path, self._top) for change, path in batch if change != _MODIFIED}
        return (named & self._known) | {name for name in found if self._is_directory(name) != (name in self._known)}

    def _inside(self, batch: Iterable[tuple[int, str]]) -> dict[str, ChangeKind]:
        """The changed paths, from the top, with the kind of each change, judged by the files that are there now."""
        created = {path for change, path in batch if change == _CREATED}
        found: dict[str, ChangeKind] = {}
        for _, path in batch:
            name = os.path.relpath(path, self._top)
            if name == "." or os.path.basename(name).startswith(".dragoman-"):
                continue
            try:
                status = self._status(checked_name(name))
            except (FileRefused, OSError):  # there is a link on the way
                continue
            if status is None:
                found[name] = "deleted"
            else:
                found[name] = "created" if path in created else "modified"
        return found

    def _status(self, name: str) -> os.stat_result | None:
        """The file at a path without links; None when there is none."""
        *above, last = name.split("/")
        try:
            fd = descend(self._fd, above)
        except FileNotFoundError:
            return None
        try:
            return status_at(fd, last)
        finally:
            os.close(fd)


def _is_under(name: str, above: set[str]) -> bool:
    """Whether a path is one of those, or lies below one."""
    parts = name.split("/")
    return any("/".join(parts[:depth]) in above for depth in range(1, len(parts) + 1))
