"""The reviewer's findings as diagnostics: of a file as it is in the editor, soon after it changed."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from ...foundation.owning import own
from ...reviewer.analysers import analysers_for
from ...reviewer.findings import Finding, Source, under_review
from ...reviewer.linters.commands import CommandError, Commands
from ...reviewer.project import unseen

PAUSE = 0.8  # seconds without a change before a file is looked at
PATIENCE = 60.0  # seconds for all checks of a file
MOST = 200  # diagnostics of a file
MAX_TEXT = 1024 * 1024  # characters of a file that is looked at by itself
SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "note": types.DiagnosticSeverity.Information,
}

log = logging.getLogger("dragoman")


class LiveReview:
    """Looks at open files; a newer text of a file ends the look at the older one."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._commands = Commands()
        self._looks: dict[str, asyncio.Task[int]] = {}  # the latest at each file
        self._running: set[asyncio.Task[int]] = set()  # with those that were replaced and are ending

    async def close(self) -> None:
        """End all looks, and the programs that they run."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._commands.close()

    async def look(self, uri: str) -> int | None:
        """How much is found in a file now; if it is changed meanwhile, in its newer text; None if it is closed."""
        task: asyncio.Task[int] | None = self.begin(uri)
        while task:
            await asyncio.wait([task])
            if not task.cancelled():
                return task.result()
            task = self._looks.get(uri)
        return None

    def begin(self, uri: str, pause: float = 0.0) -> "asyncio.Task[int]":
        """Look at a file after a pause; the result is how much was found."""
        self.forget(uri)
        task = self._looks[uri] = own(self._look(uri, pause), "live review")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    def forget(self, uri: str) -> None:
        """A file is closed, or looked at anew."""
        if task := self._looks.pop(uri, None):
            task.cancel()

    async def _look(self, uri: str, pause: float) -> int:
        await asyncio.sleep(pause)
        document = self._server.workspace.text_documents.get(uri)
        if document is None or len(text := document.source) > MAX_TEXT:
            return 0
        version, root = document.version, self._server.workspace.root_path or os.path.dirname(document.path)
        source = Source(os.path.relpath(document.path, root), text, is_saved=_is_saved(document.path, text))
        found = await self._found(source, root)
        lines = text.split("\n")
        units = document.position_codec.client_num_units
        diagnostics = [_diagnostic(finding, lines, units) for finding in found[:MOST]]
        texts = self._server.client_capabilities.text_document
        published = texts.publish_diagnostics if texts else None
        told = version if published and published.version_support else None
        params = types.PublishDiagnosticsParams(uri=uri, version=told, diagnostics=diagnostics)
        self._server.text_document_publish_diagnostics(params)
        return len(diagnostics)

    async def _found(self, source: Source, root: str) -> list[Finding]:
        """What the checks find; those that run code of the project are left out."""
        found: list[Finding] = []
        try:
            async with asyncio.timeout(PATIENCE):
                for analyser in analysers_for([source], root, self._commands):
                    if analyser.tool is None or not analyser.tool.linter.runs_project_code:
                        with contextlib.suppress(CommandError):
                            found += await analyser.look(unseen)
        except TimeoutError:
            log.warning("the checks of %s took longer than %.0f s", source.path, PATIENCE)
        return under_review(found, [source])


def _is_saved(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read(len(text) + 1) == text
    except (OSError, UnicodeDecodeError):
        return False


def _diagnostic(finding: Finding, lines: list[str], units: Callable[[str], int]) -> types.Diagnostic:
    number = min(max(finding.line, 1), len(lines)) - 1
    words = lines[number].rstrip("\r")
    begin = len(words) - len(words.lstrip())
    end = units(words)
    advice = f"\n{finding.advice}" if finding.advice else ""
    return types.Diagnostic(
        range=types.Range(types.Position(number, begin), types.Position(number, max(end, begin))),
        severity=SEVERITY[finding.severity],
        code=finding.code,
        source="dragoman",
        message=f"{finding.message}{advice}",
    )
