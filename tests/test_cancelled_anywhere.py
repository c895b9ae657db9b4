"""Whatever is cancelled, wherever it waits, leaves nothing behind and works when it is called again."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, ClassVar

import pytest
from suspensions import WAYS, Way, bystanders, cancel_everywhere

from dragoman import Client, Turn, connect
from dragoman import schema as s
from dragoman.connection.connection import Connection
from dragoman.testing import RecordingClient, Testy, pair
from dragoman.transports.process import spawn

# Answers `initialize` and waits; without a library it starts within milliseconds.
AGENT = [
    *(sys.executable, "-I", "-S", "-c"),
    """if True:
    import sys
    for line in sys.stdin:
        id = line.split('"id":')[1].split(",")[0]
        print('{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1}}' % id, flush=True)
    """,
]

pytestmark = pytest.mark.parametrize("way", WAYS)


async def test_spawn(way: Way) -> None:
    async def call() -> None:
        wire = await spawn(AGENT)
        await wire.close()

    assert await cancel_everywhere(call, way)


async def test_connect_to_a_command(way: Way) -> None:
    attached = taken_back = 0

    class Lender(Client):
        def attach(self, connection: Connection) -> None:
            nonlocal attached
            attached += 1
            super().attach(connection)

        async def take_back(self) -> None:
            nonlocal taken_back
            await asyncio.sleep(0)
            taken_back += 1

    async def call() -> None:
        async with connect(AGENT, Lender()) as client:
            await asyncio.sleep(0)
            assert client.closed is None

    assert await cancel_everywhere(call, way) > 3
    assert taken_back == attached


async def test_connect_to_an_agent_in_this_process(way: Way) -> None:
    async def call() -> None:
        async with connect(Testy) as client:
            assert client.closed is None

    assert await cancel_everywhere(call, way) > 3


@pytest.fixture
async def client() -> AsyncIterator[RecordingClient]:
    """A client of an agent that keeps its sessions; both are there before and after whatever is cancelled."""
    async with pair(Testy) as client:
        with bystanders():
            yield client


async def test_new_session(way: Way, client: RecordingClient) -> None:
    async def call() -> None:
        session = await client.new_session("/")
        await session.close()

    assert await cancel_everywhere(call, way)


async def test_load_session(way: Way, client: RecordingClient) -> None:
    known = await client.new_session("/")
    await known.prompt("echo one\necho two")

    async def call() -> None:
        session = await client.load_session(known.id, "/")
        assert len(list(session.backlog())) > 1

    assert await cancel_everywhere(call, way)


async def test_awaited_prompt(way: Way, client: RecordingClient) -> None:
    session = await client.new_session("/")

    async def call() -> None:
        assert (await session.prompt("echo one\nrun true\necho two")).stop_reason in ("end_turn", "cancelled")

    assert await cancel_everywhere(call, way)
    assert client.terminals == []
    assert (await session.prompt("echo at last")).stop_reason == "end_turn"


async def test_iterated_prompt(way: Way, client: RecordingClient) -> None:
    session = await client.new_session("/")

    async def call() -> None:
        events = [event async for event in session.prompt("echo one\necho two")]
        said = [event.content.text for event in events if isinstance(event, s.AgentMessageChunk)]  # type: ignore[union-attr]
        assert said == ["one", "two"]

    assert await cancel_everywhere(call, way)


class Driven(Testy):
    """Has something of a turn cancelled everywhere: `answer` is given what to call, and the way."""

    call: ClassVar[Callable[[Turn], Coroutine[Any, Any, None]]]
    way: ClassVar[Way]
    count: ClassVar[int]

    async def answer(self, turn: Turn) -> None:
        with bystanders():
            Driven.count = await cancel_everywhere(lambda: Driven.call(turn), Driven.way)


async def drive(call: Callable[[Turn], Coroutine[Any, Any, None]], way: Way, client: RecordingClient) -> int:
    Driven.call, Driven.way = staticmethod(call), way  # type: ignore[assignment]
    async with pair(Driven, client):
        session = await client.new_session("/")
        assert (await session.prompt("go")).stop_reason == "end_turn"
        return Driven.count


async def test_terminal_of_a_turn(way: Way) -> None:
    client = RecordingClient()

    async def call(turn: Turn) -> None:
        assert client.terminals == []
        async with turn.terminal("true") as terminal:
            await terminal.wait()

    assert await drive(call, way, client) > 3
    assert client.terminals == []


async def test_tool_question_and_files_of_a_turn(way: Way) -> None:
    async def call(turn: Turn) -> None:
        async with turn.tool("Edit", kind="edit") as tool:
            assert await turn.ask(tool)
            await turn.write("/a", "text")
            assert await turn.read("/a") == "text"

    assert await drive(call, way, RecordingClient()) > 2
