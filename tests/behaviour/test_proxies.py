"""Proxies: what is not overridden passes unchanged, both ways; what is overridden is theirs."""

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager

import msgspec
import pytest

import dragoman
from dragoman import ConnectionClosed, Error, InternalError, Proxy, compose, extension
from dragoman import schema as s
from dragoman.connection import connection
from dragoman.proxy import relaying
from dragoman.testing import RawWire, RecordingClient, Testy, raw
from dragoman.transports.memory import pipe

from .cast import Passing, Proxied
from .reading import open_session, play, said, started, tell
from .test_prompt_turn import shown

HELLO = {
    "protocolVersion": 1,
    "clientCapabilities": {"fs": {"readTextFile": True}, "_acme": {"x": 1}},
    "extra": [1],
}
WELCOME = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True, "_acme": {}}, "surplus": {"y": None}}


@pytest.fixture
def chain(reachable):
    """`async with chain(Proxy, ..., client=client) as client:`, proxies here before an agent anywhere."""

    @asynccontextmanager
    async def connecting(*proxies, app=Testy, client=None):
        async with (
            asyncio.timeout(10),
            reachable(app) as target,
            dragoman.connect(compose(*proxies, target), client or RecordingClient()) as connected,
        ):
            yield connected

    return connecting


@asynccontextmanager
async def between(*proxies):
    """Proxies with a test at both ends: gives the client's wire and the agent's, hands shaken."""
    towards_agent, agents_end = pipe()
    agent = RawWire(agents_end)
    async with asyncio.timeout(10), raw(compose(*proxies, towards_agent)) as client:
        hello = client.ask("initialize", HELLO)
        request = await agent.receive()
        assert request["params"] == HELLO
        agent.send({"id": request["id"], "result": WELCOME})
        assert (await client.answer(hello))["result"] == WELCOME
        yield client, agent


# Passing


async def test_a_whole_conversation_passes_unchanged(chain):
    async with chain(Passing, Passing) as client:
        assert client.agent_info.name == "testy"
        session = await open_session(client)
        events = await play(session, "everything unknown")
        assert events[:-1] == shown(session)
        assert await tell(session, "ask\nwrite /a b\nread /a\nrun echo x\nrequest") == (
            'Allowed: allow.Wrote 1 characters.bx\n[exit 0]{"pong": {}}'
        )
        assert await tell(session, "nested 10") == "10"


async def test_an_agent_behind_a_proxy_is_an_app_like_any_other(connect):
    async with connect(Proxied) as client:
        session = await open_session(client)
        assert await tell(session, "echo through") == "through"


PARAMS = [
    b'{"sessionId":"s","prompt":[{"type":"hologram","w":[1, 2.50, -0.0, 1e5]}],"unknown":{"deep":[null,true]}}',
    b'{ "b" : "\\u00e9\\/\\ud83d\\ude00" , "a" : 12345678901234567890123 }',
    b'{"dup":1,"dup":2}',
    b"[1,[2]]",
    b"{}",
]


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("method", ["session/prompt", "session/load", "_acme/x", "future/method"])
async def test_requests_to_the_agent_and_their_answers_pass_byte_by_byte(method, params):
    async with between(Passing, Passing) as (client, agent):
        client.send(b'{"jsonrpc":"2.0","id":"abc","method":"%b","params":%b}' % (method.encode(), params))
        request = await agent.receive_bytes()
        assert b'"params":' + params + b"}" in request
        id = json.loads(request)["id"]
        agent.send(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id, params))
        answer = await client.receive_bytes()
        assert answer == b'{"jsonrpc":"2.0","id":"abc","result":' + params + b"}"


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("method", ["session/request_permission", "terminal/create", "_acme/x", "future/method"])
async def test_requests_to_the_client_and_their_answers_pass_byte_by_byte(method, params):
    async with between(Passing) as (client, agent):
        agent.send(b'{"jsonrpc":"2.0","id":0,"method":"%b","params":%b}' % (method.encode(), params))
        request = await client.receive_bytes()
        assert b'"params":' + params + b"}" in request
        id = json.loads(request)["id"]
        client.send(b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id, params))
        answer = await agent.receive_bytes()
        assert answer == b'{"jsonrpc":"2.0","id":0,"result":' + params + b"}"


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("method", ["session/update", "session/cancel", "_acme/x", "$/future"])
async def test_notifications_pass_byte_by_byte_both_ways(method, params):
    async with between(Passing, Passing) as (client, agent):
        frame = b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params)
        client.send(frame)
        assert await agent.receive_bytes() == frame
        agent.send(frame)
        assert await client.receive_bytes() == frame


async def test_null_results_and_errors_pass_unchanged():
    async with between(Passing, Passing) as (client, agent):
        asked = client.ask("session/set_mode", {"sessionId": "s", "modeId": "m"})
        agent.send({"id": (await agent.receive())["id"], "result": None})
        assert await client.answer(asked) == {"jsonrpc": "2.0", "id": asked, "result": None}
        error = {"code": -31234, "message": "Odd", "data": {"why": [1, None]}}
        asked = client.ask("session/new", {"cwd": "relative"})
        agent.send({"id": (await agent.receive())["id"], "error": error})
        assert (await client.answer(asked))["error"] == error


async def test_answers_find_their_way_whatever_the_ids():
    async with between(Passing) as (client, agent):
        client.send(*({"id": id, "method": "_acme/x", "params": {}} for id in (7, "7", 0, "x", -1)))
        requests = [await agent.receive() for _ in range(5)]
        assert len({request["id"] for request in requests}) == 5
        for number, request in reversed(list(enumerate(requests))):
            agent.send({"id": request["id"], "result": number})
        answers = [await client.receive() for _ in range(5)]
        assert [(answer["id"], answer["result"]) for answer in answers] == [
            (-1, 4),
            ("x", 3),
            (0, 2),
            ("7", 1),
            (7, 0),
        ]


class Asked(Proxy):
    """Sees the forms that users are asked to fill in, and what they log in with."""

    async def authenticate(self, params):
        return await super().authenticate(params)

    async def create_elicitation(self, params):
        return await super().create_elicitation(params)


@pytest.mark.parametrize("proxies", [[Passing], [Passing, Passing], [Asked], [Passing, Asked]], ids=len)
async def test_a_form_about_a_request_names_it_as_the_client_does(proxies):
    form = {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    async with between(*proxies) as (client, agent):
        for asked in ("mine", 41, "7"):
            client.send({"id": asked, "method": "authenticate", "params": {"methodId": "key"}})
            login = await agent.receive()
            agent.send({"id": "form", "method": "elicitation/create", "params": {**form, "requestId": login["id"]}})
            question = await client.receive()
            assert question["params"]["requestId"] == asked
            assert question["params"]["message"] == "Who?"
            client.send({"id": question["id"], "result": {"action": "decline"}})
            assert (await agent.receive())["result"] == {"action": "decline"}
            agent.send({"id": login["id"], "result": {}})
            assert (await client.receive())["id"] == asked
        agent.ask("elicitation/create", {**form, "requestId": 12345})
        assert (await client.receive())["params"]["requestId"] == 12345


async def test_before_initialize_nothing_passes():
    towards_agent, agents_end = pipe()
    agent = RawWire(agents_end)
    async with raw(compose(Passing, towards_agent)) as client:
        assert (await client.request("session/new", {"cwd": "/", "mcpServers": []}))["error"]["code"] == -32600
        client.tell("session/cancel", {"sessionId": "s"})
        client.ask("initialize", HELLO)
        request = await agent.receive()
        assert request["method"] == "initialize"
        agent.send({"id": request["id"], "result": WELCOME})
        assert (await client.receive())["result"] == WELCOME


# Order


class Watching(Proxy):
    """Sees prompts and new sessions, and takes its time on the way there and back."""

    async def prompt(self, params):
        await self._pause()
        response = await super().prompt(params)
        await self._pause()
        return response

    async def new_session(self, params):
        response = await super().new_session(params)
        await self._pause()
        return response

    async def request_permission(self, params):
        await self._pause()
        return await super().request_permission(params)

    async def _pause(self):
        for _ in range(5):
            await asyncio.sleep(0)


TOOL = {"toolCallId": "call", "title": "Do"}
CHAINS = pytest.mark.parametrize(
    "proxies", [[Passing], [Passing, Passing], [Watching], [Passing, Watching, Passing]], ids=len
)


@CHAINS
async def test_a_cancel_right_behind_its_prompt_stays_behind_it(proxies):
    async with between(*proxies) as (client, agent):
        for number in range(20):
            session = {"sessionId": f"s{number % 3}"}
            client.send(
                {"id": number, "method": "session/prompt", "params": {**session, "prompt": []}},
                {"method": "session/cancel", "params": session},
            )
            assert [(await agent.receive())["method"] for _ in range(2)] == ["session/prompt", "session/cancel"]


@CHAINS
async def test_an_update_right_behind_an_answer_stays_behind_it(proxies):
    async with between(*proxies) as (client, agent):
        for number in range(20):
            asked = client.ask("session/new", {"cwd": "/", "mcpServers": []})
            id = (await agent.receive())["id"]
            update = {"sessionId": f"s{number}", "update": {"sessionUpdate": "future_thing"}}
            agent.send(
                {"id": id, "result": {"sessionId": f"s{number}"}}, {"method": "session/update", "params": update}
            )
            assert (await client.receive())["id"] == asked
            assert (await client.receive())["params"] == update


@CHAINS
async def test_everything_of_a_session_keeps_its_order_both_ways(proxies):
    methods = ("session/prompt", "session/cancel", "session/set_mode", "_acme/x", "session/request_permission")
    async with between(*proxies) as (client, agent):
        for near, far in ((client, agent), (agent, client)):
            for number in range(60):
                params = {
                    "sessionId": "s",
                    "_meta": {"number": number},
                    "prompt": [],
                    "toolCall": TOOL,
                    "options": [],
                }
                message = {"method": methods[number * 7 % 5], "params": params}
                near.send(message if number % 3 else {"id": number, **message})
            got = [await far.receive() for _ in range(60)]
            assert [message["params"]["_meta"]["number"] for message in got] == list(range(60))
            result = {"stopReason": "end_turn", "outcome": {"outcome": "cancelled"}}
            far.send(*({"id": message["id"], "result": result} for message in got if "id" in message))
            assert [(await near.receive())["id"] for _ in range(20)] == list(range(0, 60, 3))


async def test_a_handler_that_waits_holds_up_its_own_session_alone():
    waiting = asyncio.Event()

    class Waiting(Proxy):
        async def prompt(self, params):
            if params.session_id == "slow":
                await waiting.wait()
            return await super().prompt(params)

    async with between(Waiting) as (client, agent):
        client.ask("session/prompt", {"sessionId": "slow", "prompt": []})
        client.tell("session/cancel", {"sessionId": "slow"})
        client.ask("session/prompt", {"sessionId": "quick", "prompt": []})
        client.tell("session/cancel", {"sessionId": "quick"})
        got = [await agent.receive() for _ in range(2)]
        assert [message["params"]["sessionId"] for message in got] == ["quick", "quick"]
        waiting.set()
        got = [await agent.receive() for _ in range(2)]
        assert [message["method"] for message in got] == ["session/prompt", "session/cancel"]


async def test_a_request_taken_back_while_it_waits_for_its_turn_is_answered_and_never_passed_on():
    waiting = asyncio.Event()

    class Waiting(Proxy):
        async def prompt(self, params):
            await waiting.wait()
            return await super().prompt(params)

    async with between(Waiting) as (client, agent):
        client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        asked = client.ask("session/set_mode", {"sessionId": "s", "modeId": "m"})
        second = client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        for id in (asked, second):
            client.tell("$/cancel_request", {"requestId": id})
            assert (await client.answer(id))["error"]["code"] == -32800
        waiting.set()
        assert (await agent.receive())["method"] == "session/prompt"
        client.tell("_acme/marker", {"sessionId": "s"})
        assert (await agent.receive())["method"] == "_acme/marker"


async def test_a_request_there_is_no_room_for_holds_up_nothing_behind_it(monkeypatch):
    monkeypatch.setattr(connection, "IN_WORKS", 1)
    async with between(Watching) as (client, agent):
        client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        assert (await agent.receive())["method"] == "session/prompt"
        second = client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        client.tell("session/cancel", {"sessionId": "s"})
        assert (await client.answer(second))["error"]["code"] == -32001
        assert (await agent.receive())["method"] == "session/cancel"


# Overriding


class Shouting(Proxy):
    """Makes prompts loud."""

    async def prompt(self, params):
        prompt = [s.TextContent(text=block.text.replace("word", "WORD")) for block in params.prompt]
        return await super().prompt(msgspec.structs.replace(params, prompt=prompt))


class Quoting(Proxy):
    """Puts what the agent says in quotes."""

    def update(self, params):
        if isinstance(params.update, s.AgentMessageChunk):
            block = s.TextContent(text=f"<{params.update.content.text}>")
            params = msgspec.structs.replace(params, update=msgspec.structs.replace(params.update, content=block))
        super().update(params)


class Refusing(Proxy):
    """Lets nothing be allowed."""

    async def request_permission(self, params):
        return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())


async def test_a_request_to_the_agent_can_be_changed(chain):
    async with chain(Shouting) as client:
        assert await tell(await open_session(client), "echo a word") == "a WORD"


async def test_an_update_to_the_client_can_be_changed(chain):
    async with chain(Quoting) as client:
        session = await open_session(client)
        assert await tell(session, "echo hello") == "<hello>"
        assert (await play(session, "unknown"))[0] == shown(session)[-1]


async def test_a_request_to_the_client_can_be_answered_before_it_gets_there(chain):
    async with chain(Refusing) as client:
        assert await tell(await open_session(client), "ask") == "Not allowed: nothing."
        assert client.requests == []


async def test_the_first_in_the_chain_is_the_nearest_to_the_client(chain):
    class Bracketing(Quoting):
        def update(self, params):
            if isinstance(params.update, s.AgentMessageChunk):
                block = s.TextContent(text=f"[{params.update.content.text}]")
                params = msgspec.structs.replace(
                    params, update=msgspec.structs.replace(params.update, content=block)
                )
            Proxy.update(self, params)

    async with chain(Quoting, Bracketing, Shouting) as client:
        assert await tell(await open_session(client), "echo word") == "<[WORD]>"


async def test_a_proxy_can_ask_either_side_by_itself(chain):
    class Curious(Proxy):
        async def prompt(self, params):
            request = s.ReadTextFileRequest(session_id=params.session_id, path="/context")
            context = (await self.client.read_text_file(request)).content
            pong = await self.agent.request("_testy/ping", {"from": "proxy"})
            words = s.TextContent(text=f"echo {context} {pong['pong']['from']}")
            return await super().prompt(msgspec.structs.replace(params, prompt=[words]))

    async with chain(Curious, client=RecordingClient(files={"/context": "read"})) as client:
        assert await tell(await open_session(client), "x") == "read proxy"


async def test_a_proxy_can_have_extensions_of_its_own(chain):
    class Extended(Proxy):
        @extension("_proxy/hello")
        async def hello(self, params):
            return {"hello": params}

    async with chain(Passing, Extended, Passing) as client:
        assert await client.agent.request("_proxy/hello", {"n": 1}) == {"hello": {"n": 1}}
        assert await client.agent.request("_testy/ping", {"n": 1}) == {"pong": {"n": 1}}


async def test_a_proxy_that_fails_fails_one_request(chain):
    class Broken(Proxy):
        async def set_mode(self, params):
            raise RuntimeError("a secret")

        def update(self, params):
            if isinstance(params.update, s.Plan):
                raise RuntimeError("no plans")
            super().update(params)

    async with chain(Broken) as client:
        session = await open_session(client)
        with pytest.raises(InternalError) as caught:
            await session.set_mode("plan")
        assert "secret" not in str(caught.value)
        assert await tell(session, "plan\necho on") == "on"


async def test_a_proxy_can_step_in_at_the_handshake(chain):
    class Renaming(Proxy):
        async def initialize(self, params):
            response = await super().initialize(params)
            return msgspec.structs.replace(response, agent_info=s.Implementation(name="renamed", version="1"))

        async def prompt(self, params):
            request = s.ReadTextFileRequest(session_id=params.session_id, path="/context")
            words = s.TextContent(text=f"echo {(await self.client.read_text_file(request)).content}")
            return await super().prompt(msgspec.structs.replace(params, prompt=[words]))

    async with chain(Renaming, client=RecordingClient(files={"/context": "read"})) as client:
        assert client.agent_info.name == "renamed"
        assert await tell(await open_session(client), "x") == "read"


def test_a_chain_needs_a_proxy_and_an_agent():
    with pytest.raises(TypeError):
        compose(Testy)


# Cancelling


async def test_a_turn_is_cancelled_through_a_chain(chain):
    async with chain(Passing, Passing) as client:
        session = await open_session(client)
        turn = session.prompt("wait")
        await started(turn, "Waiting.")
        session.cancel()
        rest = [event async for event in turn]
        assert said(rest) == "Stopping."
        assert rest[-1].stop_reason == "cancelled"


async def test_taking_a_request_back_goes_hop_by_hop_with_the_ids_of_the_hop():
    async with between(Passing, Passing) as (client, agent):
        client.send({"id": "mine", "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}})
        request = await agent.receive()
        client.tell("$/cancel_request", {"requestId": "mine"})
        taken_back = await agent.receive()
        assert (taken_back["method"], taken_back["params"]) == ("$/cancel_request", {"requestId": request["id"]})
        agent.send({"id": request["id"], "result": {"stopReason": "cancelled", "kept": True}})
        assert await client.receive() == {
            "jsonrpc": "2.0",
            "id": "mine",
            "result": {"stopReason": "cancelled", "kept": True},
        }


async def test_an_agent_can_take_its_question_back_through_a_chain():
    async with between(Passing, Passing) as (client, agent):
        agent.send({"id": "mine", "method": "session/request_permission", "params": {"sessionId": "s"}})
        request = await client.receive()
        agent.tell("$/cancel_request", {"requestId": "mine"})
        taken_back = await client.receive()
        assert taken_back["params"] == {"requestId": request["id"]}
        client.send({"id": request["id"], "error": {"code": -32800, "message": "Request cancelled"}})
        assert (await agent.receive())["error"]["code"] == -32800


async def test_a_request_taken_back_is_answered_though_the_agent_does_not(monkeypatch):
    monkeypatch.setattr(relaying, "PATIENCE", 0.1)
    async with between(Passing) as (client, agent):
        asked = client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        request = await agent.receive()
        client.tell("$/cancel_request", {"requestId": asked})
        assert (await client.answer(asked))["error"]["code"] == -32800
        agent.send({"id": request["id"], "result": {"stopReason": "end_turn"}})  # too late
        agent.tell("_acme/marker")
        assert (await client.receive())["method"] == "_acme/marker"


# The end


@pytest.mark.parametrize("transport", ["stdio"], indirect=True)
async def test_an_agent_that_dies_ends_what_its_client_waits_for(chain):
    async with chain(Passing, Passing) as client:
        session, other = await open_session(client), await open_session(client)
        waiting = other.prompt("wait")
        events = []
        with pytest.raises(Error):
            async for event in session.prompt("echo last\ncrash 7"):
                events.append(event)
        assert said(events) == "lastFarewell."
        with pytest.raises(Error):
            await waiting
        async for _ in session.updates():
            pass
        assert isinstance(client.closed, ConnectionClosed)


async def test_an_agent_that_cannot_be_started_behind_a_proxy_is_named():
    with pytest.raises(Error, match="nonexistent"):
        async with dragoman.connect(compose(Passing, ["/nonexistent/agent"])):
            pass
    rogue = [sys.executable, "-m", "dragoman.testing.rogue", "stillborn"]
    with pytest.raises(Error, match="no API key"):
        async with dragoman.connect(compose(Passing, rogue)):
            pass


async def test_an_agent_that_hangs_up_has_its_client_hung_up_on():
    async with between(Passing, Passing) as (client, agent):
        asked = client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        await agent.receive()
        agent.tell("session/update", {"last": "words"})
        await agent.hang_up()
        assert (await client.receive())["params"] == {"last": "words"}
        assert (await client.answer(asked))["error"]["code"] == -32603
        with pytest.raises(ConnectionClosed):
            await client.receive()


async def test_a_client_that_hangs_up_has_its_agent_hung_up_on():
    async with between(Passing, Passing) as (client, agent):
        agent.ask("session/request_permission", {"sessionId": "s"})
        await client.receive()
        await client.hang_up()
        with pytest.raises(ConnectionClosed):
            while True:
                await agent.receive()


async def test_a_client_that_leaves_in_the_middle_of_a_turn_is_not_waited_for():
    async with between(Passing, Passing) as (client, agent):
        client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        await agent.receive()
        await client.hang_up()
        left = time.monotonic()
        with pytest.raises(ConnectionClosed):
            while True:
                await agent.receive()
        assert time.monotonic() - left < 3


# Pressure


async def test_a_client_that_does_not_read_holds_the_agent_up_through_the_chain():
    async with between(Passing, Passing) as (client, agent):
        client.hold()
        count, pad, before = 400, "x" * 50_000, len(asyncio.all_tasks())
        for number in range(count):
            agent.tell("session/update", {"n": number, "pad": pad})
            await asyncio.sleep(0)
            assert len(asyncio.all_tasks()) <= before + 4  # one that holds and one that sends, for each of two hops
        assert agent.queued > count * len(pad) / 2  # most of twenty megabytes was not taken
        client.resume()
        for number in range(count):
            assert (await client.receive())["params"]["n"] == number


async def test_a_flood_passes_whole_and_in_order(chain):
    async with chain(Passing, Passing) as client:
        session = await open_session(client)
        events = await play(session, "flood 3000 100")
        numbers = [int(event.content.text.split()[0]) for event in events[:-1]]
        assert numbers == list(range(3000))
