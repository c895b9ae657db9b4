"""At the edge of a dialect every frame has an outcome of its own, whatever is wrong with it or with others."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import tracemalloc

import pytest

from dragoman import connect
from dragoman.dialects import NAMES, detect, translator
from dragoman.dialects.draft.terminals import ROOM, DraftTerminal
from dragoman.errors import InternalError
from dragoman.host import Host
from dragoman.testing.pairing import RawWire
from dragoman.transports.memory import pipe
from dragoman.transports.translating import TranslatingTransport

from .line import Line

DRAGOMAN = [sys.executable, "-m", "dragoman"]
LIMIT = 30  # seconds
MIB = 1024 * 1024
DIALECTS = [name for name in NAMES if translator(name, "client") is not None]
ODD_IDS = ([1], {"a": 1}, True, 1.5, None, [], {}, [[1], {}])


def request(id, method="session/list", params=None):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params}


def greeting(version=1, **more):
    return request(1, "initialize", {"protocolVersion": version, **more})


def conversation(frames, wanted, *options, agent=("agent", "testy"), directory=None):
    """What `dragoman translate` writes until as many lines are there as are wanted, given frames at once."""
    command = [*DRAGOMAN, "translate", *options, "--", *(agent if "/" in agent[0] else [*DRAGOMAN, *agent])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=directory) as process:
        try:
            for frame in frames:
                process.stdin.write((frame if isinstance(frame, bytes) else json.dumps(frame).encode()) + b"\n")
            process.stdin.flush()
            return [json.loads(process.stdout.readline()) for _ in range(wanted)]
        finally:
            process.stdin.close()
            process.wait(LIMIT)


@pytest.mark.timeout(LIMIT)
def test_a_version_that_is_none_is_answered():
    versions = [65536, "2", -1, None, [], True]  # one after the other, for none of them greets
    greetings = [{**greeting(version, clientCapabilities={}), "id": id} for id, version in enumerate(versions)]
    answers = conversation(greetings, len(versions))
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [
        (id, -32602) for id in range(len(versions))
    ]


@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize("client", ["pharo", "draft"])
def test_a_client_whose_words_an_agent_takes_for_version_2_is_answered_once_and_under_its_own_id(client):
    later = greeting(2, capabilities={}, info={"name": "a", "version": "1"})
    answers = conversation([later, request(2, "_dragoman/unknown")], 2, "--from", client)
    assert sorted(answer["id"] for answer in answers) == [1, 2]


@pytest.mark.timeout(LIMIT)
def test_a_batch_is_refused_and_what_follows_is_answered():
    answers = conversation([[request("in a batch")], greeting(), request(2)], 3)
    codes = {answer["id"]: answer.get("error", {}).get("code") for answer in answers}
    assert codes.pop("in a batch") == -32600
    assert codes.pop(1) is None
    assert list(codes) == [2]


@pytest.mark.timeout(LIMIT)
def test_a_request_above_the_limit_is_refused_by_its_id_and_what_follows_is_answered():
    long = json.dumps(request("long", "session/prompt", {"text": "x" * (17 * MIB)})).encode()
    answers = conversation([long, greeting()], 2)
    assert {answer["id"]: answer.get("error", {}).get("code") for answer in answers} == {"long": -32600, 1: None}


LONG_ANSWERS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        size = 17 * 2**20 if asked["method"] == "session/list" else 1
        result = {"protocolVersion": 1, "agentCapabilities": {}, "x": "x" * size}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize("client", ["v1", "draft"])
def test_an_answer_above_the_limit_is_an_error_to_whoever_waits_for_it(client):
    asked = [greeting(clientCapabilities={}, capabilities={}), request(2), request(3, "_other")]
    answers = conversation(asked, 3, "--from", client, agent=(sys.executable, "-c", LONG_ANSWERS))
    assert {answer["id"]: answer.get("error", {}).get("code") for answer in answers} == {
        1: None,
        2: -32603,
        3: None,
    }


@pytest.mark.timeout(LIMIT)
def test_a_directory_that_was_deleted_stops_no_handshake():
    with tempfile.TemporaryDirectory() as above:
        here = os.path.join(above, "here")
        os.mkdir(here)
        command = ["sh", "-c", 'rmdir "$0" && exec "$@"', here, *DRAGOMAN, "translate", "--from", "draft", "--"]
        agent = ["sh", "-c", 'cd / && exec "$@"', "sh", *DRAGOMAN, "agent", "testy"]
        done = subprocess.run(
            [*command, *agent],
            input=json.dumps(greeting(capabilities={})) + "\n",
            stdout=subprocess.PIPE,
            cwd=here,
            text=True,
            timeout=LIMIT,
        )
    assert json.loads(done.stdout.splitlines()[0])["result"]["protocolVersion"] == 1


@pytest.mark.parametrize("peer", ["client", "agent"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_id_that_is_none_is_passed_on_for_its_reader_to_refuse(dialect, peer):
    edge = translator(dialect, peer)
    methods = ("initialize", "session/new", "session/prompt", "terminal/create", "session/request_permission", "_x")
    for id in ODD_IDS:
        for method in methods:
            message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {}}
            assert edge.inward(message).onward == [message]
            assert edge.outward(message).onward == [message]
        for answer in ({"result": {}}, {"error": {"code": [1], "message": {}}}):
            said = {"jsonrpc": "2.0", "id": id, **answer}
            assert edge.inward(said).onward == [said]
            assert edge.outward(said).onward == [said]


@pytest.mark.parametrize("code", [[1], {"a": 1}, None, "x", 1.5, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_of_any_code_answers_its_request(dialect, code):
    line = Line("v1", dialect)
    line.say("client", request(7, "session/set_mode", {"sessionId": "s", "modeId": "m"}))
    if not line.at["agent"]:
        return  # the dialect has no such call, and it is answered already
    asked = line.take("agent")
    kind = {"kind": "timeout"}
    line.say("agent", {"id": asked["id"], "error": {"code": code, "message": "no", "data": kind}})
    assert line.take("client")["id"] == 7


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_with_one_id_are_answered_each(dialect):
    line = Line(dialect, "v1")
    opening = {"cwd": "/", "workingDirectory": "/", "mcpServers": []}
    for _ in range(3):
        line.say("client", request(5, "session/new", opening))
    asked = [line.take("agent") for _ in range(len(line.at["agent"]))]
    for number, message in enumerate(asked):
        line.say("agent", {"id": message["id"], "result": {"sessionId": f"s{number}"}})
    answers = [message for message in line.at["client"] if "method" not in message]
    assert [answer["id"] for answer in answers] == [5] * 3


@pytest.mark.parametrize("dialect", ["draft", "pharo"])
async def test_a_translator_that_fails_costs_the_frame_it_is_about(dialect, monkeypatch):
    ours, theirs = pipe()
    wire, agent = TranslatingTransport(ours, "agent", dialect), RawWire(theirs)
    assert wire.translator is not None
    take = wire.translator._take

    def failing(message, from_peer):
        if "bad" in json.dumps(message):
            raise RuntimeError("a mistake of ours")
        take(message, from_peer)

    monkeypatch.setattr(wire.translator, "_take", failing)
    heard, done = [], asyncio.Event()

    def hear(frames):
        heard.extend(json.loads(frame) for frame in frames)
        if len(heard) >= 4 or heard[0].get("id") == 8:
            done.set()

    wire.listen(hear, done.set)
    notes = [{"jsonrpc": "2.0", "method": f"_note/{n}", "params": {}} for n in range(3)]
    bad = {"jsonrpc": "2.0", "id": "q", "method": "_bad", "params": {}}
    answer = {"jsonrpc": "2.0", "id": 9, "result": "bad"}
    agent.send(notes[0], bad, notes[1], answer, notes[2])
    async with asyncio.timeout(LIMIT):
        await done.wait()
        refused = await agent.receive()
    assert [message.get("method", message.get("id")) for message in heard] == ["_note/0", "_note/1", 9, "_note/2"]
    assert heard[2]["error"]["code"] == -32603
    assert refused["id"] == "q"
    assert "error" in refused
    heard.clear()
    done.clear()
    wire.send([json.dumps(message).encode() for message in (notes[0], request(8, "_bad"), notes[1])])
    async with asyncio.timeout(LIMIT):
        assert [(await agent.receive())["method"] for _ in range(2)] == ["_note/0", "_note/1"]
        await done.wait()
    assert (heard[0]["id"], heard[0]["error"]["code"]) == (8, -32603)
    await wire.close()


def test_one_odd_member_is_no_mark_of_a_dialect():
    for terminal in ({}, {"create": True}, {"enabled": True, "maxConcurrent": 3}, {"create": "yes", "kill": "no"}):
        params = {"protocolVersion": 1, "clientCapabilities": {"terminal": terminal}}
        assert detect({"method": "initialize", "params": params}, "client") is None


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["allow_always", "reject_once"], "reject_once"),
        (["allow_always", "reject_always"], "reject_always"),
        (["allow_once", "allow_always", "reject_once"], "allow_once"),
    ],
)
def test_what_a_client_of_the_draft_allows_once_is_never_allowed_for_good_nor_cancelled(offered, chosen):
    line = Line("draft", "v1")
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in offered]
    question = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": options}
    asked = line.ask("agent", "session/request_permission", question)
    told = line.answer("client", asked, {"granted": True, "scope": "once"})
    assert told["result"]["outcome"] == {"outcome": "selected", "optionId": chosen}


@pytest.mark.timeout(60)
async def test_a_command_that_prints_more_than_a_frame_holds_is_waited_for(tmp_path):
    """What it prints is six times as long written as JSON."""
    host = Host(preset="allow-all", audit=False, store=False)
    agent = [*DRAGOMAN, "agent", "testy", "--dialect", "draft"]
    async with asyncio.timeout(50), connect(agent, host) as client:
        session = await client.new_session(tmp_path)
        assert session.dialect == "draft"
        assert (await session.prompt(f"run head -c {17 * MIB} /dev/zero")).stop_reason == "end_turn"


def test_a_push_of_output_costs_no_more_once_a_lot_is_kept():
    terminal = DraftTerminal()
    for _ in range(3):
        terminal.add("é" * (ROOM // 2))
    assert len(terminal.output.encode()) <= ROOM
    tracemalloc.start()
    try:
        for number in range(20_000):
            terminal.add(f"{number}\n")
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most - kept < ROOM // 4  # what was kept is never copied
    assert terminal.output.endswith("19998\n19999\n")
    assert terminal.is_truncated
    assert terminal.output.startswith("é")
    assert ROOM - 4 <= len(terminal.output.encode()) <= ROOM


def test_what_a_command_prints_is_asked_for_with_a_bound_and_not_waited_for_without_end():
    """A draft agent's command, for a client that says how it ended and never what it printed."""
    line = Line("v1", "draft")
    line.answer("agent", line.ask("client", "session/new", {"cwd": "/", "mcpServers": []}), {"sessionId": "s"})
    created = line.ask("agent", "terminal/create", {"command": "make", "cwd": "/"})
    assert 0 < created["params"]["outputByteLimit"] < 3 * MIB
    line.answer("client", created, {"terminalId": "t"})
    waited = line.ask("agent", "terminal/wait_for_exit", {"terminalId": "t"})
    line.say("client", {"id": waited["id"], "result": {"exitCode": 0, "signal": None}})
    assert line.take("client")["method"] == "terminal/output"
    assert not line.at["agent"]
    line.wake()
    answered = line.take("agent")
    assert (answered["result"]["exitCode"], answered["result"]["timedOut"]) == (0, False)


LONG_SESSION = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = {"protocolVersion": 2, "capabilities": {"session": {}}, "info": {"name": "long", "version": "1"}}
        if asked["method"] != "initialize":
            result = {"sessionId": "s", "x": "x" * 17 * 2**20}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.timeout(LIMIT)
async def test_an_answer_above_the_limit_to_what_the_translator_asks_fails_the_call_it_is_for():
    """The translator asks under an id of its own, which nobody else knows."""
    async with connect([sys.executable, "-c", LONG_SESSION], dialect="v2") as client:
        with pytest.raises(InternalError, match="too large"):
            await client.load_session("s", "/")
