"""MCP servers of a session over stdio, HTTP and SSE, all of them real processes."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from forgetful import Forgetful
from torture.by_hand import resident

from dragoman import schema as s
from dragoman.agent.turn import AgentSession
from dragoman.connection.connection import Connection
from dragoman.connection.remotes import RemoteClient
from dragoman.mcp import McpFailure, SessionServer, connected, connections
from dragoman.mcp.transports import bodies, processes

pytestmark = pytest.mark.usefixtures("nothing_left")

SCRIBE = str(Path(__file__).with_name("scribe.py"))
PEN = s.McpServerStdio(name="pen", command=sys.executable, args=[str(Path(__file__).with_name("pen.py"))], env=[])
STDIO = s.McpServerStdio(name="scribe", command=sys.executable, args=[SCRIBE], env=[])


def session(cwd: Path) -> AgentSession:
    """A session of a client that offers nothing and is not there."""
    return AgentSession(RemoteClient(cast("Connection", None)), "s", str(cwd))


def listening(kind: str) -> contextlib.AbstractAsyncContextManager[int]:
    """The scribe as a process that serves over HTTP; gives its port."""
    return listening_on(SCRIBE, kind)


@contextlib.asynccontextmanager
async def listening_on(program: str, *words: str) -> AsyncIterator[int]:
    """A server as a process that is told its port, which this gives."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = await asyncio.create_subprocess_exec(
        sys.executable, program, *words, str(port), stderr=asyncio.subprocess.DEVNULL
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
async def reached(config: s.McpServer, cwd: Path) -> AsyncIterator[SessionServer]:
    async with asyncio.timeout(30):
        server = await connected(config, session(cwd))
        try:
            yield server
        finally:
            await server.close()


async def check(server: SessionServer, cwd: Path) -> None:
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
    assert [piece.text for piece in (await server.call("greet", {"name": "Ada"})).content] == ["Hello, Ada!"]
    assert [piece.mime_type for piece in (await server.call("draw", {})).content] == ["image/png"]
    await server.call("write", {"path": str(cwd / "made")})
    assert (cwd / "made").exists()
    with pytest.raises(McpFailure, match="it cannot be done"):
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
    assert [answer.text for answer in answers] == [f"Hello, {i}!" for i in range(20)]


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
    with pytest.raises(McpFailure, match=why) as caught:
        await connected(config, session(tmp_path))
    assert "\n" not in str(caught.value)


async def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECT", 0.5)
    silent = s.McpServerStdio(name="x", command=sys.executable, args=["-c", "import sys; sys.stdin.read()"], env=[])
    async with asyncio.timeout(20):
        with pytest.raises(McpFailure, match="does not answer"):
            await connected(silent, session(tmp_path))


async def test_a_call_that_is_cancelled_leaves_the_server_usable(tmp_path: Path) -> None:
    async with reached(PEN, tmp_path) as server:
        calling = asyncio.create_task(server.call("greet", {"name": "Ada"}))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert [piece.text for piece in (await server.call("greet", {"name": "Bo"})).content] == ["Hello, Bo!"]


async def test_without_the_library_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.client.client", None)
    with pytest.raises(McpFailure, match=r"pip install 'dragoman\[mcp\]'"):
        await connected(STDIO, session(tmp_path))


# Servers that misbehave, die and come back

ROGUE = s.McpServerStdio(
    name="rogue", command=sys.executable, args=[str(Path(__file__).parent / "rogue_server.py")], env=[]
)


@pytest.mark.parametrize("tool", ["surrogate", "shapeless"])
async def test_an_answer_that_cannot_be_read_fails_its_call_and_no_other(tool: str, tmp_path: Path) -> None:
    async with reached(ROGUE, tmp_path) as server:
        failing, greeting = (
            asyncio.create_task(server.call(tool, {})),
            asyncio.create_task(server.call("greet", {})),
        )
        with pytest.raises(McpFailure, match=rf"rogue/{tool} failed: the server's answer cannot be read"):
            await failing
        first, again = await greeting, await server.call("greet", {})
        assert first == again  # by the same process


async def test_text_that_is_no_text_and_stray_lines_cost_nothing(tmp_path: Path) -> None:
    async with reached(ROGUE, tmp_path) as server:
        assert [piece.text for piece in (await server.call("no_text", {})).content] == ["\ufffd"]
        assert [piece.text for piece in (await server.call("chatter", {})).content] == ["done"]
        assert [piece.text for piece in (await server.call("marked", {})).content] == ["done"]


async def test_structured_content_alone_is_given_as_text(tmp_path: Path) -> None:
    async with reached(ROGUE, tmp_path) as server:
        assert [json.loads(piece.text) for piece in (await server.call("structured", {})).content] == [
            {"answer": 42}
        ]


@pytest.mark.parametrize("tool", ["long_error", "long_refusal"])
async def test_what_a_server_says_of_a_failure_is_cut(tool: str, tmp_path: Path) -> None:
    async with reached(ROGUE, tmp_path) as server:
        with pytest.raises(McpFailure, match="eee") as caught:
            await server.call(tool, {})
        assert len(str(caught.value)) < 2100


async def test_a_process_that_died_is_started_again_with_the_next_call(tmp_path: Path) -> None:
    async with reached(ROGUE, tmp_path) as server:
        before = await server.call("greet", {})
        with pytest.raises(McpFailure):
            await server.call("die", {})
        after = await server.call("greet", {})
        assert after != before and after.text.startswith("Hello from")


async def test_a_call_that_may_have_had_an_effect_is_not_made_again(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    config = s.McpServerStdio(name="rogue", command=ROGUE.command, args=[*ROGUE.args, str(calls)], env=[])
    async with reached(config, tmp_path) as server:
        with pytest.raises(McpFailure):
            await server.call("die", {})
        await server.call("greet", {})
    assert calls.read_text() == "called\n"


async def test_a_process_that_dies_again_and_again_is_tried_after_a_pause(tmp_path: Path) -> None:
    async with reached(ROGUE, tmp_path) as server:
        reasons = []
        for _ in range(8):  # the pauses grow, so that one of them is longer than whatever holds up this test
            with pytest.raises(McpFailure) as caught:
                await server.call("die", {})
            reasons.append(str(caught.value))
        assert re.search(r"it is tried again in \d+ s at the earliest", reasons[-1])
        assert "tried again" not in reasons[1]


async def test_a_process_killed_between_calls_is_not_missed(tmp_path: Path) -> None:
    async with reached(ROGUE, tmp_path) as server:
        pid = int((await server.call("greet", {})).text.removeprefix("Hello from ").rstrip("."))
        os.kill(pid, signal.SIGKILL)
        while server.is_connected:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)
        (after,) = (await server.call("greet", {})).content
        assert after.text.startswith("Hello from") and str(pid) not in after.text


async def test_a_server_that_forgot_its_session_is_asked_again_in_a_new_one(tmp_path: Path) -> None:
    there = Forgetful()
    async with there.running():
        config = s.McpServerHttp(name="x", url=f"http://127.0.0.1:{there.port}/mcp", headers=[])
        async with reached(config, tmp_path) as server:
            assert [piece.text for piece in (await server.call("count", {})).content] == ["1"]
            there.sessions.clear()
            assert [piece.text for piece in (await server.call("count", {})).content] == ["2"]
            assert (there.begun, there.calls) == (2, 2)


async def test_a_server_that_was_away_is_reached_again(tmp_path: Path) -> None:
    there = Forgetful()
    async with contextlib.AsyncExitStack() as stack:
        async with there.running():
            config = s.McpServerHttp(name="x", url=f"http://127.0.0.1:{there.port}/mcp", headers=[])
            server = await stack.enter_async_context(reached(config, tmp_path))
            await server.call("count", {})
        with pytest.raises(McpFailure):
            await server.call("count", {})
        async with there.running():
            assert [piece.text for piece in (await server.call("count", {})).content] == ["2"]


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 20, 100])
async def test_a_server_closed_while_it_is_started_again_leaves_nothing(steps: int, tmp_path: Path) -> None:
    server = await connected(ROGUE, session(tmp_path))
    with pytest.raises(McpFailure):
        await server.call("die", {})
    calling = asyncio.create_task(server.call("greet", {}))
    for _ in range(steps):
        await asyncio.sleep(0)
    await server.close()
    await asyncio.wait([calling])
    assert isinstance(calling.exception(), McpFailure | None)


async def test_tools_that_changed_are_learned_anew(tmp_path: Path) -> None:
    async with reached(ROGUE, tmp_path) as server:
        assert "learned" not in {tool.name for tool in server.tools}
        await server.call("learn", {})
        await server.refresh()
        assert "learned" in {tool.name for tool in server.tools}


async def test_a_server_of_the_newest_protocol_is_listened_to_for_changed_tools(tmp_path: Path) -> None:
    changing = (
        Path(SCRIBE)
        .read_text()
        .replace(
            'def fail() -> str:\n    """Fail."""\n',
            "async def fail(context: Context) -> str:\n"
            "    server.add_tool(lambda: 'new', name='learned', description='New.')\n"
            "    await context.notify_tools_changed()\n    return 'told'\n",
        )
    )
    assert "learned" in changing
    program = f"import sys; sys.argv = ['scribe']\nfrom mcp.server.mcpserver import Context\nexec({changing!r})"
    config = s.McpServerStdio(name="scribe", command=sys.executable, args=["-c", program], env=[])
    async with reached(config, tmp_path) as server:
        await server.call("fail", {})
        while "learned" not in {tool.name for tool in server.tools}:  # it says so on a stream of its own
            await asyncio.sleep(0.01)
            await server.refresh()


# Large messages

EIGHT_MEGABYTES = "eight megabytes\n" * 500_000


async def test_a_call_of_eight_megabytes_each_way_over_stdio(tmp_path: Path) -> None:
    async with reached(PEN, tmp_path) as server:
        (piece,) = (await server.call("greet", {"name": EIGHT_MEGABYTES})).content
    assert piece.text == f"Hello, {EIGHT_MEGABYTES}!"


async def test_a_call_of_eight_megabytes_each_way_over_http(tmp_path: Path) -> None:
    async with listening("streamable-http") as port:
        config = s.McpServerHttp(name="scribe", url=f"http://127.0.0.1:{port}/mcp", headers=[])
        async with reached(config, tmp_path) as server:
            (piece,) = (await server.call("greet", {"name": EIGHT_MEGABYTES})).content
    assert piece.text == f"Hello, {EIGHT_MEGABYTES}!"


async def test_an_answer_that_is_too_long_fails_its_call_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MAX_MESSAGE", 1_000_000)
    async with reached(ROGUE, tmp_path) as server:
        before = await server.call("greet", {})
        with pytest.raises(
            McpFailure, match=r"rogue/long_line failed: the server's answer is too long: 2,000,\d+ bytes"
        ):
            await server.call("long_line", {})
        assert await server.call("greet", {}) == before  # by the same process


async def test_a_line_without_end_takes_no_memory_and_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "MAX_MESSAGE", 1_000_000)
    async with reached(ROGUE, tmp_path) as server:
        pid = int((await server.call("greet", {})).text.removeprefix("Hello from ").rstrip("."))
        before = resident()
        calling = asyncio.create_task(server.call("endless", {}))
        while _written(pid) < 200_000_000:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)
        assert resident() - before < 50_000_000
        calling.cancel()
        await asyncio.wait([calling])


def _written(pid: int) -> int:
    """How many bytes a process has written, to whatever."""
    return int(re.findall(r"wchar: (\d+)", Path(f"/proc/{pid}/io").read_text())[0])


async def test_a_server_that_writes_to_stderr_without_measure_is_heard_out(tmp_path: Path) -> None:
    async with reached(ROGUE, tmp_path) as server:
        before = resident()
        assert [piece.text for piece in (await server.call("shouting", {})).content] == ["done"]
        assert resident() - before < 50_000_000  # of 100 MB


@pytest.mark.parametrize(("padding", "encoding", "why"), [(1_000_000, "", "too long"), (0, "gzip", "compressed")])
async def test_a_body_that_is_too_long_or_hides_its_length_fails_its_call_and_no_other(
    padding: int, encoding: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "MAX_MESSAGE", 1_000_000)
    there = Forgetful()
    async with there.running():
        config = s.McpServerHttp(name="x", url=f"http://127.0.0.1:{there.port}/mcp", headers=[])
        async with reached(config, tmp_path) as server:
            there.padding, there.encoding = "e" * padding, encoding
            with pytest.raises(McpFailure, match=why):
                await server.call("count", {})
            there.padding, there.encoding = "", ""
            assert [piece.text for piece in (await server.call("count", {})).content] == ["2"]
