"""`dragoman connect` while its gateway is away, and after: nothing waits for ever, nothing cancelled runs."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, connect
from dragoman.agent.serving import serve_on
from dragoman.errors import InternalError, Overloaded, ResourceNotFound
from dragoman.gateway.access.guard import local_names
from dragoman.gateway.attachment import attached
from dragoman.testing.pairing import RawWire
from dragoman.transports.memory import pipe

from .house import House, Watcher, hosting
from .test_lending import Owner, said

pytestmark = pytest.mark.usefixtures("nothing_left")

WIRES = ("websocket", "http")
LIMIT = 60  # seconds for all that a client does, on a busy machine


class Network:
    """A TCP relay that can lose its clients without their server noticing."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_up = True
        self._clients: set[asyncio.StreamWriter] = set()
        self._servers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_up:
            writer.transport.abort()
            return
        self._start(self._join(reader, writer))

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._port)
        self._clients.add(writer)
        self._servers.add(ours)
        self._start(self._pass(theirs, writer))
        self._start(self._pass(reader, ours))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass

    def go_down(self) -> None:
        """Reset every client, and whoever comes; the server is told nothing."""
        self._is_up = False
        for writer in self._clients:
            writer.transport.abort()
        self._clients.clear()

    def come_up(self) -> None:
        self._is_up = True

    async def close(self) -> None:
        for writer in (*self._clients, *self._servers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


@asynccontextmanager
async def networked(house: House) -> AsyncIterator[tuple[Network, int]]:
    network = Network(house.server.port)
    server = await asyncio.start_server(network.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    house.web.guard.hosts |= local_names("127.0.0.1", port)
    try:
        yield network, port
    finally:
        server.close()
        await network.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def shimmed(
    house: House, directory: Path, wire: str, client: Watcher, patience: float = 2
) -> AsyncIterator[Network]:
    """A client of `dragoman connect`, and the network between that and its gateway."""
    token = directory / "token"
    token.write_text(house.tokens["ann"])
    async with networked(house) as (network, port):
        scheme = "ws" if wire == "websocket" else "http"
        url = f"{scheme}://127.0.0.1:{port}/acp"
        shim = ["-m", "dragoman", "connect", url, "--token-file", str(token), "--patience", str(patience)]
        async with connect([sys.executable, *shim], client), asyncio.timeout(LIMIT):
            yield network


class Listing(Agent):
    """Notes what it is prompted with; `wait` waits until it is cancelled."""

    prompts: list[str]
    cancelled: asyncio.Event

    async def answer(self, turn: Any) -> None:
        self.prompts.append(turn.text.splitlines()[-1])  # a reminder of what was said before may precede it
        await turn.say(f"heard {turn.text}")
        if turn.text.startswith("wait"):
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()


def listing() -> type[Listing]:
    return type("Listening", (Listing,), {"prompts": [], "cancelled": asyncio.Event()})


async def outcome(session: Any, text: str) -> str:
    return str((await session.prompt(text)).stop_reason)


async def outcome_at_last(session: Any, text: str) -> str:
    """The outcome of a prompt that is made again and again until the gateway is back."""
    while True:
        try:
            return await outcome(session, text)
        except InternalError as exc:
            assert exc.data == {"kind": "gateway_away"}


@pytest.mark.parametrize("is_known", [False, True], ids=["just now", "for long"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_prompt_that_is_cancelled_while_the_gateway_is_away_never_runs(
    tmp_path: Path, wire: str, is_known: bool
) -> None:
    agent, ann = listing(), Watcher()
    async with hosting(tmp_path, agent) as house, shimmed(house, tmp_path, wire, ann) as network:
        session = await ann.new_session(tmp_path)
        network.go_down()
        if is_known:
            with pytest.raises(InternalError, match="the gateway"):
                await ann.new_session(tmp_path)
        prompts = [asyncio.ensure_future(outcome(session, f"unwanted {number}")) for number in range(3)]
        await asyncio.sleep(0)
        session.cancel()
        assert await asyncio.gather(*prompts) == ["cancelled"] * 3
        network.come_up()
        assert await outcome_at_last(session, "wanted") == "end_turn"
    assert agent.prompts == ["wanted"]
    assert "heard wanted" in said(ann, session.id)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_that_is_cancelled_while_the_gateway_is_away_ends_when_it_is_back(
    tmp_path: Path, wire: str
) -> None:
    agent, ann = listing(), Watcher()
    async with hosting(tmp_path, agent) as house, shimmed(house, tmp_path, wire, ann) as network:
        session = await ann.new_session(tmp_path)
        running = asyncio.ensure_future(outcome(session, "wait"))
        await ann.until(lambda: ann.told.get(session.id))
        network.go_down()
        session.cancel()
        assert await running == "cancelled"
        assert not agent.cancelled.is_set()
        network.come_up()
        assert await outcome_at_last(session, "next") == "end_turn"
        await agent.cancelled.wait()
    assert agent.prompts == ["wait", "next"]


@pytest.mark.parametrize("wire", WIRES)
async def test_requests_fail_with_a_sentence_when_the_gateway_stays_away(tmp_path: Path, wire: str) -> None:
    agent, ann = listing(), Watcher()
    async with hosting(tmp_path, agent) as house, shimmed(house, tmp_path, wire, ann, patience=1) as network:
        session = await ann.new_session(tmp_path)
        network.go_down()
        for request in (outcome(session, "too late"), ann.new_session(tmp_path), outcome(session, "much too late")):
            with pytest.raises(InternalError, match=r"the gateway is away|the connection to the gateway was lost"):
                await request
        network.come_up()
        assert await outcome_at_last(session, "in time") == "end_turn"
    assert agent.prompts == ["in time"]


async def test_no_more_than_so_many_requests_wait_for_a_gateway_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.returning.MAX_WAITING", 3)
    async with hosting(tmp_path, listing()) as house, networked(house) as (network, port), asyncio.timeout(LIMIT):
        gateway = attached(f"ws://127.0.0.1:{port}/acp", headers=house.headers("ann"), patience=2)
        async with connect(gateway) as client:
            network.go_down()
            with pytest.raises(InternalError, match="the gateway"):
                await client.new_session(tmp_path)
            asked = [asyncio.ensure_future(client.agent.request("session/list", {})) for _ in range(5)]
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [InternalError] * 3 + [Overloaded] * 2


@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_that_returns_takes_over_its_own_seat(tmp_path: Path, wire: str) -> None:
    """The gateway has not noticed that its first connection is dead, and asks the second for the client's files."""
    ann = Owner()
    hosted = {"workspace": "client"}
    async with hosting(tmp_path, hosted=hosted) as house, shimmed(house, tmp_path, wire, ann, 1) as network:
        session = await ann.new_session(tmp_path)
        network.go_down()
        with pytest.raises(InternalError):
            await outcome(session, "hello")
        network.come_up()
        assert await outcome_at_last(session, "read /anything.txt") == "end_turn"
        assert f"/anything.txt of {session.id}, at the client" in said(ann, session.id)
        (viewer,) = house.gateway.live[session.id].viewers
        assert viewer.client.connection.closed is None


@pytest.mark.parametrize("way", ["shim", "websocket", "http"])
async def test_a_session_that_was_closed_takes_no_prompt(tmp_path: Path, way: str) -> None:
    agent, ann = listing(), Watcher()
    async with hosting(tmp_path, agent) as house:
        reached = shimmed(house, tmp_path, "websocket", ann) if way == "shim" else house.visit("ann", ann, wire=way)
        async with reached:
            session = await ann.new_session(tmp_path)
            assert await outcome(session, "before") == "end_turn"
            await session.close()
            for method, further in (
                ("session/prompt", {"prompt": [{"type": "text", "text": "after"}]}),
                ("session/set_mode", {"modeId": "code"}),
            ):
                with pytest.raises(ResourceNotFound):
                    await ann.agent.request(method, {"sessionId": session.id, **further})
            again = await ann.load_session(session.id, tmp_path)
            assert await outcome(again, "loaded") == "end_turn"
    assert agent.prompts == ["before", "loaded"]


async def test_a_cancel_concerns_the_prompts_before_it_and_none_after_it(tmp_path: Path) -> None:
    """Written to `dragoman connect` in one piece, as by a client in a hurry."""
    agent, ann = listing(), Watcher()
    async with hosting(tmp_path, agent) as house, shimmed(house, tmp_path, "websocket", ann):
        for number in range(10):
            session = await ann.new_session(tmp_path)
            before = asyncio.ensure_future(outcome(session, f"wait {number}"))
            await asyncio.sleep(0)
            session.cancel()
            after = asyncio.ensure_future(outcome(session, f"after {number}"))
            assert (await before, await after) == ("cancelled", "end_turn")
    assert [text for text in agent.prompts if "after" in text] == [f"after {number}" for number in range(10)]


async def test_a_client_whose_greeting_was_refused_greets_again_on_a_new_connection(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, networked(house) as (_, port):
        ours, theirs = pipe()
        app = attached(f"ws://127.0.0.1:{port}/acp", headers=house.headers("ann"))
        serving = asyncio.create_task(serve_on(app, theirs))
        editor = RawWire(ours)
        async with asyncio.timeout(LIMIT):
            refused = await editor.request("initialize", {"protocolVersion": "one"})
            assert "error" in refused
            welcomed = await editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
            assert welcomed["result"]["protocolVersion"] == 1
            opened = await editor.request("session/new", {"cwd": str(tmp_path), "mcpServers": []})
            assert opened["result"]["sessionId"]
            await editor.hang_up()
            await serving
