"""An MCP server over HTTP, in this process, that can forget its sessions."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

TOOLS = [{"name": "count", "inputSchema": {"type": "object"}}]


class Forgetful:
    """Speaks just enough HTTP; a request of a session it does not know is answered 404."""

    def __init__(self) -> None:
        self.port = 0
        self.sessions: set[str] = set()
        self.begun = 0
        self.calls = 0
        self.padding = ""  # in each answer to a call
        self.encoding = ""  # that each answer claims to have
        self._ids = itertools.count(1)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self.sessions.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            first, *lines = head.splitlines()
            headers = dict(line.split(": ", 1) for line in lines if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            status, answer, more = self._answer(first.split()[0], headers.get("mcp-session-id"), body)
            data = json.dumps(answer).encode() if answer is not None else b""
            kind = "content-type: application/json\r\n" if data else ""
            more += f"content-encoding: {self.encoding}\r\n" if self.encoding else ""
            more += f"content-length: {len(data)}\r\nconnection: close\r\n\r\n"
            writer.write(f"HTTP/1.1 {status} .\r\n{kind}{more}".encode() + data)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    def _answer(self, method: str, session: str | None, body: bytes) -> tuple[int, Any, str]:
        if method != "post":
            return 405, None, ""
        message = json.loads(body)
        if message["method"] == "server/discover":
            return 200, _error(message, -32601), ""
        if message["method"] == "initialize":
            self.begun += 1
            self.sessions.add(name := f"session-{next(self._ids)}")
            info = {"name": "forgetful", "version": "1"}
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            return 200, _result(message, result), f"mcp-session-id: {name}\r\n"
        if session not in self.sessions:
            return 404, None, ""
        if "id" not in message:
            return 202, None, ""
        if message["method"] == "tools/list":
            return 200, _result(message, {"tools": TOOLS}), ""
        self.calls += 1
        return 200, _result(message, {"content": [{"type": "text", "text": f"{self.calls}{self.padding}"}]}), ""


def _result(message: Any, result: Any) -> Any:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def _error(message: Any, code: int) -> Any:
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": "no"}}
