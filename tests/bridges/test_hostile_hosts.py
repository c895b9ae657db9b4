"""MCP hosts that answer wrongly, send what nobody can read, or go: `dragoman mcp` permits nothing and goes on."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

pytestmark = pytest.mark.usefixtures("nothing_left")


class RawHost:
    """A host of the older MCP: lines in, lines out."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last = 0
        self.answer: Any = None  # to whatever it is asked

    def send(self, message: Any) -> None:
        """Send a message, or a line as it is."""
        assert self._process.stdin
        line = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(line + b"\n")

    async def ask(self, method: str, params: Any) -> dict[str, Any]:
        """The whole answer to a request; questions meanwhile are answered as is set."""
        assert self._process.stdout
        self._last += 1
        self.send({"id": self._last, "method": method, "params": params})
        while True:
            message: dict[str, Any] = json.loads(await self._process.stdout.readline())
            if "method" in message and "id" in message:
                self.send({"id": message["id"], **self.answer})
            elif message.get("id") == self._last and "method" not in message:
                return message

    async def prompt(self, text: str) -> str:
        """The words of a turn's result, or of why there is none."""
        answer = await self.ask("tools/call", {"name": "prompt", "arguments": {"text": text}})
        return str(answer["result"]["content"][0]["text"])


@asynccontextmanager
async def driving(directory: Path, agent: str = "testy") -> AsyncIterator[RawHost]:
    homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    words = ["-I", "-m", "dragoman", "mcp", "--agent", agent, "--workspace", str(directory)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env={**os.environ, **homes}, stdin=PIPE, stdout=PIPE, limit=8_000_000
    )
    host = RawHost(process)
    try:
        async with asyncio.timeout(PATIENCE):
            info = {"name": "raw", "version": "1"}
            hello = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": info}
            assert "serverInfo" in (await host.ask("initialize", hello))["result"]
            host.send({"method": "notifications/initialized"})
            yield host
            host.send(b'{"jsonrpc": "2.0", "id": 99, "method": "tools/')  # and it goes, in the middle of a message
            assert process.stdin
            process.stdin.close()
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 0


async def test_an_answer_that_is_no_clear_choice_permits_nothing(tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = [
        {"result": {"action": 7}},
        {"result": "allow_once"},
        {"result": {"action": "accept"}},
        {"result": {"action": "accept", "content": {"decision": "allow_everything"}}},
        {"result": {"action": "accept", "content": {"decision": ["allow_once"]}}},
        {"result": {"action": "decline", "content": {"decision": "allow_once"}}},
        {"error": {"code": -32603, "message": "no"}},
    ]
    file = tmp_path / "new.txt"
    async with driving(tmp_path) as host:
        for host.answer in answers:
            assert "not permitted" in await host.prompt(f"write {file} words"), host.answer
            assert not file.exists()
        host.answer = {"result": {"action": "accept", "content": {"decision": "allow_once"}}}
        await host.prompt(f"write {file} words")
        assert file.read_text() == "words"


async def test_messages_that_nobody_can_read_cost_no_turn(tmp_path: Path) -> None:
    async with driving(tmp_path) as host:
        for line in (
            *(b"", b"hello", b"[]", b"null", b"\xff\xfe", b'{"jsonrpc": "2.0"}', b'{"id": 1, "result": {}}'),
            b'{"jsonrpc": "2.0", "id": "unknown", "result": {"action": "accept"}}',
            b'{"jsonrpc": "2.0", "id": {}, "method": "tools/list"}',
            b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "unknown"}}',
            b'{"jsonrpc": "2.0", "method": "no/such", "params": 5}',
            b"[" * 100_000,
        ):
            host.send(line)
        assert await host.prompt("echo Hello") == "Hello"
        for params in ({"name": 5}, {"name": "prompt"}, {"name": "prompt", "arguments": [1]}):
            answer = await host.ask("tools/call", params)
            assert answer.get("error", answer.get("result", {}).get("isError"))
        assert await host.prompt("echo again") == "again"


async def test_what_an_agent_says_without_measure_is_cut(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(
        "from dragoman import Agent, serve\n\n"
        "class Talker(Agent):\n"
        "    async def answer(self, turn):\n"
        "        for _ in range(30):\n"
        "            await turn.say('w' * 100_000)\n\n"
        "serve(Talker)\n"
    )
    async with driving(tmp_path, f"{sys.executable} {script}") as host:
        said = await host.prompt("go")
    assert said.endswith("… (3,000,000 characters)") and len(said) < 1_100_000


async def test_a_host_that_reads_no_more_ends_the_server_without_a_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = ["-I", "-m", "dragoman", "mcp", "--agent", "testy", "--workspace", str(tmp_path)]
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=PIPE, stdout=writing, stderr=PIPE)
    os.close(writing)
    info = {"name": "raw", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    async with asyncio.timeout(PATIENCE):
        _, complaints = await process.communicate(hello + b"\n")
    assert process.returncode == 0 and b"Traceback" not in complaints
