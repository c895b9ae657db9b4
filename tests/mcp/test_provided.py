"""MCP servers that a client offers its agents over ACP, in both generations of it."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from gateway.house import hosting
from patience import PATIENCE
from providing import PEN, First, Offering, OlderOffering, Second, said, scribe

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


async def asked_by(agent: type[First], cwd: Path, *prompts: str) -> tuple[First, list[str]]:
    """An agent of the first generation after prompts, and what it said."""
    made: list[First] = []

    def app(remote: Any) -> First:
        made.append(agent(remote))
        return made[-1]

    client = Offering()
    async with pair(app, client), asyncio.timeout(60):
        return made[0], await said(await client.new_session(cwd), *prompts)


async def test_a_server_asks_an_agent_of_the_first_generation(tmp_path: Path) -> None:
    agent, words = await asked_by(First, tmp_path, "scribe/paint", "scribe/think", "pen/ask")
    assert words[:2] == ["all red", "Because."]
    assert json.loads(words[2]) == {"action": "accept", "content": {"colour": "red"}}
    assert agent.asked == ["elicitation/create", "sampling/createMessage", "elicitation/create"]


async def test_a_server_hears_that_an_agent_answers_something_else(tmp_path: Path) -> None:
    class Mumbling(First):
        async def mcp_request(self, params: Any) -> Any:
            return "nothing"

        async def answer(self, turn: Any) -> None:
            try:
                await super().answer(turn)
            except RpcError as exc:
                await turn.say(exc.message)

    _, words = await asked_by(Mumbling, tmp_path, "scribe/think", 'scribe/greet {"name": "Ada"}')
    assert "no object" in words[0] and words[1] == "Hello, Ada!"


async def test_every_one_of_too_many_questions_has_an_answer(tmp_path: Path) -> None:
    class Waiting(First):
        """Answers once all questions beyond those that can be open were refused."""

        def __init__(self, client: Any) -> None:
            super().__init__(client)
            self.full = asyncio.Event()

        def mcp_notification(self, params: Any) -> None:
            super().mcp_notification(params)
            if len(self.heard) == 100 - 64:
                self.full.set()

        async def mcp_request(self, params: Any) -> Any:
            await self.full.wait()
            return await super().mcp_request(params)

    agent, (words,) = await asked_by(Waiting, tmp_path, "scribe/pester")
    assert words.startswith("64 of 100") and len(agent.asked) == 64


async def test_an_agent_that_floods_a_connection_with_notifications_is_served_all_the_same(tmp_path: Path) -> None:
    class Flooding(First):
        async def answer(self, turn: Any) -> None:
            (server,) = (each for each in turn.session.mcp_servers if each.name == "scribe")
            line = (await self.client.connect_mcp(s.ConnectMcpRequest(server_id=server.server_id))).connection_id
            for number in range(20_000):
                params = {"progressToken": number, "progress": 1}
                self.client.notify_mcp(
                    s.ConnectionMcpNotification(connection_id=line, method="notifications/progress", params=params)
                )
                await self.client.room()
            await super().answer(turn)

    _, words = await asked_by(Flooding, tmp_path, 'scribe/greet {"name": "Ada"}')
    assert words == ["Hello, Ada!"]


@pytest.mark.parametrize("way", ["direct", "gateway"])
async def test_an_agent_uses_the_connections_of_a_client_of_the_first_generation(way: str, tmp_path: Path) -> None:
    client = OlderOffering()
    async with asyncio.timeout(PATIENCE), contextlib.AsyncExitStack() as stack:
        if way == "gateway":
            house = await stack.enter_async_context(hosting(tmp_path, Second))
            await stack.enter_async_context(house.visit("ann", client))
        else:
            await stack.enter_async_context(pair(Second, client))
        session = await client.new_session(tmp_path)
        words = await said(
            session, 'scribe/greet {"name": "Ada"}', "scribe/fail", "scribe/climb", "scribe/paint", "pen/ask"
        )
    assert words[0] == "Hello, Ada!" and "it cannot be done" in words[1] and words[2:4] == ["on top", "all blue"]
    assert json.loads(words[4]) == {"action": "accept", "content": {"colour": "blue"}}
    titles = [u.update.title for u in client.updates if isinstance(u.update, s.ToolCallUpdated) and u.update.title]
    assert any("of 3: step" in title for title in titles)


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


async def test_a_process_that_died_is_started_again_for_an_agent_that_knows_no_connections(tmp_path: Path) -> None:
    class Older(Agent):
        """Sends requests with a handshake, but names no connection: a dialect hides those."""

        accepts = ("acp",)

        async def answer(self, turn: Any) -> None:
            (server,) = turn.session.mcp_servers
            method, _, given = turn.text.partition(" ")
            asked = s.MessageMcpRequest(
                server_id=server.server_id, request_id="1", method=method, params=json.loads(given)
            )
            await turn.say(json.dumps(await self.client.message_mcp(asked)))

    rogue = s.McpServerStdio(
        name="r", command=sys.executable, args=[str(Path(__file__).with_name("rogue_server.py"))], env=[]
    )
    info = {"name": "older", "version": "1"}
    hello = json.dumps({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
    client = Offering(rogue)
    async with pair(Older, client), asyncio.timeout(60):
        session = await client.new_session(tmp_path)
        begin, greet, die = f"initialize {hello}", 'tools/call {"name": "greet"}', 'tools/call {"name": "die"}'
        words = await said(session, begin, greet, die)
        while "Hello from" not in (again := (await said(session, greet))[0]):
            assert "error" in again  # it is just ending
    assert "Hello from" in words[1] and "error" in words[2] and again != words[1]


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
