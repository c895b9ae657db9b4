"""The diagnostics of a file: asked for where the server can be asked, waited for where it cannot."""

import asyncio
import contextlib

from ..foundation.documents import Document, Json, documents_in, members
from .connection import LanguageServerRefusal
from .positions import uri_of
from .server import LanguageServer, OpenText

PATIENCE = 30.0  # seconds a server has for the diagnostics of a file
SETTLED = 0.6  # seconds without news, after which those that were pushed are all
_TSSERVER = {"error": 1, "warning": 2, "suggestion": 4}


async def diagnostics_of(
    server: LanguageServer, path: str, text: str, patience: float = PATIENCE
) -> list[Document] | None:
    """What a server finds in a text that a file holds; None when it did not say so in time."""
    known = await server.follow(path, text)
    try:
        if server.spec.diagnostics == "tsserver":
            return await _asked_tsserver(server, path, patience)
        if server.can("diagnosticProvider"):
            return await _pulled(server, path, patience)
    except LanguageServerRefusal:
        return None
    if not known.published:
        await server.saved(path)  # some look only at what was saved
    return await _pushed(server, known, path, patience)


async def _pulled(server: LanguageServer, path: str, patience: float) -> list[Document]:
    connection = await server.connection()
    params: Document = {"textDocument": {"uri": uri_of(path)}}
    answer = members(await connection.request("textDocument/diagnostic", params, patience))
    server.keep(path, documents_in(answer.get("items")))
    return server.diagnostics[path]


async def _asked_tsserver(server: LanguageServer, path: str, patience: float) -> list[Document]:
    """TypeScript's server tells nothing of a file that stays as good as it was, so it is asked itself."""
    found: list[Document] = []
    for kind in ("syntacticDiagnosticsSync", "semanticDiagnosticsSync"):
        arguments: list[Json] = [kind, {"file": path}]
        params: Document = {"command": "typescript.tsserverRequest", "arguments": arguments}
        connection = await server.connection()
        answer = members(await connection.request("workspace/executeCommand", params, patience))
        found += [_from_tsserver(item) for item in documents_in(answer.get("body"))]
    server.keep(path, found)
    return server.diagnostics[path]


def _from_tsserver(item: Document) -> Document:
    return {
        "range": {name: _from_place(members(item.get(name))) for name in ("start", "end")},
        "severity": _TSSERVER.get(str(item.get("category")), 3),
        "code": item.get("code"),
        "source": "typescript",
        "message": item.get("text"),
    }


def _from_place(place: Document) -> Document:
    line, offset = place.get("line"), place.get("offset")
    return {
        "line": line - 1 if isinstance(line, int) else 0,
        "character": offset - 1 if isinstance(offset, int) else 0,
    }


async def _pushed(server: LanguageServer, known: OpenText, path: str, patience: float) -> list[Document] | None:
    """Wait until the server has told of this text and then been silent for a while."""
    connection = await server.connection()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience):
            while not known.published:
                known.news.clear()
                await _news(known, 1.0)
                if connection.is_lost:
                    raise connection.failure()
            while True:
                known.news.clear()
                if not await _news(known, SETTLED):
                    break
    return server.diagnostics.get(path, []) if known.published else None


async def _news(known: OpenText, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await known.news.wait()
    except TimeoutError:
        return False
