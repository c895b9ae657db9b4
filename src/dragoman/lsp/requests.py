"""What an agent can ask of a language server: each is a tool whose fields are its arguments.

A model counts no columns, so a place is a line and the text of a symbol on it.
"""

import logging
import re
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from ..foundation.documents import Document, Json, documents_in, members
from .connection import UNREADABLE
from .diagnosing import PATIENCE, diagnostics_of
from .edits import LanguageChange, LanguageEditError, Reader, WorkspaceEdits
from .positions import CountedLines, uri_of
from .process import LanguageServerError
from .server import LanguageServer
from .shown import diagnostic_lines, hover_text, listed, one_line, place_lines, symbol_lines

log = logging.getLogger("dragoman")

Path = Annotated[str, Meta(description="The file, absolute or relative to the working directory.")]
Line = Annotated[int, Meta(ge=1, description="The line the symbol is on, counted from 1.")]
Symbol = Annotated[str, Meta(min_length=1, description="The symbol, as it is written on that line.")]


class LanguageAnswer(Struct, frozen=True):
    """What an agent is told, and the changes that are to be made with permission."""

    text: str
    changes: Sequence[LanguageChange] = ()


class LanguageFile(Struct, frozen=True):
    """A file that is asked about: its server, which was allowed, and its text as the user has it."""

    server: LanguageServer
    path: str
    text: str
    read: Reader
    is_ours: Callable[[str], bool]

    async def follow(self) -> None:
        """Have the server know this file, and every other one that it holds, as the user has them."""
        await self.server.refresh(self.read)
        await self.server.follow(self.path, self.text)

    async def warm(self) -> None:
        """Wait until the server has read the project: before that it knows the uses in a few files only."""
        await self.follow()
        if not self.server.is_warm:
            await diagnostics_of(self.server, self.path, self.text)
            await self.server.idle(PATIENCE)
            self.server.is_warm = True

    async def request(self, capability: str, method: str, params: Document) -> Json:
        """Ask the server about the file; raises LanguageServerError, also where the server cannot do it."""
        await self.follow()
        if not self.server.can(capability):
            raise LanguageServerError(f"the language server {self.server.name} cannot do this ({method})")
        connection = await self.server.connection()
        return await connection.request(method, {"textDocument": {"uri": uri_of(self.path)}, **params})

    async def at(self, capability: str, method: str, line: int, symbol: str, **more: Json) -> Json:
        """Ask the server about a symbol on a line."""
        await self.follow()  # which may start it, and then its encoding is known
        place: Document = {"position": position_of(self, line, symbol)}
        return await self.request(capability, method, {**place, **more})

    def edits(self) -> WorkspaceEdits:
        """Where an edit of the server becomes changes of files."""
        return WorkspaceEdits(self.read, self.server.encoding, self.is_ours)


def position_of(file: LanguageFile, line: int, symbol: str) -> Document:
    """Where a symbol is on a line, counted from 1; raises LanguageServerError."""
    lines = CountedLines(file.text, file.server.encoding)
    words = lines.line(line - 1)
    whole = re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", words)
    column = whole.start() if whole else words.find(symbol)
    if column < 0:
        raise LanguageServerError(f"line {line} has no {symbol!r}; it reads: {one_line(words, 200)}")
    return lines.position(line - 1, column)


class LanguageRequest(Struct):
    """Fields are arguments; subclasses say the rest."""

    name: ClassVar[str]
    changes: ClassVar[bool] = False  # whether it may change files

    path: Path

    async def ask(self, file: LanguageFile) -> LanguageAnswer:
        """Ask the server; raises LanguageServerError and LanguageEditError."""
        try:
            return await self.answer(file)
        except UNREADABLE as exc:
            log.debug("%s answered %s in an unknown shape", file.server.name, self.name, exc_info=True)
            raise LanguageServerError(
                f"the answer of {file.server.name} to {self.name} cannot be read: {one_line(exc)}"
            ) from exc

    async def answer(self, file: LanguageFile) -> LanguageAnswer:
        """Ask the server; raises any error of reading where its answer has another shape than LSP says."""
        raise NotImplementedError


class Diagnostics(LanguageRequest):
    """List the errors and warnings that the language server finds in a file as it is now."""

    name = "diagnostics"

    async def answer(self, file: LanguageFile) -> LanguageAnswer:
        """Every diagnostic, the worst first."""
        found = await diagnostics_of(file.server, file.path, file.text)
        if found is None:
            raise LanguageServerError(f"{file.server.name} gave no diagnostics within {PATIENCE:.0f} s")
        lines = [words for _, words in diagnostic_lines(file.server, file.path, file.text, found)]
        return LanguageAnswer(listed(lines, "errors or warnings"))


class Definition(LanguageRequest):
    """Find where a symbol is defined."""

    name = "definition"

    line: Line
    symbol: Symbol

    async def answer(self, file: LanguageFile) -> LanguageAnswer:
        """The places, with their lines."""
        answer = await file.at("definitionProvider", "textDocument/definition", self.line, self.symbol)
        return LanguageAnswer(listed(await place_lines(file.server, answer, file.read), "definition was found"))


class References(LanguageRequest):
    """Find all uses of a symbol in the project, its definition included."""

    name = "references"

    line: Line
    symbol: Symbol

    async def answer(self, file: LanguageFile) -> LanguageAnswer:
        """The places, with their lines."""
        await file.warm()
        context: Document = {"includeDeclaration": True}
        answer = await file.at(
            "referencesProvider", "textDocument/references", self.line, self.symbol, context=context
        )
        return LanguageAnswer(listed(await place_lines(file.server, answer, file.read), "references were found"))


class Hover(LanguageRequest):
    """Get the type and the documentation of a symbol."""

    name = "hover"

    line: Line
    symbol: Symbol

    async def answer(self, file: LanguageFile) -> LanguageAnswer:
        """What the server knows of it."""
        answer = await file.at("hoverProvider", "textDocument/hover", self.line, self.symbol)
        return LanguageAnswer(hover_text(answer) or "Nothing is known of it.")


class Symbols(LanguageRequest):
    """List the classes, functions and other symbols of a file; with a query, find such symbols in the project."""

    name = "symbols"

    query: Annotated[str, Meta(description="A name to find in the project; the file says in which language.")] = ""

    async def answer(self, file: LanguageFile) -> LanguageAnswer:
        """The symbols with their kinds and places."""
        if self.query:
            await file.warm()
            if not file.server.can("workspaceSymbolProvider"):
                raise LanguageServerError(f"the language server {file.server.name} cannot search the project")
            connection = await file.server.connection()
            answer = await connection.request("workspace/symbol", {"query": self.query})
        else:
            answer = await file.request("documentSymbolProvider", "textDocument/documentSymbol", {})
        return LanguageAnswer(listed(list(symbol_lines(documents_in(answer), file.server.workspace)), "symbols"))


class Rename(LanguageRequest):
    """Rename a symbol everywhere in the project, in one change of all files."""

    name = "rename"
    changes = True

    line: Line
    symbol: Symbol
    new_name: Annotated[str, Meta(min_length=1, max_length=500, description="The new name.")]

    async def answer(self, file: LanguageFile) -> LanguageAnswer:
        """The change of all files."""
        await file.warm()
        answer = await file.at(
            "renameProvider", "textDocument/rename", self.line, self.symbol, newName=self.new_name
        )
        edits = file.edits()
        await edits.add(answer)
        if not edits.changes:
            raise LanguageEditError(f"{file.server.name} found nothing to rename")
        told = f"Renamed {self.symbol} to {self.new_name}; files changed: {len(edits.changes)}."
        return LanguageAnswer(told, edits.changes)


class Format(LanguageRequest):
    """Format a file by the language server's rules."""

    name = "format"
    changes = True

    async def answer(self, file: LanguageFile) -> LanguageAnswer:
        """The change of the file."""
        tab = "\t" if re.search(r"^\t", file.text, re.M) else " "
        options: Document = {"tabSize": 4 if file.path.endswith((".py", ".pyi")) else 2, "insertSpaces": tab == " "}
        answer = await file.request("documentFormattingProvider", "textDocument/formatting", {"options": options})
        edits = file.edits()
        await edits.add({"changes": {uri_of(file.path): answer or []}})
        return LanguageAnswer("Formatted." if edits.changes else "It is formatted already.", edits.changes)


class CodeActions(LanguageRequest):
    """List what the language server can do about a line, such as quick fixes and imports; with `apply`, do one."""

    name = "code_actions"
    changes = True

    line: Annotated[int, Meta(ge=1, description="The line, counted from 1.")]
    apply: Annotated[str, Meta(description="The title of the action to do, as it was listed.")] = ""

    async def answer(self, file: LanguageFile) -> LanguageAnswer:
        """The titles, or the change that one of them makes."""
        actions = await self._found(file)
        titles = [one_line(action.get("title"), 200) for action in actions]
        if not self.apply:
            return LanguageAnswer(listed(titles, "actions for this line"))
        if self.apply not in titles:
            raise LanguageServerError(
                f"there is no action {self.apply!r} for line {self.line}: {'; '.join(titles)}"
            )
        edits = file.edits()
        await self._done(file, actions[titles.index(self.apply)], edits)
        return LanguageAnswer(f"Done: {self.apply}.", edits.changes)

    async def _found(self, file: LanguageFile) -> list[Document]:
        found = await diagnostics_of(file.server, file.path, file.text) or []
        number = self.line - 1
        there = [item for item in found if _touches(item, number)]
        line = CountedLines(file.text, file.server.encoding)
        end = line.position(number, len(line.line(number)))
        params: Document = {
            "range": {"start": {"line": number, "character": 0}, "end": end},
            "context": {"diagnostics": there, "triggerKind": 1},
        }
        answer = await file.request("codeActionProvider", "textDocument/codeAction", params)
        return [action for action in documents_in(answer) if not action.get("disabled")]

    async def _done(self, file: LanguageFile, action: Document, edits: WorkspaceEdits) -> None:
        connection = await file.server.connection()
        provider = members(file.server.offers.get("codeActionProvider"))
        if "edit" not in action and "command" not in action and provider.get("resolveProvider"):
            action = members(await connection.request("codeAction/resolve", action))
        await edits.add(action.get("edit"))
        command = action.get("command")
        if isinstance(command, str):
            command = action  # an older form: the action is the command
        if command:
            await self._ordered(file, members(command), edits)

    async def _ordered(self, file: LanguageFile, command: Document, edits: WorkspaceEdits) -> None:
        """Have the server run one of its commands, and take the edits that it asks for meanwhile."""
        asked: list[Json] = []

        def take(edit: Json) -> bool:
            asked.append(edit)
            return len(asked) <= 20

        connection = await file.server.connection()
        if file.server.apply is not None:
            raise LanguageServerError(f"{file.server.name} runs another command just now; try again")
        file.server.apply = take
        try:
            params: Document = {"command": command.get("command"), "arguments": command.get("arguments") or []}
            await connection.request("workspace/executeCommand", params)
        finally:
            file.server.apply = None
        for edit in asked[:20]:
            await edits.add(edit)


def _touches(diagnostic: Document, line: int) -> bool:
    range = members(diagnostic.get("range"))
    start, end = (members(range.get(name)).get("line") for name in ("start", "end"))
    return isinstance(start, int) and isinstance(end, int) and start <= line <= end


REQUESTS: tuple[type[LanguageRequest], ...] = (
    *(Diagnostics, Definition, References, Hover, Symbols),
    *(Rename, CodeActions, Format),
)
