"""The files under review, and their text as the user sees it."""

import asyncio
import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence

from msgspec.structs import replace

from ..agent.turn import Turn
from ..errors import ConnectionClosed, Error, RpcError
from ..host.disk import content, opened
from ..host.protected import protected_by
from ..roles import offered
from .changes import ChangedLines, added_lines, as_fragment, matches, read_diff
from .checks.places import reason_apart, reason_of_place
from .checks.text import LARGE
from .findings import Source, in_lines
from .git import ChangedFiles, Repository, RepositoryError
from .linters.commands import Commands
from .prompts import ReviewRequest
from .repairs.decoding import Decoded, decoded

MOST_FILES = 20_000
MOST_TEXT = 256 * 1024 * 1024  # characters held at once
AT_ONCE = 16  # files read at the same time
SNIFFED = 8192  # bytes that are searched to tell text from binary files
OTHERS = {
    *(".git", ".hg", ".svn", "node_modules", "bower_components", ".venv", "venv", "site-packages", "Pods"),
    *("vendor", "vendored", "_vendor", "_vendored", "third_party", "third-party", "thirdparty", "3rdparty"),
}
MADE = {  # directories that a Git repository would usually ignore
    *("__pycache__", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".idea", ".gradle", "env"),
    *("dist", "build", "target", ".next", ".nuxt", "coverage", ".terraform", ".eggs"),
}
MINIFIED = (".min.js", ".min.css", ".map", ".bundle.js")

Progress = Callable[[int, int], Awaitable[None]]


async def unseen(done: int, total: int) -> None:
    """Progress that is not shown."""


class ReviewRefused(Error):
    """The review cannot be made; the text says why, in one line."""


class Project:
    """The session's directory, read through the client if it offers files."""

    def __init__(self, turn: Turn, commands: Commands) -> None:
        self._turn = turn
        self.cwd = os.path.realpath(turn.session.cwd)
        self.repository = Repository(commands, self.cwd)
        self._left_out: list[str] = []
        self._refused: dict[str, list[str]] = {}  # the client's reason -> the files that it refused to read
        self._room = MOST_TEXT

    @property
    def name(self) -> str:
        return os.path.basename(self.cwd) or self.cwd

    @property
    def skipped(self) -> list[str]:
        """The files that were not reviewed, with the reason: one line for each reason."""
        refused = [f"the client refused to read {some(paths)}: {why}" for why, paths in self._refused.items()]
        return [*self._left_out, *refused]

    async def sources(self, request: ReviewRequest, progress: Progress) -> list[Source]:
        """The files of a request; files that would not be repaired are marked, unless they were named."""
        named = {self.relative(path) for path in request.paths}
        within = [path for path in named if reason_of_place(f"{path}/")]
        return [
            source
            if source.path in named or _is_below(source.path, within)
            else replace(source, apart=reason_apart(source))
            for source in await self._sources(request, progress)
        ]

    async def _sources(self, request: ReviewRequest, progress: Progress) -> list[Source]:
        match request.extent:
            case "staged":
                return await self._staged(self._noted(await self.repository.staged()))
            case "changes":
                changes = self._noted(await self.repository.changed(request.since))
                return await self._changed(changes.files, progress)
            case "diff":
                return await self._of_diff(list(read_diff(request.diff)), progress)
        attached = [
            Source(self.relative(file.path), file.text, is_saved=await self._says(file.path, file.text))
            for file in request.attached
        ]
        known = {source.path for source in attached}
        paths = await self._paths(request.paths) if request.paths or not attached else []
        return [*attached, *await self._read([path for path in paths if path not in known], progress)]

    def relative(self, path: str) -> str:
        """A path as findings name it: relative to the session's directory if it is inside."""
        if "://" in path:
            return path
        real = os.path.realpath(os.path.join(self.cwd, path))
        return os.path.relpath(real, self.cwd) if self.is_inside(path) else path

    def absolute(self, path: str) -> str:
        return os.path.join(self.cwd, path)

    def is_inside(self, path: str) -> bool:
        real = os.path.realpath(os.path.join(self.cwd, path))
        return real == self.cwd or real.startswith(self.cwd.rstrip("/") + "/")

    # Choosing files

    async def _paths(self, wanted: Sequence[str]) -> list[str]:
        """The files at some paths, of directories all files below; without paths, the whole project."""
        for path in wanted:
            if not self.is_inside(path):
                raise ReviewRefused(f"{path} is outside {self.cwd}; open a session there to have it reviewed")
            if not os.path.lexists(path):
                raise ReviewRefused(f"there is no {self.relative(path)} in {self.cwd}")
        single = [self.relative(path) for path in wanted if not os.path.isdir(path)]
        directories = [self.relative(path) for path in wanted if os.path.isdir(path)]
        if wanted and not directories:
            return single
        everything = await self._everything()
        below = [path for path in self._nameable(everything) if not directories or _is_below(path, directories)]
        return self._bounded([*single, *self._unasked(path for path in below if _is_ours(path))])

    async def others(self, suffix: str, known: Container[str]) -> list[Source]:
        """The project's other files with this suffix, to look up names; those left out are not reported."""
        noted, room = list(self._left_out), self._room
        refused = {why: list(paths) for why, paths in self._refused.items()}
        unread = set[str]().union(*refused.values())
        try:
            paths = [path for path in await self._everything() if path.endswith(suffix) and _is_ours(path)]
            wanted = [path for path in paths[:MOST_FILES] if path not in known and path not in unread]
            return await self._read(self._unasked(wanted), unseen)
        except RepositoryError:
            return []
        finally:
            self._left_out, self._refused, self._room = noted, refused, room

    async def _everything(self) -> Sequence[str]:
        """Every file that Git does not ignore; without Git, every file that is not obviously generated."""
        try:
            listing = await self.repository.files()
        except RepositoryError as exc:
            if exc.kind == "bare_repository":
                raise
            if exc.kind == "unreadable_repository":
                self._left_out.append(f"ignored files are reviewed as well, for {exc}")
            return await asyncio.to_thread(self._walk)
        self._note_nested(listing.nested)
        return listing.files

    def _walk(self) -> list[str]:
        found: list[str] = []
        for top, directories, files in os.walk(self.cwd):
            directories[:] = sorted(name for name in directories if name not in OTHERS | MADE)
            found += [os.path.relpath(os.path.join(top, name), self.cwd) for name in sorted(files)]
            if len(found) > MOST_FILES:
                break
        return found

    def _nameable(self, paths: Iterable[str]) -> Iterator[str]:
        """The paths that the protocol can name, which are Unicode only."""
        odd = 0
        for path in paths:
            if path.isascii() or path == path.encode(errors="replace").decode():
                yield path
            else:
                odd += 1
        if odd:
            self._left_out.append(f"{odd:,} files whose names are not Unicode were left out")

    def _unasked(self, paths: Iterable[str]) -> list[str]:
        """The paths without those about which a client would ask its user, since they were not named."""
        if not self.reads_through_client:
            return list(paths)
        kept: list[str] = []
        asking: list[str] = []
        for path in paths:
            protection = protected_by(self.absolute(path))
            (asking if protection and protection.secret else kept).append(path)
        if asking:
            self._left_out.append(f"{some(asking)}: may hold secrets, so it is read only if you name it")
        return kept

    def _bounded(self, paths: list[str]) -> list[str]:
        if len(paths) > MOST_FILES:
            self._left_out.append(
                f"more than {MOST_FILES:,} files: the rest was left out; name a directory to see it"
            )
        return list(dict.fromkeys(paths[:MOST_FILES]))

    # Changes

    def _noted(self, changes: ChangedFiles) -> ChangedFiles:
        """Report the changes that cannot be reviewed as files."""
        self._note_nested(changes.nested)
        if changes.unmerged:
            self._left_out.append(f"there are conflicts to resolve in {some(changes.unmerged)}")
        if changes.unwatched:
            self._left_out.append(f"{some(changes.unwatched)}: Git was told not to look for changes in it")
        if changes.others:
            self._left_out.append(f"{some(changes.others)}: changed, but without new lines")
        return changes

    def _note_nested(self, paths: Sequence[str]) -> None:
        if paths:
            self._left_out.append(f"{some(paths)}: another repository; to review it, open a session there")

    async def _staged(self, changes: ChangedFiles) -> list[Source]:
        """The files as they will be in the next commit."""
        wanted = {change.path: change for change in changes.files if _is_ours(change.path)}
        kept = [wanted[path] for path in self._bounded(list(self._nameable(wanted)))]
        blobs = [changes.blobs[change.path] for change in kept]
        contents = await self.repository.contents(blobs, LARGE) if blobs else {}
        found = []
        for change, blob in zip(kept, blobs, strict=True):
            data = contents[blob]
            if isinstance(data, int):
                found.append(Source(change.path, "", size=data))
            elif b"\0" in data[:SNIFFED]:
                self._left_out.append(f"{change.path} is not a text file")
            else:
                known = decoded(data)
                is_saved = not known.encoding and await self._says(self.absolute(change.path), known.text)
                found.append(in_lines(_source(change.path, known, is_saved=is_saved), added_lines(change)))
        return found

    async def _changed(self, changes: Sequence[ChangedLines], progress: Progress) -> list[Source]:
        lines = {change.path: added_lines(change) for change in changes if _is_ours(change.path)}
        paths = self._bounded(self._unasked(self._nameable(lines)))
        read = await self._read(paths, progress)
        known = {source.path for source in read}.union(*self._refused.values())
        if unread := [path for path in paths if path not in known]:
            self._left_out.append(f"{some(unread)}: not a text file, or deleted")
        return [in_lines(source, lines[source.path]) for source in read]

    async def _of_diff(self, changes: Sequence[ChangedLines], progress: Progress) -> list[Source]:
        """The files of a diff that was sent, if they have its lines already; else only its lines."""
        inside = [c.path for c in changes if self.is_inside(c.path) and os.path.isfile(self.absolute(c.path))]
        read = {source.path: source for source in await self._read(inside, progress)}
        found = []
        for change in changes:
            source = read.get(change.path)
            if source is None or not matches(change, [line.removesuffix("\r") for line in source.text.split("\n")]):
                source = Source(change.path, as_fragment(change), is_saved=False, is_fragment=True)
            found.append(in_lines(source, frozenset(change.added)))
        return found

    # Text

    async def _read(self, paths: Sequence[str], progress: Progress) -> list[Source]:
        """Read files, several at a time, in the order of their names."""
        found: dict[str, Source] = {}
        waiting = iter(paths)
        done = 0

        async def readsome() -> None:
            nonlocal done
            for path in waiting:
                if source := await self.read(path):
                    found[path] = source
                done += 1
                await progress(done, len(paths))

        async with asyncio.TaskGroup() as readers:
            for _ in range(min(AT_ONCE, len(paths))):
                readers.create_task(readsome())
        return [found[path] for path in paths if path in found]

    async def read(self, path: str) -> Source | None:
        """Read one file; None if it cannot be read: deleted, a link, binary, or refused by the client."""
        saved = await asyncio.to_thread(_saved, self.absolute(path))
        if saved is None:
            return None
        size, data = saved
        if data is None:
            return Source(path, "", size=size)
        known = decoded(data)
        current = known.text
        if not known.error and not known.encoding and self.reads_through_client:  # the client has UTF-8 only
            try:
                current = _as_saved(await self._turn.read(self.absolute(path)), known.text)
            except ConnectionClosed:
                raise
            except Error as exc:
                self._refused.setdefault(_reason(exc), []).append(path)
                return None
        self._room -= len(current)
        if self._room < 0:
            if self._room + len(current) >= 0:
                self._left_out.append(f"more than {MOST_TEXT // 2**20} MiB of text: the rest was left out")
            return None
        is_saved = current == known.text and not known.encoding
        return replace(_source(path, known, is_saved=is_saved), text=current, size=size)

    @property
    def reads_through_client(self) -> bool:
        return offered(self._turn.client.offers, "fs.read_text_file")

    async def _says(self, path: str, text: str) -> bool:
        """Whether a file on the disk has this text."""
        if "://" in path or not self.is_inside(path):
            return False
        saved = await asyncio.to_thread(_saved, self.absolute(path))
        return saved is not None and saved[1] is not None and decoded(saved[1]).text == text

    # Writing

    def is_writable(self, source: Source) -> bool:
        """Whether a file can be written; the client writes UTF-8 only."""
        return self.is_inside(source.path) and not (source.encoding and self._writes_through_client)

    async def write(self, source: Source, content: bytes) -> None:
        """Write a file through the client, else directly, if it has not changed."""
        if self._writes_through_client:
            await self._turn.write(self.absolute(source.path), content.decode())
        else:
            await asyncio.to_thread(self._write_directly, self.absolute(source.path), source.content, content)

    @property
    def _writes_through_client(self) -> bool:
        return offered(self._turn.client.offers, "fs.write_text_file")

    def _write_directly(self, path: str, old: bytes, new: bytes) -> None:
        from ..host.files import Workspace  # not needed to answer `initialize`

        expected = hashlib.sha256(old).hexdigest()
        with Workspace(self.cwd) as workspace, workspace.writing(path, expected=expected) as target:
            target.commit(new)


def _saved(path: str) -> tuple[int, bytes | None] | None:
    """The size of a regular file and, unless it is too large, its bytes; None for anything else."""
    try:
        with opened(path) as (fd, status):
            if not stat.S_ISREG(status.st_mode):
                return None
            if status.st_size > LARGE:
                return status.st_size, None
            data = content(fd, LARGE + 1)
    except OSError:
        return None
    return None if b"\0" in data[:SNIFFED] else (len(data), data)


def _source(path: str, known: Decoded, *, is_saved: bool) -> Source:
    return Source(path, known.text, is_saved, encoding_error=known.error, encoding=known.encoding)


def _is_ours(path: str) -> bool:
    return not path.endswith(MINIFIED) and not OTHERS.intersection(path.split("/")[:-1])


def _is_below(path: str, directories: Iterable[str]) -> bool:
    return any(top == "." or path.startswith(top + "/") for top in directories)


def _as_saved(current: str, saved: str) -> str:
    """The client's text; if it differs from the file only in line ends and byte order mark, the file's text."""
    return saved if current == saved.removeprefix("\ufeff").replace("\r\n", "\n") else current


def _reason(exc: Error) -> str:
    words = exc.message if isinstance(exc, RpcError) else str(exc)
    return words.splitlines()[0][:200] if words else type(exc).__name__


def some(paths: Sequence[str]) -> str:
    """The first few of many names."""
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")
