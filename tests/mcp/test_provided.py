"""MCP servers that a client offers its agents over ACP, in both generations of it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from gateway.house import hosting
from providing import PEN, First, Offering, Second, said, scribe

from dragoman import Agent, NotOffered, RpcError
from dragoman import schema as s
from dragoman.testing import pair

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_an_agent_uses_servers_of_the_clients_process_and_processes_of_the_client(tmp_path: Path) -> None:
    client = Offering()
    async with pair(Second, client), asyncio.timeout(60):
        session = await client.new_session(tmp_path)
        words = await said(
            session,
            'scribe/greet {"name": "Ada"}',
            "scribe/fail",
            "scribe/paint",
            "scribe/climb",
            'pen/greet {"name": "Bo"}',
        )
    assert words[0] == "Hello, Ada!" and "it cannot be done" in words[1]
    assert words[2:] == ["all blue", "on top", "Hello, Bo!"]
    titles = [u.update.title for u in client.updates if isinstance(u.update, s.ToolCallUpdated) and u.update.title]
    assert any("of 3: step" in title for title in titles)


async def test_an_agent_of_the_first_generation_has_a_connection_in_which_both_sides_ask(tmp_path: Path) -> None:
    client = Offering()
    made: list[First] = []

    def app(remote: Any) -> First:
        made.append(First(remote))
        return made[-1]

    async with pair(app, client), asyncio.timeout(60):
        session = await client.new_session(tmp_path)
        words = await said(session, 'scribe/greet {"name": "Ada"}', 'pen/greet {"name": "Bo"}', "scribe/climb")
    assert words[:2] == ["Hello, Ada!", "Hello, Bo!"]
    assert words[2].split("\n") == ["on top", *(f"notifications/progress: step {step}" for step in (1, 2, 3))]


@pytest.mark.parametrize("agent", [First, Second])
async def test_an_agent_behind_a_gateway_uses_a_server_of_the_clients_process(
    agent: type[Agent], tmp_path: Path
) -> None:
    client = Offering()
    async with hosting(tmp_path, agent) as house, house.visit("ann", client), asyncio.timeout(120):
        session = await client.new_session(tmp_path)
        words = await said(session, 'scribe/greet {"name": "Ada"}', 'pen/greet {"name": "Bo"}', "scribe/climb")
    assert words[:2] == ["Hello, Ada!", "Hello, Bo!"] and words[2].startswith("on top")


async def test_requests_that_nothing_can_answer_fail_one_by_one(tmp_path: Path) -> None:
    outcomes: list[tuple[int, str]] = []
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}

    class Wrong(Agent):
        accepts = ("acp",)

        async def answer(self, turn: Any) -> None:
            ids = {each.name: each.server_id for each in turn.session.mcp_servers}
            for asked in (
                s.MessageMcpRequest(server_id="nobody", request_id="1", method="tools/list", params=meta),
                s.MessageMcpRequest(server_id=ids["broken"], request_id="1", method="tools/list", params=meta),
                s.ConnectionMcpRequest(connection_id="nothing", method="tools/list"),
            ):
                try:
                    await self.client.message_mcp(asked)
                except RpcError as exc:
                    outcomes.append((exc.code, exc.message))
            fine = s.MessageMcpRequest(server_id=ids["scribe"], request_id="1", method="no/such", params=meta)
            outcomes.append((0, str(await self.client.message_mcp(fine))))

    broken = s.McpServerStdio(name="broken", command="/no/such/program", args=[], env=[])
    client = Offering(scribe(), broken)
    async with pair(Wrong, client), asyncio.timeout(60):
        session = await client.new_session(tmp_path)
        await session.prompt("go")
    assert [code for code, _ in outcomes] == [-33001, -33002, -33001, 0]
    assert "'broken' cannot be started" in outcomes[1][1] and "-32601" in outcomes[3][1]


async def test_a_process_of_the_client_that_died_is_started_again(tmp_path: Path) -> None:
    rogue = s.McpServerStdio(
        name="r", command=sys.executable, args=[str(Path(__file__).with_name("rogue_server.py"))], env=[]
    )
    client = Offering(rogue)
    async with pair(Second, client), asyncio.timeout(60):
        session = await client.new_session(tmp_path)
        words = await said(session, "r/greet", "r/die", "r/greet")
    assert words[0].startswith("Hello from") and "McpFailure" in words[1]
    assert words[2].startswith("Hello from") and words[2] != words[0]


async def test_an_agent_that_takes_no_servers_over_acp_starts_processes_itself(tmp_path: Path) -> None:
    class Plain(Agent):
        async def answer(self, turn: Any) -> None:
            await turn.say(str([type(each).__name__ for each in turn.session.mcp_servers]))

    client = Offering(PEN)
    async with pair(Plain, client):
        assert await said(await client.new_session(tmp_path), "go") == ["['McpServerStdio']"]
    client = Offering(scribe())
    async with pair(Plain, client):
        with pytest.raises(NotOffered, match="takes no MCP servers over ACP"):
            await client.new_session(tmp_path)
