"""The texts of a session's files: through the client where it lends them, else on this machine's disk."""

import asyncio
import contextlib
import errno
import hashlib
import os
from collections.abc import Sequence

from msgspec import Struct

from ... import schema as s
from ...agent.turn import AgentSession, Turn
from ...errors import Error, ResourceNotFound, RpcError
from ...foundation.owning import finish
from ...foundation.places import DIRECTORY, descend, is_beneath
from ...host.disk import plain_content
from ...host.files import Workspace
from ...host.files import extensions as x
from ...roles import offered

MAX_FILE = 8 * 1024 * 1024  # bytes of a file that is read on this machine
# Only our own hosts offer these: the protocol has no method to remove files, and no condition for a write.
APPLY_EDITS, WRITE_FILE = "_dragoman/fs/apply_edits", "_dragoman/fs/write_text_file"


class FileVersions(Struct, frozen=True):
    """A file before and after a change; None means no file."""

    path: str
    before: str | None
    after: str | None


class UnreadableFile(Error):
    """A file cannot be read or is not text; the message is for the model."""


class ProjectFiles:
    """Reads, writes and removes without asking: `CoderPermissions` has admitted the caller."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._here: Workspace | None = None

    def close(self) -> None:
        if self._here:
            self._here.close()

    def clear_up(self) -> None:
        """Clean up after a process that was killed while it wrote here."""
        if not self.lends("fs.write_text_file"):
            self._workspace()

    def lends(self, capability: str) -> bool:
        return offered(self._session.client.offers, capability)

    async def text(self, turn: Turn, path: str) -> str | None:
        """The text of a file, unsaved changes included; None when there is none."""
        if not self.lends("fs.read_text_file"):
            return await asyncio.to_thread(read_here, path)
        try:
            text = await turn.read(path)
            # Some clients answer with an empty text for a missing file.
            return None if not text and self._is_missing(path) else text
        except ResourceNotFound:
            return None
        except RpcError as exc:
            # Many clients have no special error for a missing file; if we see the same disk, we can check.
            if self._is_missing(path):
                return None
            raise UnreadableFile(f"{os.path.basename(path)} cannot be read: {exc.message}") from exc

    def _is_missing(self, path: str) -> bool:
        """Whether we see the client's disk and the file is missing there."""
        return os.path.isdir(self._session.cwd) and not os.path.lexists(path)

    async def put(self, turn: Turn, path: str, old: str | None, new: str) -> None:
        """Write a file that holds `old`; None means that it does not exist.

        A change that the user saves meanwhile is not overwritten, if the client can check that.
        """
        request = x.WriteFileRequest(
            session_id=self._session.id,
            path=path,
            content=new,
            overwrite=old is not None,
            expected_sha256=None if old is None else digest(old),
        )
        if not self.lends("fs.write_text_file"):
            await self._workspace().write_file(request)
        elif WRITE_FILE in _methods(self._session.client.offers) and await asyncio.to_thread(_holds, path, old):
            await turn.client.request(WRITE_FILE, request, x.WriteFileResponse)
        else:  # it is in an editor's buffer, or on another machine
            await turn.write(path, new)

    async def put_all(self, turn: Turn, changes: Sequence[FileVersions]) -> None:
        """Change several files: all of them or none, if the client can do that."""
        edits = [_edit(change) for change in changes]
        request = x.ApplyEditsRequest(session_id=self._session.id, edits=edits)
        if not self.lends("fs.write_text_file"):
            await self._workspace().apply_edits(request)
        elif APPLY_EDITS in _methods(self._session.client.offers) and await asyncio.to_thread(_hold, changes):
            try:
                await turn.client.request(APPLY_EDITS, request, x.ApplyEditsResponse)
            except RpcError as exc:
                if not _is_open(exc):
                    raise
                await self._put_in_turn(turn, changes)
        else:  # some are in an editor's buffers, or on another machine
            await self._put_in_turn(turn, changes)

    async def _put_in_turn(self, turn: Turn, changes: Sequence[FileVersions]) -> None:
        """Change one file after the other; when one cannot be changed, those before it are put back."""
        done: list[FileVersions] = []
        try:
            for change in changes:
                done.append(change)
                await self._replace(turn, change.path, change.before, change.after)
        except BaseException:
            await finish(self._put_back(turn, done))
            raise

    async def _put_back(self, turn: Turn, done: Sequence[FileVersions]) -> None:
        for change in reversed(done):
            with contextlib.suppress(Error):  # the failure itself names files that cannot be put back
                if await self.text(turn, change.path) == change.after:
                    await self._replace(turn, change.path, change.after, change.before)

    async def _replace(self, turn: Turn, path: str, old: str | None, new: str | None) -> None:
        if new is not None:
            await self.put(turn, path, old, new)
        elif old is not None:
            await self.remove(turn, path, old)

    async def remove(self, turn: Turn, path: str, old: str) -> bool:
        """Remove a file that holds `old`; false if the client cannot, so that it is empty now."""
        edit = x.DeleteEdit(path=path, expected_sha256=digest(old))
        request = x.ApplyEditsRequest(session_id=self._session.id, edits=[edit])
        if APPLY_EDITS in _methods(self._session.client.offers):
            await turn.client.request(APPLY_EDITS, request, x.ApplyEditsResponse)
        elif not self.lends("fs.write_text_file") or await asyncio.to_thread(_holds, path, old):
            await self._workspace().apply_edits(request)
        else:  # it is in an editor's buffer, or on another machine
            await turn.write(path, "")
            return False
        return True

    def remove_empty(self, directories: Sequence[str]) -> None:
        """Remove those of these directories, the innermost last, that are on this machine and empty."""
        session = self._session
        roots = [canonical(root) for root in (session.cwd, *session.additional_directories)]
        for path in reversed(directories):
            root = next((root for root in roots if path != root and is_beneath(path, root)), None)
            if root is None:
                return
            with contextlib.suppress(OSError):  # it is in use, missing, or now leads elsewhere
                _remove_directory(root, os.path.relpath(path, root).split("/"))

    def _workspace(self) -> Workspace:
        if self._here is None:
            self._here = Workspace(self._session.cwd, self._session.additional_directories)
        return self._here


def _edit(change: FileVersions) -> x.FileEdit:
    expected = None if change.before is None else digest(change.before)
    if change.after is None:
        return x.DeleteEdit(path=change.path, expected_sha256=expected)
    return x.WriteEdit(
        path=change.path, content=change.after, overwrite=change.before is not None, expected_sha256=expected
    )


def _hold(changes: Sequence[FileVersions]) -> bool:
    return all(_holds(change.path, change.before) for change in changes)


def _remove_directory(root: str, names: Sequence[str]) -> None:
    top = os.open(root, DIRECTORY)
    try:
        above = descend(top, names[:-1])
    finally:
        os.close(top)
    try:
        os.rmdir(names[-1], dir_fd=above)
    finally:
        os.close(above)


def canonical(path: str) -> str:
    """The target of a path after following all links."""
    return os.path.realpath(path)


def digest(text: str | None) -> str:
    """The SHA-256 of a text in UTF-8; None for None."""
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _methods(offers: s.ClientCapabilities) -> list[str]:
    """Those of our own methods that a client advertises."""
    ours = (offers.meta or {}).get("dragoman")
    named = ours.get("methods") if isinstance(ours, dict) else None
    return named if isinstance(named, list) else []


def _is_open(exc: RpcError) -> bool:
    """Whether a client refused to change several files at once because an editor has one of them open."""
    return isinstance(exc.data, dict) and exc.data.get("kind") == "unsaved"


def _holds(path: str, text: str | None) -> bool:
    """Whether a file on this machine has this text, or, for None, whether it is missing."""
    try:
        return read_here(path) == text
    except UnreadableFile:
        return False


def read_here(path: str) -> str | None:
    """The text of a file on this machine; None if it is missing."""
    if not os.path.lexists(path):
        return None
    try:
        return bytes_here(path).decode()
    except UnicodeDecodeError:
        raise UnreadableFile(f"{os.path.basename(path)} is not a text file.") from None


def bytes_here(path: str) -> bytes:
    """The bytes of a file on this machine."""
    if not os.path.isfile(path):
        raise UnreadableFile(f"{path} is not a file." if os.path.exists(path) else f"There is no file {path}.")
    try:
        return plain_content(path, MAX_FILE)
    except OSError as exc:
        if exc.errno == errno.EFBIG:
            raise UnreadableFile(
                f"{os.path.basename(path)} is larger than {MAX_FILE // 2**20} MiB; search in it instead."
            ) from exc
        raise UnreadableFile(f"{path} cannot be read: {exc.strerror}.") from exc
