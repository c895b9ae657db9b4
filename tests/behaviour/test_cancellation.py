"""session/cancel and $/cancel_request, in both directions: one answer each, and nothing after it."""

import asyncio

import pytest

from dragoman import RequestCancelled
from dragoman import schema as s
from dragoman.testing import RecordingClient, Testy, raw_agent

from .cast import Impatient, Lingering, Sulking
from .reading import open_session, play, said, started, tell


async def begin(wire):
    await wire.initialize(clientCapabilities={"elicitation": {"form": {}}})
    answer = await wire.request("session/new", {"cwd": "/", "mcpServers": []})
    await wire.receive()  # the commands
    return answer["result"]["sessionId"]


def prompt(wire, session, text):
    return wire.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})


async def frames_until_pong(wire):
    """Everything the agent sends until it has answered a ping sent now."""
    ping = wire.ask("_testy/ping")
    frames = []
    while (frame := await wire.receive()).get("id") != ping:
        frames.append(frame)
    return frames


# session/cancel


async def test_a_cancelled_turn_says_its_last_words_and_then_answers(connect):
    async with connect() as client:
        session = await open_session(client)
        turn = session.prompt("wait\necho never said")
        await started(turn, "Waiting.")
        session.cancel()
        rest = [event async for event in turn]
        assert said(rest) == "Stopping."
        assert rest[-1] == s.PromptResponse(stop_reason="cancelled")


async def test_a_cancelled_turn_is_answered_once_and_nothing_follows(speak):
    async with speak() as wire:
        session = await begin(wire)
        turn = prompt(wire, session, "wait")
        await wire.receive()
        for _ in range(3):
            wire.tell("session/cancel", {"sessionId": session})
        answer = await wire.answer(turn)
        assert answer["result"] == {"stopReason": "cancelled"}
        assert await wire.receive()  # the last words, which came before it
        assert await frames_until_pong(wire) == []


async def test_a_prompt_cancelled_before_it_began_is_cancelled_all_the_same(connect):
    async with connect() as client:
        session = await open_session(client)
        turn = session.prompt("wait")
        session.cancel()
        async with asyncio.timeout(3):
            assert (await turn).stop_reason == "cancelled"


async def test_a_prompt_cancelled_in_the_same_breath_is_cancelled_and_the_next_is_not(speak):
    async with speak() as wire:
        session = await begin(wire)

        def prompting(id, text):
            params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
            return {"id": id, "method": "session/prompt", "params": params}

        cancel = {"method": "session/cancel", "params": {"sessionId": session}}
        wire.send(prompting("a", "wait"), cancel, prompting("b", "echo next"))
        assert (await wire.answer("a", timeout=3))["result"] == {"stopReason": "cancelled"}
        assert (await wire.answer("b", timeout=3))["result"] == {"stopReason": "end_turn"}


async def test_a_prompt_sent_after_a_cancel_is_not_cancelled(connect):
    async with connect() as client:
        session = await open_session(client)
        first = session.prompt("wait")
        await started(first, "Waiting.")
        session.cancel()
        second = session.prompt("echo next")
        assert (await first).stop_reason == "cancelled"
        assert said([event async for event in second]) == "next"
        assert second.response.stop_reason == "end_turn"


async def test_cancelling_reaches_prompts_that_wait_their_turn(connect):
    async with connect() as client:
        session = await open_session(client)
        turns = [session.prompt("wait"), session.prompt("echo two"), session.prompt("wait")]
        await started(turns[0], "Waiting.")
        await client.agent.request("_testy/ping")
        session.cancel()
        assert [(await turn).stop_reason for turn in turns] == ["cancelled"] * 3


async def test_cancelling_where_nothing_runs_does_nothing(connect):
    async with connect() as client:
        session = await open_session(client)
        session.cancel()
        client.session("sess_nobody").cancel()
        assert await tell(session, "echo here") == "here"
        session.cancel()
        assert await tell(session, "echo here") == "here"


async def test_cancelling_one_session_leaves_the_others_alone(connect):
    async with connect() as client:
        one, other = await open_session(client), await open_session(client)
        doomed, spared = one.prompt("wait"), other.prompt("wait")
        await started(doomed, "Waiting.")
        await started(spared, "Waiting.")
        one.cancel()
        assert (await doomed).stop_reason == "cancelled"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await spared
        other.cancel()
        assert (await spared).stop_reason == "cancelled"


async def test_a_turn_that_fails_on_being_cancelled_still_answers_cancelled(connect):
    async with connect(Sulking) as client:
        session = await open_session(client)
        turn = session.prompt("x")
        await started(turn, "Waiting.")
        session.cancel()
        assert (await turn).stop_reason == "cancelled"


async def test_a_second_cancel_does_not_disturb_the_cleaning_up(speak):
    async with speak() as wire:
        session = await begin(wire)
        turn = prompt(wire, session, "tidy")
        await wire.receive()
        wire.tell("session/cancel", {"sessionId": session})
        question = await wire.receive()
        assert question["method"] == "_testy/ping"
        wire.tell("session/cancel", {"sessionId": session})
        wire.send({"id": question["id"], "result": {}})
        assert (await wire.receive())["params"]["update"]["content"]["text"] == "Stopping."
        assert (await wire.answer(turn))["result"] == {"stopReason": "cancelled"}


async def test_a_stubborn_turn_is_waited_for(connect):
    async with connect() as client:
        session = await open_session(client)
        turn = session.prompt("stubborn 0.3")
        await started(turn, "Busy.")
        session.cancel()
        rest = [event async for event in turn]
        assert said(rest) == "Stopping."
        assert rest[-1].stop_reason == "cancelled"


async def test_a_turn_that_will_not_end_is_answered_without_it(speak):
    async with speak(Impatient) as wire:
        session = await begin(wire)
        turn = prompt(wire, session, "stubborn 0.6")
        await wire.receive()
        wire.tell("session/cancel", {"sessionId": session})
        answer = await wire.answer(turn)
        assert answer["result"] == {"stopReason": "cancelled"}
        # Whatever the turn still tries to say, the next turn is answered and nothing comes in between.
        after = prompt(wire, session, "stubborn 0.6\necho after")
        frames = [await wire.receive()]
        while frames[-1].get("id") != after:
            frames.append(await wire.receive())
        words = [frame["params"]["update"]["content"]["text"] for frame in frames[:-1]]
        assert words == ["Busy.", "Stopping.", "after"]


async def test_a_turn_given_up_that_ends_later_takes_nothing_from_those_after_it(speak):
    async with speak(Lingering) as wire:
        session = await begin(wire)
        lingering = prompt(wire, session, "linger")
        await wire.receive()
        wire.tell("session/cancel", {"sessionId": session})
        assert (await wire.answer(lingering))["result"] == {"stopReason": "cancelled"}
        assert (await wire.answer(prompt(wire, session, "echo between")))["result"] == {"stopReason": "end_turn"}
        first, second = prompt(wire, session, "wait"), prompt(wire, session, "echo too early")
        await wire.request("_lingering/release")
        third = prompt(wire, session, "echo later")
        frames = await frames_until_pong(wire)
        assert not [frame for frame in frames if frame.get("id") in (first, second, third)]
        wire.tell("session/cancel", {"sessionId": session})
        for turn in (first, second, third):
            assert (await wire.answer(turn))["result"] == {"stopReason": "cancelled"}


async def test_a_session_closed_and_loaded_at_once_takes_prompts(speak):
    async with speak() as wire:
        session = await begin(wire)
        running = prompt(wire, session, "wait")
        await wire.receive()
        closed = wire.ask("session/close", {"sessionId": session})
        loaded = wire.ask("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        after = prompt(wire, session, "echo after")
        assert (await wire.answer(running))["result"] == {"stopReason": "cancelled"}
        assert "result" in await wire.answer(closed)
        assert "result" in await wire.answer(loaded)
        assert (await wire.answer(after))["result"] == {"stopReason": "end_turn"}


async def test_a_cancelled_tool_is_shown_as_ended_and_its_terminal_released(connect):
    async with connect() as client:
        session = await open_session(client)
        turn = session.prompt("hold")
        await started(turn, "Waiting.")
        assert len(client.terminals) == 1
        session.cancel()
        rest = [event async for event in turn]
        assert [event.status for event in rest if isinstance(event, s.ToolCallUpdated)] == ["failed"]
        assert rest[-1].stop_reason == "cancelled"
        assert client.terminals == []


# Open questions


class Hesitant(RecordingClient):
    """Never makes up its mind, and notes when it is no longer asked."""

    def __init__(self):
        super().__init__(permissions=self.think)
        self.asked, self.released = asyncio.Event(), asyncio.Event()

    async def think(self, params):
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.released.set()

    async def fill_form(self, form):
        return await self.think(form)


async def test_an_open_permission_request_is_answered_cancelled(connect):
    async with connect(client=Hesitant()) as client:
        session = await open_session(client)
        turn = session.prompt("ask")
        await client.asked.wait()
        session.cancel()
        assert (await turn).stop_reason == "cancelled"
        await client.released.wait()


async def test_an_open_permission_request_is_answered_cancelled_on_the_wire():
    async with raw_agent(Hesitant()) as (client, wire):
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        params = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options}
        asked = wire.ask("session/request_permission", params)
        await client.asked.wait()
        client.session("other").cancel()
        client.session("s").cancel()
        frames = [await wire.receive() for _ in range(3)]
        assert [frame.get("method", "answer") for frame in frames] == ["session/cancel", "session/cancel", "answer"]
        assert (frames[2]["id"], frames[2]["result"]) == (asked, {"outcome": {"outcome": "cancelled"}})


async def test_an_open_form_is_withdrawn_with_the_turn(connect):
    async with connect(client=Hesitant()) as client:
        session = await open_session(client)
        turn = session.prompt("elicit form")
        await client.asked.wait()
        session.cancel()
        assert (await turn).stop_reason == "cancelled"
        await client.released.wait()


# $/cancel_request to the agent


async def test_a_request_that_is_taken_back_is_still_answered_once(speak):
    async with speak() as wire:
        session = await begin(wire)
        turn = prompt(wire, session, "wait")
        await wire.receive()
        for _ in range(2):
            wire.tell("$/cancel_request", {"requestId": turn})
        answer = await wire.answer(turn)
        assert answer["result"] == {"stopReason": "cancelled"}
        assert (await wire.receive())["params"]["update"]["content"]["text"] == "Stopping."
        assert await frames_until_pong(wire) == []


async def test_a_request_taken_back_in_the_same_breath_is_still_answered(speak):
    async with speak() as wire:
        session = await begin(wire)
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "wait"}]}
        wire.send(
            {"id": "a", "method": "session/prompt", "params": params},
            {"method": "$/cancel_request", "params": {"requestId": "a"}},
        )
        answer = await wire.answer("a", timeout=3)
        assert answer.get("result") == {"stopReason": "cancelled"}
        assert (await wire.request("_testy/ping"))["result"] == {"pong": {}}


async def test_taking_back_what_nobody_asked_does_nothing(speak):
    async with speak() as wire:
        session = await begin(wire)
        turn = prompt(wire, session, "wait")
        await wire.receive()
        for id in (turn + 100, str(turn), None, float(turn), [turn], {"id": turn}, 1):
            wire.tell("$/cancel_request", {"requestId": id})
        wire.tell("$/cancel_request", {})
        wire.send({"method": "$/cancel_request", "params": [turn]})
        assert await frames_until_pong(wire) == []
        wire.tell("session/cancel", {"sessionId": session})
        assert (await wire.answer(turn))["result"] == {"stopReason": "cancelled"}


async def test_a_request_that_is_no_prompt_answers_that_it_was_cancelled(speak):
    async with speak() as wire:
        await wire.initialize()
        nest = wire.ask("_testy/nest", {"depth": 1})
        inner = await wire.receive()
        wire.tell("$/cancel_request", {"requestId": nest})
        # The agent takes back what it asked in turn, and answers.
        assert (await wire.receive()) == {
            "jsonrpc": "2.0",
            "method": "$/cancel_request",
            "params": {"requestId": inner["id"]},
        }
        assert (await wire.answer(nest))["error"]["code"] == -32800
        wire.send({"id": inner["id"], "result": 0})  # too late, and dropped
        assert (await wire.request("_testy/ping"))["result"] == {"pong": {}}


# $/cancel_request from the client


async def test_whoever_stops_waiting_takes_the_request_back():
    async with raw_agent() as (client, wire):
        asking = asyncio.create_task(client.new_session())
        request = await wire.receive()
        asking.cancel()
        taken_back = await wire.receive()
        assert (taken_back["method"], taken_back["params"]) == ("$/cancel_request", {"requestId": request["id"]})
        with pytest.raises(asyncio.CancelledError):
            await asking
        wire.send({"id": request["id"], "result": {"sessionId": "late"}})
        wire.send({"id": request["id"], "error": {"code": -32800, "message": "Request cancelled"}})
        again = asyncio.create_task(client.new_session())
        request = await wire.receive()
        wire.send({"id": request["id"], "result": {"sessionId": "s"}})
        assert (await again).id == "s"


async def test_an_answer_that_a_request_was_cancelled_is_raised(connect):
    async with connect() as client:
        session = await open_session(client)
        with pytest.raises(RequestCancelled):
            await session.prompt("error -32800 I gave up.")


async def test_cancelling_does_not_stop_what_is_already_answered(connect):
    async with connect(Testy) as client:
        session = await open_session(client)
        for number in range(20):
            turn = session.prompt(f"echo {number}")
            async for event in turn:
                if isinstance(event, s.AgentMessageChunk):
                    session.cancel()
            assert turn.response.stop_reason in ("end_turn", "cancelled")
        assert [type(event) for event in await play(session, "echo")] == [s.AgentMessageChunk, s.PromptResponse]
