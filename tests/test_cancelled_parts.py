"""What a client lends, MCP servers, remote wires and the gateway: cancelled anywhere, they leave nothing behind."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from gateway.house import House, hosting
from suspensions import WAYS, Way, bystanders, cancel_everywhere

from dragoman import connect
from dragoman import schema as s
from dragoman.agent.turn import AgentSession
from dragoman.connection.connection import Connection
from dragoman.connection.remotes import RemoteClient
from dragoman.gateway.attachment import attached
from dragoman.host import Host
from dragoman.host.files.extensions import ApplyEditsRequest, WriteEdit
from dragoman.host.terminals import TerminalLimits, Terminals, execution
from dragoman.mcp import connected
from dragoman.testing import Testy, pair
from dragoman.transports.remote.client.http import dial_http
from dragoman.transports.remote.server.asgi import endpoint
from dragoman.transports.remote.server.server import listening

# An MCP server without tools; without a library it starts within milliseconds.
MCP_SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        version = message["params"]["protocolVersion"]
        server = {"name": "bare", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    else:
        result = {"tools": []}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""

pytestmark = pytest.mark.parametrize("way", WAYS)


# What a client lends


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(preset="allow-all", state=tmp_path / "state", limits=TerminalLimits(grace=0.2))
    async with pair(Testy, host):
        with bystanders():
            yield host


async def test_session_of_a_host(way: Way, host: Host, tmp_path: Path) -> None:
    async def call() -> None:
        session = await host.new_session(tmp_path)
        await session.close()

    assert await cancel_everywhere(call, way) > 1


async def test_loaded_session_of_a_host(way: Way, host: Host, tmp_path: Path) -> None:
    known = await host.new_session(tmp_path)

    async def call() -> None:
        await host.load_session(known.id, tmp_path)
        await host.close_session(known.id)

    assert await cancel_everywhere(call, way) > 1


async def test_turn_with_a_host(way: Way, host: Host, tmp_path: Path) -> None:
    session = await host.new_session(tmp_path)

    async def call() -> None:
        response = await session.prompt(f"write {tmp_path}/a text\nread {tmp_path}/a\nrun true")
        assert response.stop_reason in ("end_turn", "cancelled")

    assert await cancel_everywhere(call, way, sparse=True) > 1


async def test_edit_of_several_files(way: Way, host: Host, tmp_path: Path) -> None:
    session = await host.new_session(tmp_path)
    edits = [WriteEdit(path=f"{tmp_path}/{name}", content="text") for name in ("a", "b")]

    async def call() -> None:
        await host.apply_edits(ApplyEditsRequest(session_id=session.id, edits=edits))
        assert (tmp_path / "b").read_text() == "text"

    assert await cancel_everywhere(call, way)
    assert not list(tmp_path.rglob("*.edit*"))


async def test_terminals(way: Way) -> None:
    async with Terminals(limits=TerminalLimits(grace=0.2)) as terminals:
        await terminals.create("s", execution("true", cwd="/"))
        await terminals.close("s")
        with bystanders():

            async def call() -> None:
                terminal = await terminals.create("s", execution("sleep", ["1000"], cwd="/"))
                await terminals.release("s", terminal.id)

            assert await cancel_everywhere(call, way) > 1
            assert terminals.of("s") == []


# MCP servers


async def test_connected_mcp_server(way: Way, tmp_path: Path) -> None:
    bare = s.McpServerStdio(name="bare", command=sys.executable, args=["-I", "-S", "-c", MCP_SERVER], env=[])
    session = AgentSession(RemoteClient(cast("Connection", None)), "s", str(tmp_path))

    async def call() -> None:
        server = await connected(bare, session)
        await server.close()

    assert await cancel_everywhere(call, way, sparse=True) > 1


# Remote wires


@pytest.fixture
async def server() -> AsyncIterator[Any]:
    agents = endpoint(Testy, grace=0.2)  # seconds for a client that dropped to come back
    async with listening(agents) as server:
        with bystanders():
            yield server
        await agents.close()


@pytest.mark.parametrize("wire", ["websocket", "http/1.1", "http/2"])
async def test_dial(way: Way, wire: str, server: Any) -> None:
    async def call() -> None:
        if wire == "websocket":
            async with connect(server.url(websocket=True)) as client:
                assert client.closed is None
        else:
            async with connect(await dial_http(server.url(), version=wire[5:])) as client:
                assert client.closed is None

    assert await cancel_everywhere(call, way, sparse=True) > 1


# The gateway


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with hosting(tmp_path, grace=0.2) as house:
        async with house.visit() as client:
            await client.new_session(tmp_path)  # now the agent's process is there, and stays
        with bystanders():
            yield house


async def test_session_at_a_gateway(way: Way, house: House, tmp_path: Path) -> None:
    async with house.visit() as client:
        with bystanders():

            async def call() -> None:
                session = await client.new_session(tmp_path)
                await session.close()

            assert await cancel_everywhere(call, way) > 1


async def test_attachment_to_a_gateway(way: Way, house: House) -> None:
    async def call() -> None:
        async with connect(attached(house.url(), headers=house.headers("ann"))) as client:
            assert client.closed is None

    assert await cancel_everywhere(call, way, sparse=True) > 1
