"""What a server's WorkspaceEdit makes of the files: one change, known before anybody is asked."""

import os
from collections.abc import Awaitable, Callable

from msgspec import Struct

from ..errors import Error
from ..foundation.documents import Document, document, documents, documents_in, members, string
from .positions import Encoding, edited, path_of

MAX_FILES = 500
MAX_TEXT = 4 * 1024 * 1024  # characters of all files together

Reader = Callable[[str], Awaitable[str | None]]  # the text of a file as the user has it; None: there is none


class LanguageEditError(Error):
    """A server's edit cannot be made; nothing was changed."""


class LanguageChange(Struct, frozen=True):
    """A file before and after; None is no file."""

    path: str
    before: str | None
    after: str | None


class WorkspaceEdits:
    """Files as edits change them one after the other; `changes` is what came of all of them."""

    def __init__(self, read: Reader, encoding: Encoding, is_ours: Callable[[str], bool]) -> None:
        self._read, self._encoding, self._is_ours = read, encoding, is_ours
        self._before: dict[str, str | None] = {}
        self._after: dict[str, str | None] = {}

    async def add(self, edit: object) -> None:
        """Make a WorkspaceEdit; raises LanguageEditError."""
        try:
            given = members(edit)
            changes = documents_in(given.get("documentChanges"))
            if changes:
                for change in changes:
                    await self._change(change)
            else:
                for uri, edits in members(given.get("changes")).items():
                    await self._edit(uri, documents(edits))
        except (TypeError, ValueError, KeyError) as exc:
            raise LanguageEditError(f"the server's edit cannot be read: {exc}") from exc

    @property
    def changes(self) -> list[LanguageChange]:
        """Each file that is another one now."""
        found = (LanguageChange(path, self._before[path], after) for path, after in self._after.items())
        return [change for change in found if change.before != change.after]

    async def _change(self, change: Document) -> None:
        match change.get("kind"):
            case None:
                await self._edit(string(document(change["textDocument"])["uri"]), documents(change["edits"]))
            case "create":
                await self._create(change)
            case "rename":
                await self._rename(change)
            case "delete":
                await self._delete(change)
            case kind:
                raise LanguageEditError(f"the server's edit has a part of an unknown kind: {str(kind)[:50]!r}")

    async def _edit(self, uri: str, edits: list[Document]) -> None:
        path = await self._loaded(uri)
        if (text := self._after[path]) is None:
            raise LanguageEditError(f"the server wants to edit {path}, which is not there")
        self._put(path, edited(text, edits, self._encoding))

    async def _create(self, change: Document) -> None:
        path, options = await self._loaded(string(change["uri"])), members(change.get("options"))
        if self._after[path] is not None:
            if options.get("ignoreIfExists") is True and options.get("overwrite") is not True:
                return
            raise LanguageEditError(f"the server wants to make {path}, which is there")
        self._put(path, "")

    async def _rename(self, change: Document) -> None:
        old, new = await self._loaded(string(change["oldUri"])), await self._loaded(string(change["newUri"]))
        if (text := self._after[old]) is None:
            raise LanguageEditError(f"the server wants to rename {old}, which is not a text file that is there")
        if self._after[new] is not None:
            raise LanguageEditError(f"the server wants to rename {old} to {new}, which is there")
        self._put(new, text)
        self._after[old] = None

    async def _delete(self, change: Document) -> None:
        path = await self._loaded(string(change["uri"]))
        if self._after[path] is None:
            raise LanguageEditError(f"the server wants to remove {path}, which is not a text file that is there")
        self._after[path] = None

    async def _loaded(self, uri: str) -> str:
        path = path_of(uri)
        if path is None:
            raise LanguageEditError(f"the server wants to edit {uri[:200]}, which is no file")
        path = os.path.normpath(path)
        if not self._is_ours(path):
            raise LanguageEditError(f"the server wants to edit {path}, which lies outside the workspace")
        if path not in self._after:
            if len(self._after) >= MAX_FILES:
                raise LanguageEditError(f"the server wants to edit more than {MAX_FILES} files at once")
            text = await self._read(path)
            self._before[path] = text
            self._put(path, text)
        return path

    def _put(self, path: str, text: str | None) -> None:
        self._after[path] = text
        if sum(len(known or "") for known in self._after.values()) > MAX_TEXT:
            raise LanguageEditError(f"the server's edit takes more than {MAX_TEXT:,} characters")
