"""A prompt turn: what is sent in it, how it ends, what goes wrong in it."""

import asyncio
import logging

import pytest

from dragoman import (
    AgentExited,
    AgentSession,
    Client,
    ConnectionClosed,
    Error,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    RpcError,
)
from dragoman import schema as s
from dragoman.connection.remotes import RemoteClient
from dragoman.testing import RecordingClient, Testy, raw_agent
from dragoman.testing.script import SECRET
from dragoman.testing.showcase import EXHIBITS, VERSION_2

from .cast import Modest, Unwritten
from .reading import open_session, play, said, started, tell


class Plain(Client):
    """Offers nothing at all, not even to show notices."""

    def capabilities(self):
        return s.ClientCapabilities()


def shown(session, *, without=()):
    """The updates of every exhibit, as Testy makes them for this session."""
    onlooker = RemoteClient(None)
    onlooker.offers = session.client.capabilities()
    twin = AgentSession(onlooker, session.id, "/", mode="code", config_options=Testy.config_options)
    return [
        update
        for exhibit in EXHIBITS.values()
        if exhibit.needs not in {VERSION_2, *without}  # our client has version 1 inside, whatever is on the wire
        for update in exhibit.updates(twin, "")
    ]


async def test_every_kind_of_update_arrives_typed_and_in_order(connect):
    async with connect() as client:
        session = await open_session(client)
        events = await play(session, "everything unknown")
        assert events[:-1] == shown(session)
        assert events[-1] == s.PromptResponse(stop_reason="end_turn")
        assert {type(event) for event in events[:-1]} == set(s.SessionUpdate.__args__)


async def test_nothing_is_sent_unasked_that_no_version_has(connect):
    async with connect() as client:
        events = await play(await open_session(client), "everything")
        assert [event for event in events if isinstance(event, s.Raw)] == []


async def test_a_client_is_only_sent_the_kinds_it_offers_to_take(connect):
    async with connect(client=Plain()) as client:
        session = await open_session(client)
        events = await play(session, "everything unknown")
        gated = {exhibit.needs for exhibit in EXHIBITS.values()} - {""}
        assert events[:-1] == shown(session, without=gated)
        assert await tell(session, "notice") == "The client does not offer session.notices."


async def test_every_update_is_there_before_the_response(connect):
    async with connect() as client:
        session = await open_session(client)
        events = await play(session, "updates-before-answer 500")
        assert said(events) == "".join(f"{number} " for number in range(500))
        assert [type(event) for event in events].index(s.PromptResponse) == 500


async def test_a_turn_can_just_be_awaited(connect):
    async with connect() as client:
        session = await open_session(client)
        turn = session.prompt("echo hello")
        with pytest.raises(Error):
            _ = turn.response
        assert (await turn).stop_reason == "end_turn"
        assert turn.response == await turn
        assert list(session.backlog()) == []


async def test_a_turn_ends_for_a_reason(connect):
    async with connect() as client:
        session = await open_session(client)
        for words, reason in (
            ("echo", "end_turn"),
            ("refuse", "refusal"),
            ("max_tokens", "max_tokens"),
            ("max_turn_requests", "max_turn_requests"),
        ):
            assert (await session.prompt(f"{words}\necho not said after a stop")).stop_reason == reason


async def test_a_turn_reports_its_tokens(connect):
    async with connect() as client:
        session = await open_session(client)
        assert (await session.prompt("spend")).usage == s.Usage(
            total_tokens=30, input_tokens=10, output_tokens=20, thought_tokens=5
        )
        assert (await session.prompt("echo")).usage is None


async def test_the_lines_of_a_prompt_are_done_in_order(connect):
    async with connect() as client:
        session = await open_session(client)
        assert await tell(session, "echo a\nno verb at all\nthought\necho b") == "ano verb at allb"


async def test_words_in_one_breath_are_one_message(connect):
    async with connect() as client:
        session = await open_session(client)
        events = await play(session, "echo a\necho b\nplan\necho c")
        first, second, third = (event.message_id for event in events if isinstance(event, s.AgentMessageChunk))
        assert first == second != third


async def test_an_empty_prompt_is_answered(connect):
    async with connect() as client:
        session = await open_session(client)
        assert await play(session, []) == [s.PromptResponse(stop_reason="end_turn")]


# Content


async def test_content_of_every_kind_comes_back_unchanged(connect):
    blocks = [
        s.TextContent(text="echo é\u2028\U0001f600", annotations=s.Annotations(audience=["user"], priority=0.5)),
        s.ImageContent(data="aGk=", mime_type="image/png", uri="file:///a.png"),
        s.AudioContent(data="aGk=", mime_type="audio/wav"),
        s.EmbeddedResource(resource=s.TextResourceContents(uri="file:///a", text="a\n", mime_type="text/plain")),
        s.EmbeddedResource(resource=s.BlobResourceContents(uri="file:///b", blob="aGk=")),
        s.ResourceLink(name="c", uri="file:///c", size=3, meta={"x": [1]}),
    ]
    async with connect() as client:
        session = await open_session(client)
        words, *others, _ = await play(session, blocks)
        assert words.content.text == "é\u2028\U0001f600"
        assert [event.content for event in others] == blocks[1:]


async def test_content_an_agent_did_not_offer_to_take_is_refused(connect):
    async with connect(Modest) as client:
        session = await client.new_session()
        for block in (
            s.ImageContent(data="aGk=", mime_type="image/png"),
            s.AudioContent(data="aGk=", mime_type="audio/wav"),
            s.EmbeddedResource(resource=s.TextResourceContents(uri="file:///a", text="a")),
            s.Raw(b'{"type":"hologram"}'),
        ):
            with pytest.raises(InvalidParams):
                await session.prompt([s.TextContent(text="look"), block])
        assert await tell(session, s.ResourceLink(name="c", uri="file:///c")) == ""


# Several turns


async def test_two_prompts_in_one_session_are_answered_one_after_the_other(connect):
    async with connect() as client:
        session = await open_session(client)
        first, second = session.prompt("stubborn 0.1\necho one"), session.prompt("echo two")
        assert said([event async for event in first]) == "Busy.Stopping.one"
        assert said([event async for event in second]) == "two"


async def test_a_waiting_prompt_that_is_taken_back_lets_nobody_jump_the_queue(speak):
    async with speak() as wire:
        session = await _begin(wire)
        first = _prompt(wire, session, "stubborn 0.3\necho one")
        second = _prompt(wire, session, "echo two")
        third = _prompt(wire, session, "echo three")
        await wire.request("_testy/ping")  # by now all three have arrived
        wire.tell("$/cancel_request", {"requestId": second})
        answers, words = [], ""
        while len(answers) < 3:
            message = await wire.receive()
            if "method" in message:
                words += message["params"]["update"]["content"]["text"]
            else:
                answers.append(message["id"])
        assert answers == [second, first, third]
        assert words == "Busy.Stopping.onethree"


async def test_prompts_do_not_pile_up_without_end(connect):
    async with connect() as client:
        session = await open_session(client)
        running = session.prompt("wait")
        await started(running, "Waiting.")
        waiting = [session.prompt(f"echo {number}") for number in range(40)]
        await client.agent.request("_testy/ping")  # by now all of them have arrived
        session.cancel()
        assert (await running).stop_reason == "cancelled"
        refused = 0
        for turn in waiting:
            try:
                assert (await turn).stop_reason == "cancelled"
            except InvalidRequest:
                refused += 1
        assert 0 < refused < 40
        assert await tell(session, "echo done") == "done"


async def _begin(wire):
    await wire.initialize()
    answer = await wire.request("session/new", {"cwd": "/", "mcpServers": []})
    assert (await wire.receive())["params"]["update"]["sessionUpdate"] == "available_commands_update"
    return answer["result"]["sessionId"]


def _prompt(wire, session, text):
    return wire.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})


# Reading


async def test_a_client_whose_own_code_fails_on_an_update_goes_on(connect):
    class Fragile(RecordingClient):
        def update(self, params):
            if isinstance(params.update, s.Plan):
                raise RuntimeError("cannot draw this")
            super().update(params)

    async with connect(client=Fragile()) as client:
        session = await open_session(client)
        assert await tell(session, "echo a\nplan\necho b") == "ab"


async def test_an_update_that_does_not_fit_is_left_out_and_the_next_is_not():
    async with asyncio.timeout(5), raw_agent() as (client, wire):
        for update in (
            {"sessionUpdate": "agent_message_chunk"},
            {"sessionUpdate": "agent_message_chunk", "content": "words"},
            {"sessionUpdate": "usage_update", "used": -1, "size": 3},
            {"sessionUpdate": 7},
            {},
            None,
        ):
            wire.tell("session/update", {"sessionId": "s", "update": update})
        wire.tell("session/update", {"update": {"sessionUpdate": "current_mode_update", "currentModeId": "m"}})
        wire.tell("session/update")
        good = {"sessionUpdate": "current_mode_update", "currentModeId": "m"}
        wire.tell("session/update", {"sessionId": "s", "update": good})
        assert await anext(client.session("s").updates()) == s.CurrentModeUpdate(current_mode_id="m")


async def test_updates_of_a_session_nobody_opened_wait_for_whoever_asks_for_it():
    async with asyncio.timeout(5), raw_agent() as (client, wire):
        for number in range(1000):
            update = {"sessionUpdate": "current_mode_update", "currentModeId": str(number)}
            wire.tell("session/update", {"sessionId": f"child-{number}", "update": update})
        newest = client.session("child-999")
        assert await anext(newest.updates()) == s.CurrentModeUpdate(current_mode_id="999")
        assert list(client.session("child-998").backlog()) == [s.CurrentModeUpdate(current_mode_id="998")]
        assert list(client.session("child-0").backlog()) == []  # sessions that nobody opened have bounded room


# Errors


async def test_a_failing_turn_keeps_its_secrets(speak):
    async with speak() as wire:
        session = await _begin(wire)
        _prompt(wire, session, "fail_tool")
        frames = b""
        while b'"error"' not in frames:
            frames += await wire.receive_bytes()
        assert SECRET.encode() not in frames
        assert b"Traceback" not in frames
        assert b'"errorId"' in frames
        assert b"-32603" in frames


async def test_a_failed_turn_leaves_the_session_usable(connect):
    async with connect() as client:
        session = await open_session(client)
        with pytest.raises(InternalError) as caught:
            await session.prompt("echo before\nfail")
        assert caught.value.data["errorId"]
        assert caught.value.method == "session/prompt"
        assert await tell(session, "echo still here") == "still here"


async def test_an_error_an_agent_raises_is_the_answer(connect):
    async with connect() as client:
        session = await open_session(client)
        for code in (-32000, -32002, -31999, 42):
            with pytest.raises(RpcError) as caught:
                await session.prompt(f"error {code} It went wrong.")
            error = caught.value
            assert (error.code, error.message, error.data) == (code, "It went wrong.", {"from": "testy"})
            assert type(error) is type(RpcError.of(code))


async def test_updates_before_an_error_are_not_lost(connect):
    async with connect() as client:
        session = await open_session(client)
        events = []
        with pytest.raises(InternalError):
            async for event in session.prompt("flood 50\nfail"):
                events.append(event)
        assert len(events) == 50


async def test_an_agent_without_an_answer_says_so(connect):
    async with connect(Unwritten) as client:
        session = await client.new_session()
        with pytest.raises(MethodNotFound):
            await session.prompt("hello")


async def test_a_turn_whose_connection_is_gone_fails_whenever_it_is_read(connect):
    async with connect() as client:
        session = await open_session(client)
        read, unread = session.prompt("wait"), session.prompt("wait")
        await started(read, "Waiting.")
    async with asyncio.timeout(2):
        for turn in (read, unread):
            with pytest.raises(ConnectionClosed):
                await turn
    with pytest.raises(ConnectionClosed):
        session.prompt("echo")
    with pytest.raises(ConnectionClosed):
        await client.new_session()


# Beside the wire


async def test_nothing_printed_reaches_the_wire(connect, caplog):
    caplog.set_level(logging.INFO, logger="dragoman")
    async with connect() as client:
        session = await open_session(client)
        assert await tell(session, 'print {"jsonrpc":"2.0","id":1,"result":{}}\nprint stray') == "Printed.Printed."
        assert await tell(session, "echo after") == "after"
    assert not [record for record in caplog.records if record.message.startswith("ignored")]


async def test_much_on_stderr_holds_nothing_up(connect, capfd):
    async with connect() as client:
        session = await open_session(client)
        assert await tell(session, "stderr 1000000\necho after") == "Complained.after"


@pytest.mark.parametrize("transport", ["stdio"], indirect=True)
async def test_a_crash_ends_the_turn_with_what_is_known_of_it(connect):
    async with connect() as client:
        session, other = await open_session(client), await open_session(client)
        waiting = other.prompt("wait")
        events = []
        with pytest.raises(AgentExited) as caught:
            async for event in session.prompt("flood 100\ncrash 7"):
                events.append(event)
        assert said(events).endswith("98 99 Farewell.")
        assert caught.value.status == 7
        assert "testy crashes as it was told" in caught.value.stderr
        with pytest.raises(AgentExited):
            await waiting
        with pytest.raises(AgentExited):
            await client.new_session()
        assert (type(client.closed), str(client.closed)) == (AgentExited, str(caught.value))
