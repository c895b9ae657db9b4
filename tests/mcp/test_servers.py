"""MCP servers of a session over stdio, HTTP and SSE, all of them real processes."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from dragoman import schema as s
from dragoman.mcp import Failure, Server, connected, servers
from dragoman.roles import RemoteClient, Wire
from dragoman.turn import AgentSession

pytestmark = pytest.mark.usefixtures("nothing_left")

SCRIBE = str(Path(__file__).with_name("scribe.py"))
PEN = s.McpServerStdio(name="pen", command=sys.executable, args=[str(Path(__file__).with_name("pen.py"))], env=[])
STDIO = s.McpServerStdio(name="scribe", command=sys.executable, args=[SCRIBE], env=[])


def session(cwd: Path) -> AgentSession:
    """A session of a client that offers nothing and is not there."""
    return AgentSession(RemoteClient(cast("Wire", None)), "s", str(cwd))


@contextlib.asynccontextmanager
async def listening(kind: str) -> AsyncIterator[int]:
    """The scribe as a process that serves over HTTP; gives its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = await asyncio.create_subprocess_exec(
        sys.executable, SCRIBE, kind, str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert await _answers(port)
        yield port
    finally:
        process.terminate()
        await process.wait()


async def _answers(port: int) -> bool:
    """Whether a server comes to listen on a port; nothing but trying tells."""
    for _ in range(400):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            await writer.wait_closed()
            return True
        await asyncio.sleep(0.05)
    return False


@contextlib.asynccontextmanager
async def reached(config: s.McpServer, cwd: Path) -> AsyncIterator[Server]:
    async with asyncio.timeout(30):
        server = await connected(config, session(cwd))
        try:
            yield server
        finally:
            await server.close()


async def check(server: Server, cwd: Path) -> None:
    assert {tool.name: tool.reads_only for tool in server.tools} == {
        "greet": True,
        "write": False,
        "fail": False,
        "draw": False,
        "paint": False,
    }
    greet = next(tool for tool in server.tools if tool.name == "greet")
    assert greet.description == "Greet somebody."
    assert greet.parameters["properties"]["name"]["type"] == "string"
    assert [piece.text for piece in await server.call("greet", {"name": "Ada"})] == ["Hello, Ada!"]
    assert [piece.media_type for piece in await server.call("draw", {})] == ["image/png"]
    await server.call("write", {"path": str(cwd / "made")})
    assert (cwd / "made").exists()
    with pytest.raises(Failure, match="it cannot be done"):
        await server.call("fail", {})


async def test_a_server_is_started_as_a_process(tmp_path: Path) -> None:
    async with reached(STDIO, tmp_path) as server:
        await check(server, tmp_path)


async def test_a_server_is_reached_over_http(tmp_path: Path) -> None:
    async with listening("streamable-http") as port:
        config = s.McpServerHttp(name="scribe", url=f"http://127.0.0.1:{port}/mcp", headers=[])
        async with reached(config, tmp_path) as server:
            await check(server, tmp_path)


async def test_a_server_is_reached_over_sse(tmp_path: Path) -> None:
    async with listening("sse") as port:
        config = s.McpServerSse(name="scribe", url=f"http://127.0.0.1:{port}/sse", headers=[])
        async with reached(config, tmp_path) as server:
            await check(server, tmp_path)


async def test_calls_run_beside_each_other(tmp_path: Path) -> None:
    async with reached(STDIO, tmp_path) as server:
        answers = await asyncio.gather(*(server.call("greet", {"name": str(i)}) for i in range(20)))
    assert [answer[0].text for answer in answers] == [f"Hello, {i}!" for i in range(20)]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (s.McpServerStdio(name="x", command="/no/such/program", args=[], env=[]), "cannot be used"),
        (s.McpServerStdio(name="x", command=sys.executable, args=["-c", "exit('no luck')"], env=[]), "no luck"),
        (s.McpServerHttp(name="x", url="http://127.0.0.1:9/mcp", headers=[]), "cannot be used"),
        (s.McpServerSse(name="x", url="http://127.0.0.1:9/sse", headers=[]), "cannot be used"),
    ],
)
async def test_a_server_that_cannot_be_used_fails_with_one_line(
    config: s.McpServer, why: str, tmp_path: Path
) -> None:
    with pytest.raises(Failure, match=why) as caught:
        await connected(config, session(tmp_path))
    assert "\n" not in str(caught.value)


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "CONNECT", 0.5)
    silent = s.McpServerStdio(name="x", command=sys.executable, args=["-c", "import sys; sys.stdin.read()"], env=[])
    async with asyncio.timeout(20):
        with pytest.raises(Failure, match="does not answer"):
            await connected(silent, session(tmp_path))


async def test_a_server_that_dies_fails_the_call_and_the_next_ones(tmp_path: Path) -> None:
    dying = Path(SCRIBE).read_text().replace('return "written"', "import os; os._exit(3)")
    program = f"import sys; sys.argv = ['scribe']; exec({dying!r})"
    config = s.McpServerStdio(name="scribe", command=sys.executable, args=["-c", program], env=[])
    async with reached(config, tmp_path) as server:
        with pytest.raises(Failure):
            await server.call("write", {"path": str(tmp_path / "made")})
        with pytest.raises(Failure):
            await server.call("greet", {"name": "Ada"})


async def test_a_call_that_is_cancelled_leaves_the_server_usable(tmp_path: Path) -> None:
    async with reached(PEN, tmp_path) as server:
        calling = asyncio.create_task(server.call("greet", {"name": "Ada"}))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert [piece.text for piece in await server.call("greet", {"name": "Bo"})] == ["Hello, Bo!"]


async def test_without_the_library_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.client.client", None)
    with pytest.raises(Failure, match=r"pip install 'dragoman\[mcp\]'"):
        await connected(STDIO, session(tmp_path))
