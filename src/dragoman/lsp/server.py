"""One language server of a session: started once it was allowed, started again so often when it dies."""

import asyncio
import contextlib
import json
import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping

from .. import __version__
from ..foundation.documents import Document, Json, documents_in, elements, members
from ..foundation.owning import finish
from ..host.operations import Execute
from ..host.terminals.children import Keeper
from .connection import LanguageConnection
from .edits import Reader
from .positions import ENCODINGS, is_range, path_of, uri_of
from .process import LanguageProcess, LanguageServerError
from .table import InstalledServer

START = 60.0  # seconds for the answer to `initialize`
RESTARTS = 3  # in
WITHIN = 300.0  # seconds; then the server is left alone
MAX_WORK = 100  # pieces of work that a server reports at once
MAX_OPEN = 50  # files a server holds at once
MAX_SETTINGS = 1000  # that a server asks for at once
MAX_DIAGNOSTICS = 500  # of a file
MAX_DIAGNOSTICS_BYTES = 256 * 1024  # of a file, as JSON

_SYMBOLS: Document = {"hierarchicalDocumentSymbolSupport": True}
_ACTIONS: Document = {
    "codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "refactor", "source"]}},
    "dataSupport": True,
    "resolveSupport": {"properties": ["edit"]},
}
CAPABILITIES: Document = {
    "general": {"positionEncodings": list(ENCODINGS)},
    "workspace": {
        "applyEdit": True,
        "workspaceEdit": {"documentChanges": True, "resourceOperations": ["create", "rename", "delete"]},
        "configuration": True,
        "workspaceFolders": True,
        "symbol": {},
        "executeCommand": {},
    },
    "textDocument": {
        "synchronization": {"didSave": True},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {},
        "definition": {"linkSupport": True},
        "references": {},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "documentSymbol": _SYMBOLS,
        "rename": {"prepareSupport": False},
        "codeAction": _ACTIONS,
        "formatting": {},
    },
    "window": {"workDoneProgress": True},
}


class OpenText:
    """A file as a server was last told of it, and the diagnostics that it gave since."""

    def __init__(self, text: str) -> None:
        self.text, self.version = text, 1
        self.published = 0  # how often diagnostics came since the text was told
        self.news = asyncio.Event()


class LanguageServer:
    """`is_allowed` is set by whoever asked the user: None is not asked yet, and nothing starts before a yes."""

    def __init__(self, installed: InstalledServer, workspace: str, keeper: Keeper) -> None:
        self.installed, self.name, self.spec = installed, installed.name, installed.spec
        self.workspace = workspace
        self.is_allowed: bool | None = None
        self.open: OrderedDict[str, OpenText] = OrderedDict()
        self.diagnostics: dict[str, list[Document]] = {}  # of open files
        self.offers: Document = {}
        self.encoding = ENCODINGS[0]
        self.apply: Callable[[Json], bool] | None = None  # takes edits that the server asks for during a command
        self.is_warm = False  # it has read the project, as far as can be told
        self._work: set[str] = set()  # what it says it is busy with
        self._idle = asyncio.Event()
        self._keeper = keeper
        self._connection: LanguageConnection | None = None
        self._starting = asyncio.Lock()
        self._starts: deque[float] = deque(maxlen=RESTARTS + 1)

    @property
    def operation(self) -> Execute:
        """What starting it does, for whoever decides."""
        return Execute(argv=self.installed.argv, cwd=self.workspace)

    @property
    def pid(self) -> int:
        """Its process; 0 while it does not run."""
        return self._connection.pid if self._connection and not self._connection.is_lost else 0

    async def connection(self) -> LanguageConnection:
        """The connection, made when there is none; raises LanguageServerError."""
        async with self._starting:
            if self.is_allowed is not True:
                raise LanguageServerError(f"the language server {self.name} was not allowed to start")
            if self._connection and not self._connection.is_lost:
                return self._connection
            lost, self._connection = self._connection, None
            if lost:
                await finish(lost.close())
            return await self._start(lost)

    async def _start(self, lost: LanguageConnection | None) -> LanguageConnection:
        now = time.monotonic()
        if len(self._starts) > RESTARTS and now - self._starts[0] < WITHIN:
            why = f"; {lost.failure()}" if lost else ""
            raise LanguageServerError(
                f"the language server {self.name} ended {RESTARTS + 1} times within {WITHIN:.0f} s and is not "
                f"started again{why}"
            )
        self._starts.append(now)
        self.open.clear()
        self.diagnostics.clear()
        self.is_warm = False
        self._work.clear()
        self._idle.set()
        process = await LanguageProcess.start(self._keeper, self.installed.argv, self.workspace)
        connection = self._connection = LanguageConnection(self.name, process, self._heard, self._asked)
        try:
            answer = members(await connection.request("initialize", self._introduction(), START))
            self.offers = members(answer.get("capabilities"))
            encoding = self.offers.get("positionEncoding")
            self.encoding = encoding if isinstance(encoding, str) and encoding in ENCODINGS else ENCODINGS[0]
            connection.notify("initialized", {})
            if self.spec.settings:
                connection.notify("workspace/didChangeConfiguration", {"settings": self.spec.settings})
        except BaseException:
            await finish(connection.close())
            raise
        return connection

    def _introduction(self) -> Document:
        folder: Document = {"uri": uri_of(self.workspace), "name": os.path.basename(self.workspace)}
        return {
            "processId": os.getpid(),
            "clientInfo": {"name": "dragoman", "version": __version__},
            "rootPath": self.workspace,
            "rootUri": folder["uri"],
            "workspaceFolders": [folder],
            "initializationOptions": self.installed.options,
            "capabilities": CAPABILITIES,
        }

    async def close(self) -> None:
        """End the server; nothing of it is left."""
        self.is_allowed = False
        if self._connection:
            await self._connection.close()

    def can(self, capability: str) -> bool:
        """Whether the server says that it answers a kind of request."""
        return self.offers.get(capability) not in (None, False)

    # Documents

    async def follow(self, path: str, text: str) -> OpenText:
        """Have the server know a file's text as it is now, unsaved changes included."""
        connection = await self.connection()
        known = self.open.get(path)
        if known is None:
            known = self.open[path] = OpenText(text)
            item: Document = {
                "uri": uri_of(path),
                "languageId": self.spec.language(path) or "plaintext",
                "version": 1,
                "text": text,
            }
            connection.notify("textDocument/didOpen", {"textDocument": item})
        elif known.text != text:
            known.text, known.version = text, known.version + 1
            known.published = 0
            named: Document = {"uri": uri_of(path), "version": known.version}
            connection.notify("textDocument/didChange", {"textDocument": named, "contentChanges": [{"text": text}]})
        self.open.move_to_end(path)
        while len(self.open) > MAX_OPEN:
            self._let_go(connection, next(iter(self.open)))
        return known

    async def saved(self, path: str) -> None:
        """Tell the server that a file which it holds was written."""
        if path in self.open:
            connection = await self.connection()
            connection.notify("textDocument/didSave", {"textDocument": {"uri": uri_of(path)}})

    async def changed(self, kinds: Mapping[str, int]) -> None:
        """Tell the server of files that were made (1), changed (2) or removed (3)."""
        connection = await self.connection()
        for path in [path for path, kind in kinds.items() if kind == 3 and path in self.open]:
            self._let_go(connection, path)
        changes: list[Json] = [{"uri": uri_of(path), "type": kind} for path, kind in kinds.items()]
        connection.notify("workspace/didChangeWatchedFiles", {"changes": changes})

    def _let_go(self, connection: LanguageConnection, path: str) -> None:
        del self.open[path]
        self.diagnostics.pop(path, None)
        connection.notify("textDocument/didClose", {"textDocument": {"uri": uri_of(path)}})

    async def refresh(self, read: Reader) -> None:
        """Have the server know all files that it holds as they are now."""
        for path in list(self.open):
            text = await read(path)
            if text is not None:
                await self.follow(path, text)
            elif path in self.open:
                await self.changed({path: 3})

    # What the server says and asks

    async def idle(self, patience: float) -> None:
        """Wait until the server reports no more work, reading the project for example, or is out of patience."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._idle.wait()

    def _heard(self, method: str, params: Document) -> None:
        if method == "$/progress":
            self._note_work(str(params.get("token"))[:100], members(params.get("value")).get("kind"))
        if method == "textDocument/publishDiagnostics" and (path := path_of(str(params.get("uri")))):
            known, version = self.open.get(path), params.get("version")
            if known is None or (isinstance(version, int) and version < known.version):
                return  # of a file that nobody asked about, or of a text that is no more
            self.keep(path, documents_in(params.get("diagnostics")))
            known.published += 1
            known.news.set()

    def _note_work(self, token: str, kind: Json) -> None:
        if kind == "begin" and len(self._work) < MAX_WORK:
            self._work.add(token)
            self._idle.clear()
        elif kind == "end":
            self._work.discard(token)
            if not self._work:
                self._idle.set()

    def keep(self, path: str, diagnostics: list[Document]) -> None:
        """Keep a file's diagnostics, as many as there is room for, without those that are nowhere in it."""
        kept: list[Document] = []
        room = MAX_DIAGNOSTICS_BYTES
        for diagnostic in [each for each in diagnostics if is_range(each.get("range"))][:MAX_DIAGNOSTICS]:
            room -= len(json.dumps(diagnostic))
            if room < 0:
                break
            kept.append(diagnostic)
        self.diagnostics[path] = kept

    def _asked(self, method: str, params: Document) -> Json:
        match method:
            case "workspace/configuration":
                return [self._setting(item) for item in elements(params.get("items"))[:MAX_SETTINGS]]
            case "workspace/workspaceFolders":
                return [{"uri": uri_of(self.workspace), "name": os.path.basename(self.workspace)}]
            case "workspace/applyEdit":
                return {"applied": self.apply is not None and self.apply(params.get("edit"))}
            case _:  # registrations, progress, refreshes and messages with buttons, of which none is pressed
                return None

    def _setting(self, item: Json) -> Json:
        found: Json = self.spec.settings
        section = members(item).get("section")
        for word in section.split(".") if isinstance(section, str) and section else ():
            found = members(found).get(word)
        return found
