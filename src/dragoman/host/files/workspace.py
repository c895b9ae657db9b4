"""The files a client lends an agent: its working directory, further directories, and single exceptions.

    with Workspace("project") as workspace:
        with workspace.reading(path) as file:        # opened; nothing read yet
            ask_permission(file.operation)           # about exactly the file that is open
            text = file.read(line=10, limit=20)
        with workspace.writing(path) as target:
            ask_permission(target.operation(text))
            target.commit(text)

`read_text_file` and the other methods do the same for a request of an agent: they open the file, call `permit` with
the operation (and, for a change of text, with its diff), and answer.  `permit` raises to refuse.  Contents are read
and written in a thread.

`paths` keeps paths inside the workspace, `condition` describes what a change requires, `edits` changes files, and
`errors` has the agent's answers to failures.
"""

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import ParamSpec, Self, TypeAlias, TypeVar

from msgspec import Struct

from ...errors import Error
from ...foundation.places import Path, Place, is_beneath
from ...schema import (
    Diff,
    ReadTextFileRequest,
    ReadTextFileResponse,
    WriteTextFileRequest,
    WriteTextFileResponse,
)
from ..operations import FileDelete, FileRead, FileWrite
from . import extensions as x
from . import texts
from .changing.condition import ANYTHING, Condition, Expected, required
from .changing.edits import Edit, EditSet
from .changing.journal import Journal, recover
from .errors import FileRefused, answering, refusal
from .handles import Directory, Handle, OpenFile, Overlay, Save, Target, Written
from .paths import MAX_TRIES, Entry, Root, Roots, open_exception, open_root
from .reading import digest_of
from .replacing import replaced
from .watching import watching
from .writing import current_umask

MAX_EDITS = 1000  # files changed at once

_MOVED = {errno.ENOENT, errno.ELOOP, errno.ESTALE}  # the file was just replaced: look again

Permitted: TypeAlias = FileRead | FileWrite | FileDelete
Permit = Callable[[Permitted, Diff | None], Awaitable[None]]

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound=Handle)


class Exemption(Struct, frozen=True):
    """A file, or a directory with everything below it, that is lent although it is outside the workspace."""

    path: Path
    writable: bool = False


class Workspace:
    """The directories and files an agent may use, held open from the start; a context manager that closes them.

    `overlay` returns the editor's unsaved text of a file, or None if the file is not open there.  `save` gets the
    text to be written and returns whether the editor took it.  `relative` lets paths start at `cwd`, for dialects
    that have such paths.  `state` is the directory of the journal.
    """

    def __init__(
        self,
        cwd: Path | Place = ".",
        additional_directories: Iterable[Path | Place] = (),
        exceptions: Iterable[Exemption] = (),
        *,
        overlay: Overlay | None = None,
        save: Save | None = None,
        relative: bool = False,
        state: Path | None = None,
        use_openat2: bool = True,
    ) -> None:
        if not {os.open, os.mkdir, os.rename, os.stat, os.unlink} <= os.supports_dir_fd:
            raise Error("files cannot be kept inside a workspace here: this system has no openat")
        self._overlay, self._save, self._relative = overlay, save, relative
        self._mode = 0o666 & ~current_umask()
        self._journal = Journal(state)
        self._private = os.path.realpath(self._journal.directory)
        recover(self._journal.directory)
        roots: list[Root] = []
        try:
            roots += map(open_root, (cwd, *additional_directories))
            self._count = len(roots)
            roots += (open_exception(exception.path, exception.writable) for exception in exceptions)
        except BaseException:
            for root in roots:
                os.close(root.fd)
            raise
        self._roots = Roots(roots, use_openat2=use_openat2)

    @property
    def directories(self) -> tuple[str, ...]:
        """The real paths of `cwd` and the additional directories when they were opened."""
        return tuple("/" + "/".join(root.real) for root in self._roots.roots[: self._count])

    @property
    def places(self) -> tuple[Place, ...]:
        """The same directories, held open: a sandbox shows these even if their names now lead elsewhere."""
        return tuple(root.place for root in self._roots.roots[: self._count])

    def close(self) -> None:
        """Close the directories and the journal of changes."""
        self._roots.close()
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Opening

    def reading(self, path: str) -> OpenFile:
        """Open a regular file."""
        return self._open(path, lambda entry, real: OpenFile(path, entry, real, self._overlay))

    def writing(
        self,
        path: str,
        *,
        overwrite: bool = True,
        create_directories: bool = True,
        expected: Expected = ANYTHING,
    ) -> Target:
        """Find the place of a file to be written; missing directories are created only with the file.

        `expected` guards against a file that has changed: its SHA-256, its time in ns, or None for no file.
        """
        with answering(path):
            condition = required(expected, overwrite=overwrite)

        def target(entry: Entry, real: str) -> Target:
            return Target(
                path,
                entry,
                real,
                self._journal,
                self._mode,
                overlay=self._overlay,
                save=self._save,
                create_directories=create_directories,
                condition=condition,
            )

        return self._open(path, target)

    def directory(self, path: str) -> Directory:
        """Find a directory, whether it exists or not."""
        return self._open(path, lambda entry, real: Directory(path, entry, real, self._journal))

    def editing(self, edits: Sequence[x.FileEdit]) -> EditSet:
        """Read several files that will be changed together, and compute their new contents."""
        found = self._edits(edits)
        self._check_saved(found)
        return found

    def _edits(self, edits: Sequence[x.FileEdit]) -> EditSet:
        if len(edits) > MAX_EDITS:
            raise refusal("too_large", edits[MAX_EDITS].path)
        return EditSet([self._edit(edit) for edit in edits], self._journal, self._mode)

    def _check_saved(self, edits: EditSet) -> None:
        """Refuse to change several files if an editor has one unsaved: this could not be undone."""
        for edit in edits.edits:
            if self._overlay and self._overlay(edit.path) is not None:
                raise refusal("unsaved", edit.named)

    def _open(self, path: str, open: Callable[[Entry, str], H]) -> H:
        with answering(path):
            for _ in range(MAX_TRIES):
                entry, real = self._find(path)
                try:
                    return open(entry, real)
                except OSError as exc:
                    entry.close()
                    if not (entry.status and exc.errno in _MOVED):
                        raise
                except BaseException:
                    entry.close()
                    raise
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _find(self, path: str, *, follow: bool = True) -> tuple[Entry, str]:
        """The entry that a path leads to, and its real path."""
        entry = self._roots.find(path, relative=self._relative, follow=follow)
        try:
            real = entry.path()
            if is_beneath(real, self._private):  # writing to the journal would control the next start
                raise FileRefused("outside_workspace")
        except BaseException:
            entry.close()
            raise
        return entry, real

    def _edit(self, edit: x.FileEdit) -> Edit:
        with answering(edit.path):
            content, condition = self._content(edit)
            entry, real = self._find(edit.path, follow=not isinstance(edit, x.DeleteEdit))
            try:
                return Edit(edit.path, entry, real, content, condition)
            finally:
                entry.close()

    def _content(self, edit: x.FileEdit) -> tuple[bytes | None, Condition]:
        """The new content of a file, and the state that it must keep until the change."""
        expected = ANYTHING if edit.expected_sha256 is None else edit.expected_sha256
        if isinstance(edit, x.DeleteEdit):
            return None, required(expected)
        encoding = texts.encoding_named(edit.encoding)
        if isinstance(edit, x.WriteEdit):
            return texts.encode(edit.content, encoding), required(expected, overwrite=edit.overwrite)
        with self._open(edit.path, lambda entry, real: OpenFile(edit.path, entry, real, None)) as file:
            data = file.read_bytes()
        condition = required(expected).shown(digest_of([data]))
        for replacement in edit.replacements:
            data = replaced(data, encoding, replacement.old_text, replacement.new_text)
        return data, condition

    # The agent's requests

    async def read_text_file(
        self, params: ReadTextFileRequest, permit: Permit | None = None
    ) -> ReadTextFileResponse:
        """At most `limit` lines of a text file from `line` on, unsaved changes included."""
        with self.reading(params.path) as file:
            await _ask(permit, file.operation)
            file.load()
            return ReadTextFileResponse(content=await asyncio.to_thread(file.read, params.line, params.limit))

    async def write_text_file(
        self, params: WriteTextFileRequest, permit: Permit | None = None
    ) -> WriteTextFileResponse:
        """Replace a text file, or create it and the directories above it."""
        with self.writing(params.path) as target:
            await _write(target, params.content, None, permit)
        return WriteTextFileResponse()

    async def read_file(self, params: x.ReadFileRequest, permit: Permit | None = None) -> x.ReadFileResponse:
        """Read a text file with a given encoding and range of lines."""
        with self.reading(params.path) as file:
            await _ask(permit, file.operation)
            file.load()
            window = await asyncio.to_thread(
                file.window, params.start_line, params.end_line, encoding=params.encoding
            )
        return x.ReadFileResponse(
            content=window.content,
            encoding=window.encoding,
            total_lines=window.total_lines or 0,
            truncated=window.truncated,
        )

    async def write_file(self, params: x.WriteFileRequest, permit: Permit | None = None) -> x.WriteFileResponse:
        """Write a text file with a given encoding, under the given conditions."""
        with self._writing(params) as target:
            written = await _write(target, params.content, params.encoding, permit)
        return x.WriteFileResponse(bytes_written=written.bytes_written, created=written.created)

    async def read_binary_file(
        self, params: x.ReadBinaryRequest, permit: Permit | None = None
    ) -> x.ReadBinaryResponse:
        """Read a part of any file, as base64."""
        with self.reading(params.path) as file:
            await _ask(permit, file.operation)
            data = await asyncio.to_thread(file.read_bytes, params.offset, params.length)
            return x.ReadBinaryResponse(data=data, size=file.size)

    async def write_binary_file(
        self, params: x.WriteBinaryRequest, permit: Permit | None = None
    ) -> x.WriteFileResponse:
        """Write a file whose content is given as base64."""
        with self._writing(params) as target:
            if permit:
                await asyncio.to_thread(target.look)
                await permit(target.operation(params.data), None)
            written = await _see_through(target.write, params.data)
        return x.WriteFileResponse(bytes_written=written.bytes_written, created=written.created)

    async def list_directory(
        self, params: x.ListDirectoryRequest, permit: Permit | None = None
    ) -> x.ListDirectoryResponse:
        """List names, types and sizes of a directory."""
        with self.directory(params.path) as directory:
            await _ask(permit, FileRead(path=directory.path))
            limit = () if params.limit is None else (params.limit,)
            entries, is_cut = await asyncio.to_thread(directory.entries, *limit)
        return x.ListDirectoryResponse(entries=entries, truncated=is_cut)

    async def create_directory(
        self, params: x.CreateDirectoryRequest, permit: Permit | None = None
    ) -> x.CreateDirectoryResponse:
        """Create a directory and those above it."""
        with self.directory(params.path) as directory:
            if directory.exists:
                return x.CreateDirectoryResponse(created=False)
            await _ask(permit, directory.operation)
            return x.CreateDirectoryResponse(created=await _see_through(directory.create))

    async def apply_edits(self, params: x.ApplyEditsRequest, permit: Permit | None = None) -> x.ApplyEditsResponse:
        """Change several files: all of them or none."""
        edits = await _see_through(self._edits, params.edits)
        self._check_saved(edits)
        for edit in edits.edits if permit else ():
            diff = await asyncio.to_thread(edit.diff)
            await _ask(permit, edit.operation, diff)
        return x.ApplyEditsResponse(files=await _see_through(edits.commit))

    @asynccontextmanager
    async def watch(
        self, params: x.WatchRequest, permit: Permit | None = None
    ) -> AsyncIterator[AsyncIterator[x.FilesChanged]]:
        """Watch a directory until the block ends: an async iterator over batches of changes."""
        with self.directory(params.path) as directory:
            await _ask(permit, FileRead(path=directory.path))
            fd = directory.open()
        try:
            async with watching(fd, directory.path, params.path, recursive=params.recursive) as changes:
                yield changes
        finally:
            os.close(fd)

    def _writing(self, params: x.WriteFileRequest | x.WriteBinaryRequest) -> Target:
        return self.writing(
            params.path,
            overwrite=params.overwrite,
            create_directories=params.create_directories,
            expected=ANYTHING if params.expected_sha256 is None else params.expected_sha256,
        )


async def _ask(permit: Permit | None, operation: Permitted, diff: Diff | None = None) -> None:
    if permit:
        await permit(operation, diff)


async def _write(target: Target, text: str, encoding: str | None, permit: Permit | None) -> Written:
    if permit:
        diff = await _diff(target, text, encoding)
        await permit(target.operation(text, encoding=encoding), diff)
    if taken := target.offer(text):
        return taken
    return await _see_through(target.write, text, encoding=encoding)


async def _diff(target: Target, text: str, encoding: str | None) -> Diff | None:
    """The change, to be shown; None if there is no text to compare with."""
    old = target.show_buffer()
    seen = await asyncio.to_thread(target.look, encoding=encoding)
    if old is None and seen.digest is not None and seen.text is None:
        return None
    return Diff(path=target.path, old_text=seen.text if old is None else old, new_text=text)


async def _see_through(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a change of files in a thread, to its end: a cancelled caller waits until it is over."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        if not work.cancelled():
            work.exception()
        raise
