"""Language servers as tools and as checks after an edit; each starts once the user has allowed it."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from ...agent.runs import ToolRun
from ...agent.turn import Turn
from ...errors import RpcError
from ...host.operations import FileRead
from ...host.permissions.hard_links import HardLinks
from ...lsp import (
    REQUESTS,
    LanguageAnswer,
    LanguageEditError,
    LanguageFile,
    LanguageRequest,
    LanguageServer,
    LanguageServerError,
    LanguageTableError,
    Reader,
    diagnostic_lines,
    diagnostics_of,
)
from ..context.history import Part
from ..files.project_files import FileVersions, UnreadableFile
from ..files.reviewing import findings_in
from ..model.port import ToolSpec
from ..permissions import Denied, Rejected
from ..toolbox import ForeignTool
from ..workplace import Workplace
from .tool import Failed, Tool, Work, said, spec_named

if TYPE_CHECKING:
    from ..conversation import Conversation

log = logging.getLogger("dragoman")

MOST = 20  # diagnostics that the model gets after an edit
MOST_FILES = 20  # files checked after an edit
WARNING = 2  # the least severity that is reported unasked


class LanguageCall(Tool):
    """A request to a language server, or a change that it makes."""

    name: ClassVar[str] = "language"

    request: LanguageRequest

    def title(self, place: Workplace) -> str:
        words = [str(getattr(self.request, name, "")) for name in ("symbol", "query", "apply")]
        about = " ".join(word for word in words if word)
        path = place.shown(place.session.path(self.request.path))
        return f"{self.request.name.replace('_', ' ').capitalize()}{f' of {about}' if about else ''} in {path}"

    async def run(self, work: Work) -> Sequence[Part]:
        """Send the request; a change of files is made as a whole, once it is permitted."""
        place, path = work.place, work.place.session.path(self.request.path)
        await place.permissions.admit(work.turn, work.call, FileRead(path=path))
        server = await allowed_server(work.turn, place, path)
        if server is None:
            raise Failed(f"No language server for {place.shown(path)} is installed.")
        text = await place.text(work.turn, path)
        if text is None:
            raise Failed(f"There is no file {place.shown(path)}.")
        file = LanguageFile(server, path, text, _reader(work.turn, place), place.languages.is_ours)
        try:
            answer = await self.request.ask(file)
            await self._apply(work, server, answer)
        except (LanguageServerError, LanguageEditError) as exc:
            raise Failed(f"{exc}. Nothing was changed.") from exc
        return said(place, answer.text, work.call.id)

    async def _apply(self, work: Work, server: LanguageServer, answer: LanguageAnswer) -> None:
        if answer.changes:
            changes = [FileVersions(change.path, change.before, change.after) for change in answer.changes]
            await work.place.write_together(work.turn, work.call, changes)


def language_tools() -> list[ForeignTool]:
    """The tools offered to the model if a language server is installed."""
    return [ForeignTool(_spec(kind), _maker(kind)) for kind in REQUESTS]


def _spec(kind: type[LanguageRequest]) -> ToolSpec:
    return spec_named(_name(kind), kind)


def _name(kind: type[LanguageRequest]) -> str:
    return f"lsp_{kind.name}"


def _maker(kind: type[LanguageRequest]) -> Callable[[Mapping[str, object]], Tool]:
    def made(arguments: Mapping[str, object]) -> Tool:
        try:
            return LanguageCall(msgspec.convert(arguments, kind, strict=False))
        except msgspec.ValidationError as exc:
            raise Failed(f"The arguments do not fit {_name(kind)}: {exc}. Nothing was done.") from exc

    return made


async def allowed_server(turn: Turn, place: Workplace, path: str) -> LanguageServer | None:
    """The server for a file, which the user allowed to start; None where none is installed; raises Denied."""
    server = await place.languages.serving(path)
    if server is None or server.is_allowed:
        return server
    if server.is_allowed is False:
        raise Denied(f"The user did not allow the language server {server.name} in this session.")
    title = f"Start the language server {server.name}"
    async with place.languages.asking, turn.tool(title, kind="execute") as call:
        if server.is_allowed is None:
            await call.text("It reads the project and its settings, and some servers run code of the project.")
            await _ask(turn, call, place, server)
    return server


async def _ask(turn: Turn, call: ToolRun, place: Workplace, server: LanguageServer) -> None:
    try:
        await place.permissions.admit(turn, call, server.operation)
    except Denied as exc:
        if isinstance(exc, Rejected):
            server.is_allowed = False  # and is not asked about again
        call.fail(str(exc))
        raise
    server.is_allowed = True
    try:
        await call.start()
        await server.connection()
    except LanguageServerError as exc:
        call.fail(str(exc))


def _reader(turn: Turn, place: Workplace) -> Reader:
    hard_links = HardLinks(place.permissions.roots)

    async def read(path: str) -> str | None:
        try:
            return await place.text(turn, path) if place.permissions.may_show([path], hard_links) else None
        except (UnreadableFile, RpcError):
            return None

    return read


async def checked(turn: Turn, conversation: "Conversation", paths: Sequence[str]) -> str:
    """The findings of the checks and the language servers in changed files; "" if there are none."""
    found = [await findings_in(turn, conversation.place, paths)]
    if conversation.has_languages:
        found.append(await _diagnosed(turn, conversation.place, paths))
    return "\n".join(words for words in found if words)


async def _diagnosed(turn: Turn, place: Workplace, paths: Sequence[str]) -> str:
    """The errors and warnings of the language servers, or a line that there are none."""
    told: list[str] = []
    by_server: dict[str, tuple[LanguageServer, list[str]]] = {}
    for path in paths[-MOST_FILES:]:
        try:
            if server := await allowed_server(turn, place, path):
                by_server.setdefault(server.name, (server, []))[1].append(path)
        except (Denied, LanguageTableError) as exc:
            log.debug("no language server looked at %s: %s", path, exc)
    for server, files in by_server.values():
        try:
            told.append(await _told(turn, place, server, files))
        except LanguageServerError as exc:
            told.append(f"The language server did not look at the files: {exc}.")
    if told and len(paths) > MOST_FILES:
        told.append(f"(Language servers looked at the last {MOST_FILES} of {len(paths)} files.)")
    return "\n".join(told)


async def _told(turn: Turn, place: Workplace, server: LanguageServer, paths: Sequence[str]) -> str:
    """One server's diagnostics of files, after all of them were sent to it."""
    read = _reader(turn, place)
    await server.changed(dict.fromkeys(paths, 2))
    await server.refresh(read)
    lines: list[tuple[int, str]] = []
    silent: list[str] = []
    for path in paths:
        if (text := await read(path)) is None:
            continue
        await server.follow(path, text)
        await server.saved(path)
        found = await diagnostics_of(server, path, text)
        if found is None:
            silent.append(place.shown(path))
        else:
            lines += [line for line in diagnostic_lines(server, path, text, found) if line[0] <= WARNING]
    words = [words for _, words in sorted(lines, key=lambda line: line[0])]
    if len(words) > MOST:
        words[MOST:] = [f"({len(words) - MOST} more errors and warnings.)"]
    if silent:
        words.append(f"(It said nothing in time of: {', '.join(silent)}.)")
    if not words:
        return f"The language server {server.name} finds no errors and no warnings."
    return "\n".join([f"The language server {server.name}:", *words])
