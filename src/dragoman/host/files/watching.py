"""Reports changes below a directory as they happen; needs `watchfiles`.

`watchfiles` follows symbolic links wherever they lead.  So it gets every directory by itself, found without
following links, and a new set when directories come or go.  A change is reported by its path below the opened
directory, and only if no link is on that path.
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
QUIET, LONGEST = 50, 400  # ms: changes this close are reported together, within the second limit

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
        with suppress(RuntimeError):  # the loop was closed, and its readers ended with it
            self._loop.call_soon_threadsafe(self._news.set)


@asynccontextmanager
async def watching(fd: int, path: str, named: str, *, recursive: bool = True) -> AsyncIterator[Changes]:
    """Watch the open directory at `path`; once the block is entered, no change is missed."""
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
                    for directory in self._known - before:  # entries created in them before they were watched
                        found.update((name, "created") for name in self._names(directory))
                if found:
                    self._tell(found)
                batch = batch or next(feed, None)
        finally:
            feed.close()

    def _tell(self, found: dict[str, ChangeKind]) -> None:
        self._changes.add({os.path.join(self._path, name).rstrip("/"): kind for name, kind in found.items()})

    def _start(self) -> tuple[Any, Any]:
        """Watch all present directories: a feed of changes, and the first batch; the watch is active by then."""
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
            except FileNotFoundError:  # one of them was removed already
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
        except OSError:  # removed, or not readable for us
            return []

    def _is_directory(self, name: str) -> bool:
        try:
            status = self._status(name)
        except OSError:
            return False
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _others(self, batch: Iterable[tuple[int, str]], found: Iterable[str]) -> set[str]:
        """Directories that were created, removed or both, also within one batch.

        A new directory may have the number of a removed one, so only the event of its name counts.
        """
        named = {os.path.relpath(path, self._top) for change, path in batch if change != _MODIFIED}
        return (named & self._known) | {name for name in found if self._is_directory(name) != (name in self._known)}

    def _inside(self, batch: Iterable[tuple[int, str]]) -> dict[str, ChangeKind]:
        """The changed paths, from the top, with the kind of each change according to the present files."""
        created = {path for change, path in batch if change == _CREATED}
        found: dict[str, ChangeKind] = {}
        for _, path in batch:
            name = os.path.relpath(path, self._top)
            if name == "." or os.path.basename(name).startswith(".dragoman-"):
                continue
            try:
                status = self._status(checked_name(name))
            except (FileRefused, OSError):  # there is a link on the path
                continue
            if status is None:
                found[name] = "deleted"
            else:
                found[name] = "created" if path in created else "modified"
        return found

    def _status(self, name: str) -> os.stat_result | None:
        """The file at a path without links; None if there is none."""
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
    """Whether a path is one of these or lies below one."""
    parts = name.split("/")
    return any("/".join(parts[:depth]) in above for depth in range(1, len(parts) + 1))
