"""Our client drives an agent behind the official SDK's own HTTP and WebSocket server, on two ASGI servers."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sdk  # noqa: F401  no SDK, no server
from dragoman_editor import Editor, choose, find_out, play
from remote_server import asgi_server

from dragoman import ConnectionClosed, RpcError, connect
from dragoman import schema as s
from dragoman.transports import Transport
from dragoman.transports.remote.client.http import dial_http
from dragoman.transports.remote.client.websocket import dial_websocket

MIB = 1024 * 1024
SERVED = [
    ("uvicorn", "websocket"),
    ("uvicorn", "http/1.1"),
    ("hypercorn", "websocket"),
    ("hypercorn", "http/1.1"),
    ("hypercorn", "http/2"),
]


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    with asgi_server("sdk", "uvicorn") as uvicorn, asgi_server("sdk", "hypercorn") as hypercorn:
        yield {"uvicorn": uvicorn, "hypercorn": hypercorn}


@pytest.fixture(params=SERVED, ids=" ".join)
def reached(request: pytest.FixtureRequest, ports: dict[str, int]) -> Any:
    """`async with reached() as editor:` connects over one wire to one server."""
    server, wire = request.param

    async def dial() -> Transport:
        rest = f"127.0.0.1:{ports[server]}/acp"
        if wire == "websocket":
            return await dial_websocket(f"ws://{rest}")
        return await dial_http(f"http://{rest}", version="1.1" if wire == "http/1.1" else "2")

    @asynccontextmanager
    async def reaching() -> Any:
        async with connect(await dial(), Editor()) as editor:
            yield editor

    reaching.wire = wire  # type: ignore[attr-defined]
    return reaching


async def test_a_turn_arrives_whole_and_in_order(reached: Any) -> None:
    async with reached() as editor:
        session = await editor.new_session("/")
        updates, response = await play(session, "count", to=500)
        numbers = [update.content.text for update in updates if isinstance(update, s.AgentMessageChunk)]
        assert numbers[:500] == [str(number) for number in range(500)]
        assert response.stop_reason == "end_turn"


async def test_a_permission_is_asked_for_and_given(reached: Any) -> None:
    async with reached() as editor:
        editor.answer = choose("yes")
        session = await editor.new_session("/")
        assert "yes" in json.dumps(await find_out(session, "ask"))


async def test_files_are_read_through_the_client(reached: Any, tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    async with reached() as editor:
        session = await editor.new_session("/")
        assert "one" in json.dumps(await find_out(session, "read", path=str(tmp_path / "a.txt")))


async def test_a_turn_can_be_cancelled(reached: Any) -> None:
    async with reached() as editor:
        session = await editor.new_session("/")
        prompt = session.prompt("wait {}")
        async for _ in prompt:
            session.cancel()
            break
        assert (await prompt).stop_reason == "cancelled"


async def test_a_session_of_an_earlier_connection_is_loaded(reached: Any) -> None:
    """The SDK's server calls such a session unknown when it is named in the header, and cannot prompt it."""
    async with reached() as editor:
        first = await editor.new_session("/")
        await play(first, "echo", s.TextContent(text="remember me"))
    async with reached() as editor:
        session = await editor.load_session(first.id, "/")
        assert session.modes is not None
        if reached.wire == "websocket":
            assert (await play(session, "count", to=1))[1].stop_reason == "end_turn"
        else:
            with pytest.raises(RpcError, match="404"):
                await session.prompt("count 1")
            assert (await play(await editor.new_session("/"), "count", to=1))[1].stop_reason == "end_turn"


async def test_characters_of_all_lengths_arrive_whatever_cuts_them(reached: Any) -> None:
    words = "aé€😀" * 20_000
    async with reached() as editor:
        session = await editor.new_session("/")
        updates, _ = await play(session, "echo", s.TextContent(text=words))
        assert words in [update.content.text for update in updates if isinstance(update, s.AgentMessageChunk)]


async def test_messages_of_five_mebibytes_pass_both_ways(reached: Any) -> None:
    async with reached() as editor:
        session = await editor.new_session("/")
        updates, _ = await play(session, "echo", s.TextContent(text="x" * (5 * MIB)))
        sizes = [len(update.content.text) for update in updates if isinstance(update, s.AgentMessageChunk)]
        assert 5 * MIB in sizes


async def test_150_sessions_share_a_connection(reached: Any) -> None:
    async with reached() as editor:
        sessions = [await editor.new_session("/") for _ in range(150)]
        ended = await asyncio.gather(*(play(session, "count", to=3) for session in sessions))
        assert [response.stop_reason for _, response in ended] == ["end_turn"] * 150


async def test_the_end_of_the_server_is_the_end_of_the_connection() -> None:
    """A plain server keeps no log, so nothing is tried: what is pending fails with a clear error."""
    with asgi_server("sdk", "uvicorn") as port:
        pending = []
        for url in (f"ws://127.0.0.1:{port}/acp", f"http://127.0.0.1:{port}/acp"):
            stack = connect(url, Editor())
            editor = await stack.__aenter__()
            session = await editor.new_session("/")
            prompt = session.prompt("wait {}")
            async for _ in prompt:
                break
            pending.append((stack, prompt))
    for stack, prompt in pending:
        with pytest.raises(ConnectionClosed):
            await prompt
        await stack.__aexit__(None, None, None)
