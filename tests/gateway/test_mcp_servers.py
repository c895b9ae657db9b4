"""MCP servers in a client are used by an agent behind a gateway as by one on this machine."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from coder.test_mcp import Providing, scribe
from patience import PATIENCE

from dragoman import schema as s
from dragoman.coder import Coder, ScriptedModel, call
from dragoman.gateway.access.limits import Limits

from .house import Bare, hosting
from .test_transparency import heard, prompted, words
from .versatile import Versatile

pytestmark = pytest.mark.usefixtures("nothing_left")


def offering(directory: Path, id: str, name: str = "notes", **more: Any) -> dict[str, Any]:
    return {"cwd": str(directory), "mcpServers": [{"type": "acp", "name": name, "serverId": id}], **more}


async def opened(bare: Bare, directory: Path, id: str) -> str:
    answer = await bare.ask("session/new", offering(directory, id))
    return str(answer["result"]["sessionId"])


async def answered(bare: Bare, method: str, result: Any) -> dict[str, Any]:
    """Answer the next request of a method; gives what it asked."""
    asked = await bare.hear(method)
    bare.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
    params: dict[str, Any] = asked["params"]
    return params


async def test_each_client_is_asked_for_its_own_server_and_by_its_own_name(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as one, house.bare() as other:
        clients = {"one": one, "other": other}
        sessions = {who: await opened(bare, tmp_path, "the same") for who, bare in clients.items()}
        assert len(house.gateway.processes.running) == 1
        turns = {}
        for who, bare in clients.items():
            turns[who] = asyncio.ensure_future(prompted(bare, sessions[who], f'mcp notes {who} {{"a": 1}}'))
        for who, bare in clients.items():
            asked = await answered(bare, "mcp/message", {"result": who})
            assert (asked["serverId"], asked["method"], asked["params"]["a"]) == ("the same", who, 1)
            assert (await turns[who])["result"] == {"stopReason": "end_turn"}
            assert json.loads(words(heard(bare))) == {"result": who}


async def test_two_sessions_of_a_client_may_have_equal_requests_to_one_server(tmp_path: Path) -> None:
    async with hosting(tmp_path, Versatile) as house, house.bare() as bare:
        turns, open_requests = [], []
        for number in range(2):
            opening = asyncio.ensure_future(bare.ask("session/new", offering(tmp_path, "one")))
            await answered(bare, "mcp/connect", {"connectionId": f"line {number}"})
            session = (await opening)["result"]["sessionId"]
            turns.append(asyncio.ensure_future(prompted(bare, session, "call")))
            open_requests.append(await bare.hear("mcp/message"))
        ids = [asked["params"]["requestId"] for asked in open_requests]
        assert ids[0] == "1" != ids[1]
        assert words(heard(bare)) == "call: call: "
        for asked, turn in zip(open_requests, turns, strict=True):
            about = {name: asked["params"][name] for name in ("serverId", "requestId")}
            bare.send({"jsonrpc": "2.0", "method": "mcp/message", "params": {**about, "method": "progress"}})
            bare.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"result": 1}})
            await turn
            assert words(heard(bare)) == "notes {'result': 1} progress True "


async def test_a_client_that_comes_back_has_its_server_again_under_another_id(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        async with house.bare() as before:
            session = await opened(before, tmp_path, "before")
        async with house.bare() as bare, house.bare() as back:
            await bare.ask("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
            turn = asyncio.ensure_future(prompted(bare, session, "mcp notes ping"))
            await back.ask("session/resume", offering(tmp_path, "after", sessionId=session))
            assert (await answered(back, "mcp/message", {"result": {}}))["serverId"] == "after"
            assert (await turn)["result"] == {"stopReason": "end_turn"}
            for _, _, upstream in house.gateway.processes.running.entries():
                await upstream.close()
            turn = asyncio.ensure_future(prompted(bare, session, "mcp notes ping"))
            assert (await answered(back, "mcp/message", {"result": {}}))["serverId"] == "after"
            assert (await turn)["result"] == {"stopReason": "end_turn"}


async def test_a_server_is_asked_only_of_who_owns_the_session(tmp_path: Path) -> None:
    limits = Limits(owner_seconds=0.1)
    async with hosting(tmp_path, limits=limits) as house, house.bare("bob") as bob:
        async with house.bare() as ann:
            session = await opened(ann, tmp_path, "of ann")
            await ann.ask("_dragoman/session/share", {"sessionId": session, "principal": "bob", "role": "editor"})
            await bob.ask("session/resume", offering(tmp_path, "of bob", sessionId=session))
            turn = asyncio.ensure_future(prompted(bob, session, "mcp notes ping"))
            assert (await answered(ann, "mcp/message", {"result": {}}))["serverId"] == "of ann"
            await turn
        assert "MCP server unavailable" in (await prompted(bob, session, "mcp notes ping"))["error"]["message"]
        assert not [frame for frame in bob.frames if frame.get("method") == "mcp/message"]


async def test_a_server_whose_client_goes_in_the_middle_has_failed(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as other:
        async with house.bare() as bare:
            session = await opened(bare, tmp_path, "one")
            await other.ask("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
            turn = asyncio.ensure_future(prompted(other, session, "mcp notes ping"))
            await bare.hear("mcp/message")
        async with asyncio.timeout(PATIENCE):
            assert "is gone" in (await turn)["error"]["message"]


async def test_the_connections_of_an_agent_end_with_its_session(tmp_path: Path) -> None:
    async with hosting(tmp_path, Versatile) as house, house.bare() as bare:
        opening = asyncio.ensure_future(bare.ask("session/new", offering(tmp_path, "one")))
        assert await answered(bare, "mcp/connect", {"connectionId": "line"}) == {"serverId": "one"}
        session = (await opening)["result"]["sessionId"]
        await bare.ask("session/close", {"sessionId": session})
        assert await answered(bare, "mcp/disconnect", {}) == {"connectionId": "line"}


async def test_the_connections_to_a_client_end_with_it(tmp_path: Path) -> None:
    async with hosting(tmp_path, Versatile) as house, house.bare(knows_us=True) as other:
        async with house.bare() as bare:
            opening = asyncio.ensure_future(bare.ask("session/new", offering(tmp_path, "one")))
            await answered(bare, "mcp/connect", {"connectionId": "line"})
            session = (await opening)["result"]["sessionId"]
            await other.ask("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
            turn = asyncio.ensure_future(prompted(bare, session, "line"))
            await answered(bare, "mcp/message", {"tools": []})
            await turn
        while (await other.hear("_dragoman/presence"))["params"]["people"][0]["seats"] != 1:
            pass
        assert "MCP server unavailable" in (await prompted(other, session, "line"))["error"]["message"]


async def test_a_request_to_a_server_is_cancelled_with_its_turn(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as bare:
        session = await opened(bare, tmp_path, "one")
        turn = asyncio.ensure_future(prompted(bare, session, "mcp notes ping"))
        asked = await bare.hear("mcp/message")
        bare.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
        withdrawn = await bare.hear("$/cancel_request")
        assert withdrawn["params"] == {"requestId": asked["id"]}
        bare.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32800, "message": "Request cancelled"}})
        assert (await turn)["result"] == {"stopReason": "cancelled"}


async def test_the_coder_uses_a_real_server_in_a_client_through_a_gateway(tmp_path: Path) -> None:
    model = ScriptedModel([call("mcp__notes__greet", name="Ada")], "Done.")
    servers = [s.McpServerAcp(name="notes", server_id="server-1")]
    async with (
        scribe() as dispatcher,
        hosting(tmp_path, lambda remote: Coder(remote, model=model), hosted={"workspace": "client"}) as house,
        house.visit("ann", client := Providing(dispatcher)),
        asyncio.timeout(PATIENCE),
    ):
        assert client.agent.offers.mcp_capabilities.acp
        session = await client.new_session(tmp_path, mcp_servers=servers)
        told = [event async for event in session.prompt("Go")]
        results = [str(event) for event in told if isinstance(event, s.ToolCallUpdate)]
    assert "Hello, Ada!" in "".join(results)
    assert {server for server, _ in client.reached} == {"server-1"}
