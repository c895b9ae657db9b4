"""What the documents show is said to our own agent by a client, and to our own client by an agent: each is taken.

The examples are those of `examples.py`, and where the documents lie beside the project, every JSON block of them.
"""

import asyncio
import contextlib

import pytest

from dragoman import InternalError, connect
from dragoman import schema as s
from dragoman.agent.serving import serve_on
from dragoman.testing import RawWire, RecordingClient, Testy
from dragoman.transports.memory import pipe

from .examples import EXAMPLES
from .line import CLIENT_CALLS
from .test_examples import NOT_SAID, PARTS, documents, sorted_into_places

LIMIT = 60
GREETINGS = {
    "pharo": {"clientCapabilities": {"terminal": {"create": True, "output": True}}},
    "draft": {"capabilities": {"fs": {"read": True}}, "clientInfo": {"name": "c", "version": "1"}},
}
WELCOMES = {
    "pharo": {"agentCapabilities": {"loadSession": True, "sessionModes": []}, "authenticationMethods": []},
    "draft": {"capabilities": {"loadSession": True}, "agentInfo": {"name": "a", "version": "1"}},
    "jetbrains": {"capabilities": {"tools": []}, "serverInfo": {"name": "a", "version": "1"}},
}


class Reader(Testy):
    """Has the modes and options that the documents speak of, and lets everybody in."""

    modes = [s.SessionMode(id=id, name=id) for id in ("code", "architect", "ask", "plan", "write")]
    config_options = [
        s.SessionConfigBoolean(id="autoApproveTools", name="A", current_value=False),
        s.SessionConfigSelect(
            id="model",
            name="Model",
            category="model",
            current_value="small",
            options=[s.SessionConfigSelectOption(value=id, name=id) for id in ("small", "large")],
        ),
        s.SessionConfigSelect(
            id="maxTokens",
            name="M",
            current_value="1",
            options=[s.SessionConfigSelectOption(value=str(n), name=str(n)) for n in (1, 8192, 4096, 2.5)],
        ),
    ]

    async def authenticate(self, params):
        return s.AuthenticateResponse()


def said_in_the_documents():
    """Every example: the dialect, where it stands, where it belongs, what is said."""
    for dialect, examples in EXAMPLES.items():
        for number, (place, said) in enumerate(examples):
            yield dialect, f"example {number}", place, said
    asked = {}
    for dialect, line, value in documents():
        if not any(name in value for name in NOT_SAID):
            for place, said in sorted_into_places(dialect, value, asked):
                yield dialect, f"line {line}", place, said


def cases(is_wanted):
    for dialect, where, place, said in said_in_the_documents():
        if is_wanted(place):
            yield pytest.param(dialect, place, said, id=f"{dialect} {where} {place}")


def is_of_a_client(place):
    return place in CLIENT_CALLS or place in ("block", "server", "client capabilities", "session/cancel")


def is_of_an_agent(place):
    return place in ("update", "tool content", "agent capabilities", "session/update", *AGENT_CALLS, *AGENT_ANSWERS)


AGENT_ANSWERS = ("= initialize", "= session/new", "= session/prompt")
AGENT_CALLS = ("session/request_permission", "fs/read_text_file", "fs/write_text_file")


# A client says it to our agent


@contextlib.asynccontextmanager
async def agent_spoken_to(dialect, greeting=None):
    ours, theirs = pipe()
    serving = asyncio.create_task(serve_on(Reader, theirs, dialect=dialect))
    wire = RawWire(ours)
    try:
        async with asyncio.timeout(LIMIT):
            hello = {"protocolVersion": 1, **(greeting or GREETINGS.get(dialect, {}))}
            wire.greeting = await wire.request("initialize", hello)
            yield wire
    finally:
        await wire.hang_up()
        await serving


def opening(dialect):
    return {"workingDirectory": "/"} if dialect == "draft" else {"cwd": "/", "mcpServers": []}


@pytest.mark.parametrize(("dialect", "place", "said"), list(cases(is_of_a_client)))
async def test_our_agent_takes_what_a_client_of_the_document_says(dialect, place, said):
    if place in PARTS:
        place, said, _ = PARTS[place](dialect, said)
    if place == "initialize":
        async with agent_spoken_to(dialect, said) as wire:
            assert wire.greeting["result"]["protocolVersion"] == 1
        return
    async with agent_spoken_to(dialect) as wire:
        opened = await wire.request("session/new", opening(dialect))
        if place != "session/new" or "sessionId" in said:
            said = {**said, "sessionId": opened["result"]["sessionId"]}
        if place == "session/cancel":
            wire.tell(place, said)
            assert "result" in await wire.request("session/new", opening(dialect))
            return
        if place == "authenticate":
            said = {name: member for name, member in said.items() if name != "sessionId"}
        answer = await wire.request(place, said)
        if "websocket" in str(said.get("mcpServers")):  # how a client reaches an agent: no MCP server is reached so
            assert answer["error"]["code"] == -32602
            return
        assert "result" in answer, answer
        if place == "session/prompt":
            assert answer["result"]["stopReason"] == "end_turn"


# An agent says it to our client


@contextlib.asynccontextmanager
async def client_spoken_to(dialect, welcome=None, opened=None):
    """Our client with a session of a scripted agent; gives both."""
    ours, theirs = pipe()
    agent, client = RawWire(theirs), RecordingClient()

    async def receive():
        request = await agent.receive(LIMIT)
        while request["method"] == "initialize":  # once, or again in the words of the dialect
            agent.send(
                {"id": request["id"], "result": {"protocolVersion": 1, **(welcome or WELCOMES.get(dialect, {}))}}
            )
            request = await agent.receive(LIMIT)
        agent.send({"id": request["id"], "result": {"sessionId": "sess_1", **(opened or {})}})

    async with asyncio.timeout(LIMIT):
        receiving = asyncio.create_task(receive())
        async with connect(ours, client, dialect=dialect) as connected:
            session = await connected.new_session("/")
            await receiving
            yield session, agent, client


@pytest.mark.parametrize(("dialect", "place", "said"), list(cases(is_of_an_agent)))
async def test_our_client_takes_what_an_agent_of_the_document_says(dialect, place, said):
    if place in PARTS:
        place, said, _ = PARTS[place](dialect, said)
    if place == "= initialize":
        said = {name: member for name, member in said.items() if name != "requiredClientCapabilities"}
        async with client_spoken_to(dialect, welcome=said) as (session, _, _):
            assert session.id == "sess_1"
    elif place == "= session/new":
        async with client_spoken_to(dialect, opened=said) as (session, _, _):
            assert session.id == said["sessionId"]
            if said.get("models"):
                assert session.config_options
    elif place == "= session/prompt":
        await check_turn(dialect, said)
    elif place == "session/update":
        await check_update(dialect, said)
    else:
        await check_request(dialect, place, said)


async def check_turn(dialect, said):
    async with client_spoken_to(dialect) as (session, agent, client):
        prompt = asyncio.ensure_future(_ended(session.prompt("go")))
        request = await agent.receive(LIMIT)
        agent.send({"id": request["id"], "result": said})
        if said["stopReason"] == "error":
            with pytest.raises(InternalError):
                await prompt
        else:
            assert (await prompt).stop_reason == said["stopReason"]
        told = [note.update.content.text for note in client.updates]
        assert told == [block["text"] for block in said.get("content") or ()]


async def _ended(prompt):
    return await prompt


async def check_update(dialect, said):
    async with client_spoken_to(dialect) as (session, agent, client):
        agent.tell("session/update", {**said, "sessionId": session.id})
        agent.send({"id": "after", "method": "_nobody/knows"})
        assert (await agent.answer("after"))["error"]["code"] in (-32601, -32007)
        assert client.updates, said
        assert not isinstance(client.updates[-1].update, s.Raw), client.updates


async def check_request(dialect, place, said):
    async with client_spoken_to(dialect) as (session, agent, client):
        said = {**said, "sessionId": session.id} if "sessionId" in said else said
        path = said.get("path", "/a")
        client.files |= {path if path.startswith("/") else f"/{path}": "1\n2\n3\n"}
        agent.send({"id": "asked", "method": place, "params": said})
        answer = await agent.answer("asked")
        assert "result" in answer, answer
        if place == "session/request_permission":
            assert is_allowed(said, answer["result"]), (said, answer)


def is_allowed(asked, result):
    """Whether an answer to a question says yes: in so many words, or by an option that the question calls a yes."""
    if "granted" in result:
        return result["granted"] is True
    chosen = result["selectedOptionId"] if "selectedOptionId" in result else result["outcome"]["optionId"]
    kinds = {option.get("optionId", option["kind"]): option["kind"] for option in asked["options"]}
    return kinds[chosen].startswith("allow")
