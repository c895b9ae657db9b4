"""A wire tells from the greeting which dialect is spoken, and is not in the way of whoever needs no translation."""

import asyncio
import json
import logging

import pytest

from dragoman import Agent, AuthRequired, RpcError, connect, serve_on
from dragoman import schema as s
from dragoman.coder import Coder
from dragoman.dialects import detect, proper_name
from dragoman.testing import RecordingClient, Testy, raw
from dragoman.testing.pairing import RawWire
from dragoman.transports.memory import pipe
from dragoman.transports.translating import TranslatingTransport

DRAFT_WELCOME = {
    "protocolVersion": 1,
    "agentInfo": {"name": "drafty", "version": "1"},
    "capabilities": {"loadSession": False},
}
PHARO_WELCOME = {"protocolVersion": 1, "agentCapabilities": {}, "authenticationMethods": []}
JETBRAINS_WELCOME = {
    "protocolVersion": 1,
    "capabilities": {"tools": []},
    "serverInfo": {"name": "ij", "version": "1"},
}


async def meet(answers, dialect=None, client=None):
    """Connect to an agent that answers `initialize` by hand, each time the next way; gives how it was greeted."""
    ours, theirs = pipe()
    wire, greetings = RawWire(theirs), []

    async def welcome():
        for answer in answers:
            request = await wire.receive()
            greetings.append(request["params"])
            wire.send({"id": request["id"], **answer})

    async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
        tasks.create_task(welcome())
        async with connect(ours, client or RecordingClient(), dialect=dialect) as connected:
            return connected, greetings


async def test_an_agent_of_another_dialect_is_greeted_again_in_its_own_words(caplog):
    caplog.set_level(logging.INFO, logger="dragoman")
    client, greetings = await meet([{"result": DRAFT_WELCOME}, {"result": DRAFT_WELCOME}])
    assert client.dialect == "draft"
    assert client.agent_info.name == "drafty"
    assert [("capabilities" in greeting) for greeting in greetings] == [False, True]
    assert greetings[1]["capabilities"]["terminal"]["create"] is True
    assert "the agent speaks the dialect draft" in caplog.text


async def test_an_agent_that_will_not_be_greeted_twice_is_taken_at_its_first_word():
    refusal = {"error": {"code": -32600, "message": "again?"}}
    client, greetings = await meet([{"result": DRAFT_WELCOME}, refusal])
    assert client.dialect == "draft"
    assert client.agent_info.name == "drafty"
    assert len(greetings) == 2


async def test_an_agent_that_understands_no_greeting_but_its_own_is_found_out():
    refusal = {"error": {"code": -32602, "message": "capabilities are missing"}}
    answers = [refusal, {"result": DRAFT_WELCOME}, {"result": DRAFT_WELCOME}]
    client, greetings = await meet(answers)
    assert client.dialect == "draft"
    assert greetings[-1]["capabilities"]["fs"] == {"read": True, "write": True, "watch": False}


async def test_an_agent_that_is_greeted_in_its_dialect_is_greeted_once():
    client, greetings = await meet([{"result": DRAFT_WELCOME}], dialect="d3")
    assert client.dialect == "draft"
    assert "capabilities" in greetings[0]


async def test_terminals_are_offered_to_a_pharo_agent_one_method_at_a_time():
    client, greetings = await meet([{"result": PHARO_WELCOME}, {"result": PHARO_WELCOME}])
    assert client.dialect == "pharo"
    assert greetings[1]["clientCapabilities"]["terminal"]["waitForExit"] is True


async def test_an_agent_of_the_jetbrains_guide_has_understood_us_the_first_time():
    client, greetings = await meet([{"result": JETBRAINS_WELCOME}])
    assert client.dialect == "jetbrains"
    assert client.agent_info.name == "ij"
    assert len(greetings) == 1


async def test_an_agent_that_requires_what_the_client_lacks_is_refused():
    required = {**DRAFT_WELCOME, "requiredClientCapabilities": {"fs": {"read": True, "watch": True}}}
    with pytest.raises(ExceptionGroup) as failed:
        await meet([{"result": required}], dialect="draft")
    (error,) = failed.value.exceptions
    assert isinstance(error, RpcError)
    assert "fs.watch" in str(error)
    assert "fs.read" not in str(error)


async def test_whoever_speaks_version_1_is_not_translated():
    ours, theirs = pipe()
    wire = TranslatingTransport(ours, "agent")
    agent = RawWire(theirs)
    welcome = asyncio.create_task(agent.welcome())
    async with connect(wire, RecordingClient()) as client:
        await welcome
        assert client.dialect == "v1"
        assert wire.translator is None
        assert wire.send == ours.send
        assert client.session("s").dialect == "v1"


async def test_a_client_of_the_draft_is_served_by_any_agent():
    async with asyncio.timeout(5), raw(Testy) as wire:
        answer = await wire.request(
            "initialize", {"protocolVersion": 1, "clientInfo": {"name": "e", "version": "1"}, "capabilities": {}}
        )
        assert answer["result"]["capabilities"]["loadSession"] is True
        opened = (await wire.request("session/new", {"workingDirectory": "/"}))["result"]
        prompt = {"sessionId": opened["sessionId"], "content": [{"type": "text", "text": "hello"}]}
        assert (await wire.request("session/prompt", prompt))["result"]["stopReason"] == "end_turn"


async def test_a_client_of_the_jetbrains_guide_is_told_the_tools_with_their_schemas():
    ours, theirs = pipe()
    serving = asyncio.create_task(serve_on(Coder, theirs, dialect="jetbrains"))
    wire = RawWire(ours)
    result = (await wire.initialize())["result"]
    tools = {tool["name"]: tool for tool in result["capabilities"]["tools"]}
    assert {"read_file", "edit_file", "run_command", "search"} <= set(tools)
    assert all(tool["description"] and tool["inputSchema"]["type"] == "object" for tool in tools.values())
    assert tools["read_file"]["inputSchema"]["required"] == ["path"]
    assert "_meta" not in result["agentCapabilities"]
    await wire.hang_up()
    await serving


async def test_a_client_of_version_1_is_sent_no_list_of_tools():
    ours, theirs = pipe()
    serving = asyncio.create_task(serve_on(Coder, theirs))
    wire = RawWire(ours)
    assert "tools" not in (await wire.initialize())["result"]["agentCapabilities"]["_meta"]["dragoman"]
    await wire.hang_up()
    await serving


async def test_a_client_can_be_served_in_a_dialect_nobody_could_have_told():
    ours, theirs = pipe()
    serving = asyncio.create_task(serve_on(Testy, theirs, dialect="jetbrains"))
    wire = RawWire(ours)
    answer = await wire.initialize()
    assert answer["result"]["serverInfo"]["name"] == "testy"
    assert answer["result"]["capabilities"] == {"tools": []}
    await wire.hang_up()
    await serving


@pytest.mark.parametrize(
    ("params", "dialect"),
    [
        ({"protocolVersion": 1, "capabilities": {}}, "draft"),
        ({"protocolVersion": 1, "clientCapabilities": {"terminal": {"create": True, "output": False}}}, "pharo"),
        ({"protocolVersion": 1, "clientCapabilities": {"terminal": {"create": True}}}, None),
        ({"protocolVersion": 1, "clientCapabilities": {"terminal": {}}}, None),
        ({"protocolVersion": 1, "clientCapabilities": {"terminal": True}}, None),
        ({"protocolVersion": 1}, None),
        (None, None),
        ([1, 2], None),
        ({"clientCapabilities": []}, None),
    ],
)
def test_a_client_shows_its_dialect_when_it_greets(params, dialect):
    assert detect({"method": "initialize", "params": params}, "client") == dialect


@pytest.mark.parametrize(
    ("result", "dialect"),
    [
        (DRAFT_WELCOME, "draft"),
        (PHARO_WELCOME, "pharo"),
        ({"agentCapabilities": {"sessionModes": []}}, "pharo"),
        ({"agentCapabilities": {"mcpCapabilities": {"supportedTransports": []}}}, "pharo"),
        (JETBRAINS_WELCOME, "jetbrains"),
        ({"protocolVersion": 1, "agentCapabilities": {}}, None),
        (None, None),
        ("nonsense", None),
    ],
)
def test_an_agent_shows_its_dialect_when_it_answers(result, dialect):
    assert detect({"id": 1, "result": result}, "agent") == dialect


def test_a_dialect_goes_by_its_number_too():
    assert proper_name("D3") == "draft"
    with pytest.raises(ValueError, match="there is no dialect 'klingon'; choose one of v1, "):
        proper_name("klingon")


@pytest.mark.parametrize("dialect", ["pharo", "draft", "jetbrains", "legacy", "cursor", "beamcode"])
async def test_what_is_no_message_passes_as_it_is(dialect):
    ours, theirs = pipe()
    wire = TranslatingTransport(ours, "client", dialect)
    heard, everything = [], asyncio.Event()

    def hear(frames):
        heard.extend(frames)
        if len(heard) == len(noise):
            everything.set()

    wire.listen(hear, lambda: None)
    noise = [b"noise", b"[]", b"7", b'{"jsonrpc":', b"[" * 5000, b"\xff\xfe", b'"text"', b"null"]
    theirs.listen(lambda frames: None, lambda: None)
    theirs.send(noise)
    async with asyncio.timeout(5):
        await everything.wait()
    assert heard == noise
    wire.send(noise)
    await wire.close()


@pytest.mark.parametrize("dialect", ["pharo", "draft", "jetbrains", "legacy", "cursor", "beamcode"])
@pytest.mark.parametrize("peer", ["agent", "client"])
def test_no_message_whatever_its_shape_is_too_much_for_a_translator(dialect, peer):
    from dragoman.dialects import translator

    methods = {name for side in ("to_agent", "to_client") for name in getattr(translator(dialect, peer), side)}
    odd = [None, 7, "x", [], {}, [{}], {"sessionId": 5}, {"update": 3}, {"update": {}}, {"toolCall": []}]
    odd += [{"options": 1, "toolCall": {"toolCallId": 1}}, {"prompt": [1], "content": [2], "sessionId": "s"}]
    t = translator(dialect, peer)
    for method in sorted(methods | {"unheard/of", "$/cancel_request", "session/update"}):
        for number, params in enumerate(odd):
            for turn in (t.inward, t.outward):
                turn({"jsonrpc": "2.0", "method": method, "params": params})
                for message in (
                    translation := turn({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                ).onward:
                    json.dumps(message)
                    back = t.inward if turn == t.outward else t.outward
                    for result in odd:
                        back({"jsonrpc": "2.0", "id": message.get("id"), "result": result})
                    back({"jsonrpc": "2.0", "id": message.get("id"), "error": 5})
                for _, key in translation.wakes:
                    t.timer_due(key)
                    t.timer_due(key)


class Strict(Agent):
    auth_methods = (s.AuthMethodAgent(id="key", name="With a key"),)

    async def authenticate(self, params):
        raise AuthRequired("these credentials are not good")

    async def answer(self, turn): ...


@pytest.mark.parametrize("round", range(5))  # the first answers of a process are slow and so never sent together
@pytest.mark.parametrize("dialect", ["v1", "pharo"])
async def test_an_agent_hangs_up_after_three_logins_with_wrong_credentials(dialect, round):
    wrong = {"apiKey": "wrong"}
    login = {"credentials": wrong} if dialect == "pharo" else {"_meta": {"credentials": wrong}}
    ours, theirs = pipe()
    serving = asyncio.create_task(serve_on(Strict, theirs, dialect=dialect))
    wire = RawWire(ours)
    await wire.initialize()
    for _ in range(3):
        assert not serving.done()
        assert "not good" in (await wire.request("authenticate", {"methodId": "key", **login}))["error"]["message"]
    async with asyncio.timeout(60):
        await serving


async def test_a_login_without_credentials_may_fail_as_often_as_it_likes():
    ours, theirs = pipe()
    serving = asyncio.create_task(serve_on(Strict, theirs))
    wire = RawWire(ours)
    await wire.initialize()
    for _ in range(5):
        assert "error" in await wire.request("authenticate", {"methodId": "key"})
    assert not serving.done()
    await wire.hang_up()
    await serving
