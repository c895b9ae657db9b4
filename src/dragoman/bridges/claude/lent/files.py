"""Read, write and edit files through the client, including unsaved changes."""

import os
from collections.abc import Mapping
from pathlib import Path

from .... import schema as s
from ....agent.turn import AgentSession
from ....errors import Error
from ....foundation.documents import Json
from ..program.launch import config_directory
from ..tools.outcome import Outcome
from ..tools.shown import absolute, words
from .permissions import is_plan

MAX_LINES, MAX_BYTES = 2000, 50 * 1024  # lines of one read
MAX_OWN = 4 * 1024 * 1024  # bytes of one of Claude's own files


class ToolError(Error):
    """A tool failed; the model is told why."""


class LentFiles:
    """Reads and writes through the client; Claude's own files are accessed directly."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    async def read(self, given: Mapping[str, Json]) -> str:
        """A part of a file, with a note if there is more of it."""
        path, first = self._path(given), max(1, _number(given, "offset") or 1)
        limit = min(_number(given, "limit") or MAX_LINES, MAX_LINES)
        if _is_own(path):
            lines = _read_own(path).split("\n")[first - 1 :]
        else:
            request = s.ReadTextFileRequest(session_id=self._session.id, path=path, line=first, limit=limit + 1)
            lines = (await self._session.client.read_text_file(request)).content.split("\n")
        shown: list[str] = []
        size = 0
        for line in lines[:limit]:
            size += len(line.encode()) + 1
            if size > MAX_BYTES and shown:
                break
            shown.append(line)
        text = "\n".join(f"{number}\t{line}" for number, line in enumerate(shown, first))
        if len(shown) < len(lines) and not (len(lines) == len(shown) + 1 and not lines[-1]):
            following = first + len(shown)
            text += f"\n\n(The file continues after line {following - 1}. Read more with offset={following}.)"
        return text

    async def write(self, given: Mapping[str, Json]) -> tuple[str, Outcome]:
        """Write a whole file."""
        path, new = self._path(given), words(given, "content")
        old = await self._whole(path, missing=True)
        await self._put(path, new)
        diff = s.Diff(path=path, old_text=old, new_text=new)
        return f"The file {path} was written.", Outcome(False, [diff], [s.ToolCallLocation(path=path, line=1)])

    async def edit(self, given: Mapping[str, Json]) -> tuple[str, Outcome]:
        """Replace a text in a file; it must occur exactly once, unless all occurrences are to be replaced."""
        path, old, new = self._path(given), words(given, "old_string"), words(given, "new_string")
        text = await self._whole(path, missing=not old)
        if old == new:
            raise ToolError("old_string and new_string are the same")
        if not old:
            if text:
                raise ToolError("old_string is empty, but the file is not")
            changed, line = new, 1
        else:
            text = text or ""
            count = text.count(old)
            if not count:
                raise ToolError(f"old_string does not occur in {path}")
            if count > 1 and given.get("replace_all") is not True:
                raise ToolError(f"old_string occurs {count} times in {path}: give more of it, or set replace_all")
            changed, line = text.replace(old, new), text[: text.index(old)].count("\n") + 1
        await self._put(path, changed)
        diff = s.Diff(path=path, old_text=text, new_text=changed)
        return f"The file {path} was edited.", Outcome(False, [diff], [s.ToolCallLocation(path=path, line=line)])

    def _path(self, given: Mapping[str, Json]) -> str:
        if not (path := words(given, "file_path")):
            raise ToolError("file_path is missing")
        return absolute(path, self._session.cwd)

    async def _whole(self, path: str, *, missing: bool) -> str | None:
        """A whole file; None for a missing one, if it may be missing."""
        if _is_own(path):
            return _read_own(path) if os.path.exists(path) else None
        try:
            request = s.ReadTextFileRequest(session_id=self._session.id, path=path)
            return (await self._session.client.read_text_file(request)).content
        except Error:
            if missing:
                return None
            raise

    async def _put(self, path: str, content: str) -> None:
        if _is_own(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(content)
            return
        request = s.WriteTextFileRequest(session_id=self._session.id, path=path, content=content)
        await self._session.client.write_text_file(request)


def _is_own(path: str) -> bool:
    """Whether a file is one of Claude's own, in its directory; settings files there belong to the user."""
    home = os.path.realpath(config_directory())
    real = os.path.realpath(path)
    return is_plan(path) or (real.startswith(f"{home}/") and not os.path.basename(real).startswith("settings"))


def _read_own(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(MAX_OWN).decode(errors="replace")
    except OSError as exc:
        raise ToolError(f"cannot read {path}: {exc.strerror}") from None


def _number(given: Mapping[str, Json], name: str) -> int | None:
    value = given.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
