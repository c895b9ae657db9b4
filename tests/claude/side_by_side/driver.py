"""A plain client of a bridge: requests by name, every message as it was on the wire."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.bridges.claude.program.launch import claude_program
from dragoman.framing import Oversize
from dragoman.transports.process import ProcessTransport, spawn

Message = dict[str, Any]
Choose = Callable[[Message], str | None]

PATIENCE = 120.0  # seconds for one request
CAPABILITIES: Message = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "elicitation": {"form": {}},
    "session": {"configOptions": {"boolean": {}}},
}


class Failed(Exception):
    """A request was answered with an error."""

    def __init__(self, error: Message) -> None:
        super().__init__(json.dumps(error))
        self.error = error


class Driver:
    """Drives one bridge; `told` has what it said, in order, with the answers where they came."""

    def __init__(self, wire: ProcessTransport) -> None:
        self.wire = wire
        self.told: list[Message] = []
        self.choose: Choose = lambda params: params["options"][0]["optionId"]
        self.waits: dict[int, tuple[str, asyncio.Future[Message]]] = {}
        self._news = asyncio.Event()
        self._over = False
        self._ids = 0
        wire.listen(self._hear, self._end)

    async def request(self, method: str, **params: Any) -> Message:
        """Make a request; raises Failed if it is refused."""
        self._ids += 1
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.waits[self._ids] = method, answer
        self.wire.send([_line({"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params})])
        async with asyncio.timeout(PATIENCE):
            given = await answer
        if "error" in given:
            raise Failed(given["error"])
        return dict(given["result"] or {})

    def note(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.wire.send([_line({"jsonrpc": "2.0", "method": method, "params": params})])

    async def until(self, is_it: Callable[[Message], bool]) -> Message:
        """The first message that was told, or will be, of which this is true."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self._news.clear()
                if found := next((message for message in self.told if is_it(message)), None):
                    return found
                if self._over:
                    raise EOFError(f"the bridge has ended: {self.wire.stderr}")
                await self._news.wait()

    def _hear(self, lines: list[bytes | Oversize]) -> None:
        for line in lines:
            assert isinstance(line, bytes)
            message = json.loads(line)
            if "method" in message:
                self._take(message)
            elif waiting := self.waits.pop(message["id"], None):
                method, answer = waiting
                told = {"error": message["error"]["code"]} if "error" in message else {"result": message["result"]}
                self.told.append({"answer": method, **told})
                answer.set_result(message)
        self._news.set()

    def _take(self, message: Message) -> None:
        self.told.append({name: message[name] for name in ("method", "params")})
        if "id" not in message:
            return
        if message["method"] == "session/request_permission":
            chosen = self.choose(message["params"])
            outcome = {"outcome": "selected", "optionId": chosen} if chosen else {"outcome": "cancelled"}
            answer: Message = {"result": {"outcome": outcome}}
        else:
            answer = {"error": {"code": -32601, "message": "this client has no such method"}}
        self.wire.send([_line({"jsonrpc": "2.0", "id": message["id"], **answer})])

    def _end(self) -> None:
        self._over = True
        for _, answer in self.waits.values():
            answer.set_exception(EOFError("the bridge has ended"))
        self._news.set()


def _line(message: Message) -> bytes:
    return json.dumps(message).encode()


@asynccontextmanager
async def driving(argv: Sequence[str], home: Path, url: str) -> AsyncIterator[Driver]:
    """A bridge that has said hello, with a home of its own and this model."""
    wire = await spawn(argv, cwd=str(home), env=environment(home, url))
    driver = Driver(wire)
    try:
        info = {"name": "side-by-side", "version": "1"}
        await driver.request("initialize", protocolVersion=1, clientCapabilities=CAPABILITIES, clientInfo=info)
        yield driver
    finally:
        await wire.close()


def environment(home: Path, url: str) -> Mapping[str, str]:
    """What both bridges are started with: the same program, the same model, nothing of the user's."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "CLAUDE_CODE_EXECUTABLE": claude_program(),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-for-tests",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "IS_SANDBOX": "1",
        "TMPDIR": str(home),
        "CLAUDE_CODE_TMPDIR": str(home),
    }
