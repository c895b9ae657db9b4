"""The loop: what the model says and calls for, what comes of it, and how a turn ends."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman import schema as s
from dragoman.coder import Coder, ScriptedModel, call, call_with, pause, stop, think
from dragoman.coder.context.history import ModelInput, ModelReply, Results
from dragoman.coder.loop import TurnLimits
from dragoman.coder.model.port import Busy, CallGrew, CallStarted, Event, Finished, ModelError, ModelRequest
from dragoman.errors import InternalError
from dragoman.store import Store, durable
from dragoman.testing import pair

from .desk import BareClient, DiskClient, Reading, calls, desk, results, said, updates

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_what_the_model_says_and_thinks_reaches_the_user(tmp_path: Path) -> None:
    async with desk(tmp_path, [think("Hm. "), "Hello, ", "Ada."]) as (session, client, _):
        response = await session.prompt("Hi")
    assert response.stop_reason == "end_turn"
    assert said(updates(client)).endswith("Hello, Ada.")
    assert any(isinstance(update, s.AgentThoughtChunk) for update in updates(client))


async def test_the_first_message_names_the_model_once(tmp_path: Path) -> None:
    async with desk(tmp_path, "One.", "Two.") as (session, client, _):
        await session.prompt("Hi")
        await session.prompt("And?")
    assert said(updates(client)).count("`scripted` answers") == 1


async def test_a_tool_call_is_announced_run_and_answered(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    async with desk(tmp_path, call("read_file", path="a.txt"), "Two lines.") as (session, client, model):
        await session.prompt("How long is a.txt?")
    assert results(model) == [("read_file", "success", "     1\tone\n     2\ttwo")]
    (shown,) = calls(client).values()
    assert shown["status"] == "completed"
    assert shown["title"] == "Read a.txt"
    assert shown["locations"] == [s.ToolCallLocation(path=str(tmp_path / "a.txt"), line=1)]


async def test_the_editor_can_follow_before_the_call_is_written_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    async with desk(tmp_path, call("read_file", path="a.txt"), "Done.") as (session, client, _):
        await session.prompt("Read it")
    first = next(update for update in updates(client) if isinstance(update, s.ToolCallUpdated))
    assert (first.title, first.raw_input) == ("read_file: a.txt", s.UNSET)
    assert first.locations == [s.ToolCallLocation(path=str(tmp_path / "a.txt"))]


async def test_a_call_that_is_no_json_at_its_very_subject_is_answered(tmp_path: Path) -> None:
    broken = call_with("read_file", '{"path": "\\q"}')
    async with desk(tmp_path, broken, "Done.") as (session, _, model):
        assert (await session.prompt("Read it")).stop_reason == "end_turn"
    assert "not JSON" in results(model)[0][2]


async def test_calls_without_effects_run_beside_each_other_and_answer_in_order(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
    step = [call("read_file", path=name) for name in ("a", "b", "c")]
    both = asyncio.Barrier(3)

    class Waiting(DiskClient):
        async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
            await both.wait()  # passes only when all three are being read
            return await super().read_text_file(params)

    async with asyncio.timeout(20), desk(tmp_path, step, "Done.", client=Waiting()) as (session, _, model):
        await session.prompt("Read them")
    assert [words[-1] for _, _, words in results(model)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('{"path": ', "not JSON"),
        ("[1]", "no JSON object"),
        ("{}", "missing required field `path`"),
        ('{"path": 7}', "Expected `str`"),
        ('{"path": "a", "offset": 0}', "`int` >= 1"),
        ('{"path": "\\ud800"}', "not JSON"),
        ('{"path": "a\\u0000b"}', "NUL"),
        ('{"path": ' + "[" * 5000, "not JSON"),
        ('{"path": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deep"),
    ],
    ids=["cut", "a list", "nothing", "a number", "a zero", "half a character", "NUL", "open", "deep"],
)
async def test_arguments_that_do_not_fit_are_told_to_the_model(tmp_path: Path, written: str, told: str) -> None:
    async with desk(tmp_path, call_with("read_file", written), "Sorry.") as (session, client, model):
        response = await session.prompt("Go")
    assert response.stop_reason == "end_turn"
    ((name, outcome, words),) = results(model)
    assert (name, outcome) == ("read_file", "failed")
    assert told in words
    assert [shown["status"] for shown in calls(client).values()] == ["failed"]


async def test_half_a_character_of_the_model_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.txt")).write_text("x")
    step = [think("\ud800"), "Smile: \ud83d", call("search", pattern="x"), call("read_\ud800file", path="\ud800")]
    store = durable(Coder, Store(tmp_path / "store"))
    model = ScriptedModel(step, "Done.", "Again.")
    async with pair(lambda remote: store(remote, model=model), DiskClient()) as client:
        session = await client.new_session(tmp_path)
        assert (await session.prompt("Go")).stop_reason == "end_turn"
        await session.prompt("Go on")
    assert "Smile: ?" in said(updates(client))
    assert results(model)[0][:2] == ("search", "success")


async def test_two_calls_under_one_id_are_both_answered(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")

    class Careless(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
            async for event in super().stream(request):
                if isinstance(event, CallStarted | CallGrew):
                    event = replace(event, id="same")
                elif isinstance(event, Finished):
                    calls = [replace(made, id="same") for made in event.reply.calls]
                    event = replace(event, reply=replace(event.reply, calls=calls))
                yield event

    model = Careless([call("read_file", path="a"), call("list_files")], "Done.")
    async with desk(tmp_path, model=model) as (session, client, _):
        assert (await session.prompt("Go")).stop_reason == "end_turn"
    assert not [shown for shown in calls(client).values() if shown["status"] in ("pending", "in_progress")]
    (told,) = [message for message in model.requests[-1].history if isinstance(message, Results)]
    assert len(told.results) == 2


async def test_a_tool_that_is_not_there_is_told_to_the_model(tmp_path: Path) -> None:
    async with desk(tmp_path, call("launch_rocket"), "Sorry.") as (session, _, model):
        await session.prompt("Go")
    assert "There is no tool 'launch_rocket'" in results(model)[0][2]


@pytest.mark.parametrize(("reason", "told"), [("length", "max_tokens"), ("refusal", "refusal")])
async def test_the_stop_reason_says_why_the_model_stopped(tmp_path: Path, reason: str, told: str) -> None:
    async with desk(tmp_path, ["I", stop(reason)]) as (session, _, _model):  # type: ignore[arg-type]
        assert (await session.prompt("Go")).stop_reason == told


async def test_a_turn_that_asks_the_model_too_often_ends(tmp_path: Path) -> None:
    steps = [call("list_files", pattern=f"*.{i}") for i in range(9)]
    async with desk(tmp_path, *steps, limits=TurnLimits(requests=3)) as (session, _, model):
        response = await session.prompt("Go")
    assert response.stop_reason == "max_turn_requests"
    assert len(model.requests) == 3


async def test_an_empty_answer_is_said_to_be_one_and_not_kept(tmp_path: Path) -> None:
    async with desk(tmp_path, "", "Here.") as (session, client, model):
        assert (await session.prompt("Go")).stop_reason == "end_turn"
        assert "The model gave an empty answer." in said(updates(client))
        await session.prompt("Again")
    assert [type(message) for message in model.requests[-1].history] == [ModelInput, ModelInput]


async def test_the_same_call_again_and_again_is_not_made_and_ends_the_turn(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    steps = [call("read_file", path="a")] * 10
    async with desk(tmp_path, *steps) as (session, client, model):
        response = await session.prompt("Go")
    assert response.stop_reason == "max_turn_requests"
    assert len(model.requests) == 6
    made = [outcome for _, outcome, _ in results(model)]
    assert made == ["success"] * 3 + ["failed"] * 2
    assert "the same call" in said(updates(client))


async def test_a_busy_model_is_tried_again_and_the_user_sees_why(tmp_path: Path) -> None:
    async with desk(tmp_path, Busy("overloaded"), Busy("overloaded", 0.0), "Here.") as (session, client, model):
        response = await session.prompt("Go")
    assert response.stop_reason == "end_turn"
    assert len(model.requests) == 3
    notices = [update for update in updates(client) if isinstance(update, s.Notice)]
    assert [notice.description for notice in notices] == ["overloaded", "overloaded"]


async def test_a_client_without_notices_sees_the_waiting_as_a_thought(tmp_path: Path) -> None:
    async with desk(tmp_path, Busy("overloaded"), "Here.", client=BareClient()) as (session, client, _):
        await session.prompt("Go")
    thoughts = [u.content.text for u in updates(client) if isinstance(u, s.AgentThoughtChunk)]
    assert any("overloaded" in thought for thought in thoughts)


async def test_a_model_that_stays_busy_is_an_error_of_one_line(tmp_path: Path) -> None:
    async with desk(tmp_path, *[Busy("overloaded")] * 5) as (session, _, _model):
        with pytest.raises(InternalError, match="overloaded"):
            await session.prompt("Go")


async def test_after_an_error_the_next_prompt_works(tmp_path: Path) -> None:
    async with desk(tmp_path, ModelError("no such model"), "Here.") as (session, _, model):
        with pytest.raises(InternalError, match="no such model"):
            await session.prompt("Go")
        assert (await session.prompt("Again")).stop_reason == "end_turn"
    assert [type(message) for message in model.requests[-1].history] == [ModelInput, ModelInput]


async def test_an_answer_that_breaks_off_is_asked_for_again_and_leaves_no_open_call(tmp_path: Path) -> None:
    def broken() -> object:
        raise Busy("the line broke")

    async def break_off() -> None:
        broken()

    step = ["Let me see. ", call("read_file", path="a"), pause(break_off)]
    async with desk(tmp_path, step, "Here.") as (session, client, model):
        response = await session.prompt("Go")
    assert response.stop_reason == "end_turn"
    assert [shown["status"] for shown in calls(client).values()] == ["failed"]
    assert [type(message) for message in model.requests[-1].history] == [ModelInput]


async def test_a_cancel_while_the_model_speaks_keeps_what_was_said(tmp_path: Path) -> None:
    speaking = asyncio.Event()
    never = asyncio.Event()

    async def hang() -> None:
        speaking.set()
        await never.wait()

    async with asyncio.timeout(20), desk(tmp_path, ["Half a sen", pause(hang)], "Here.") as (session, _, model):
        prompt = session.prompt("Go")
        await speaking.wait()
        session.cancel()
        assert (await prompt).stop_reason == "cancelled"
        assert (await session.prompt("Again")).stop_reason == "end_turn"
    asked, reply, again = model.requests[-1].history
    assert isinstance(asked, ModelInput) and isinstance(again, ModelInput)
    assert reply == ModelReply("Half a sen")


async def test_a_cancel_while_a_tool_runs_leaves_a_valid_history_and_no_open_call(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    running = asyncio.Event()

    class Asking(DiskClient):
        async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
            running.set()
            await asyncio.Event().wait()
            raise AssertionError

    step = [call("read_file", path="a"), call("run_command", command="echo hi"), call("read_file", path="a")]
    async with asyncio.timeout(20), desk(tmp_path, step, "Here.", client=Asking()) as (session, client, model):
        prompt = session.prompt("Go")
        await running.wait()
        session.cancel()
        assert (await prompt).stop_reason == "cancelled"
        assert {shown["status"] for shown in calls(client).values()} == {"completed", "failed"}
        await session.prompt("Again")
    history = model.requests[-1].history
    assert [type(message) for message in history] == [ModelInput, ModelReply, Results, ModelInput]
    assert isinstance(history[2], Results)
    assert [result.outcome for result in history[2].results] == ["success", "cancelled", "cancelled"]


async def test_a_question_taken_away_ends_the_turn_as_cancelled(tmp_path: Path) -> None:
    client = DiskClient(permissions="cancel")
    async with desk(tmp_path, call("run_command", command="true"), client=client) as (session, _, model):
        assert (await session.prompt("Go")).stop_reason == "cancelled"
    assert len(model.requests) == 1


async def test_usage_is_told_with_the_answer_and_on_the_way(tmp_path: Path) -> None:
    async with desk(tmp_path, "Hello.") as (session, client, model):
        response = await session.prompt("Hi")
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens > 0
    told = [update for update in updates(client) if isinstance(update, s.UsageUpdate)]
    assert told[-1].size == model.window
    assert told[-1].used > 0


async def test_the_session_is_named_after_the_first_prompt(tmp_path: Path) -> None:
    async with desk(tmp_path, "One.", "Two.") as (session, client, _):
        await session.prompt(
            "Please  rename\nthis function to something that is very much longer than a title can be"
        )
        await session.prompt("And that")
    titles = [u.title for u in updates(client) if isinstance(u, s.SessionInfoUpdate)]
    assert titles == ["Please rename this function to something that is very much…"]


@pytest.mark.parametrize(
    ("answered", "named"),
    [
        ("Renaming a function", "Renaming a function"),
        ('\n## "Renaming a function"\nI hope it fits.', "Renaming a function"),
        ("word " * 50, ("word " * 12)[:-1] + "…"),
    ],
)
async def test_once_it_has_answered_the_model_names_the_session(answered: str, named: str, tmp_path: Path) -> None:
    model, client = ScriptedModel("One.", "Two.", title=answered), Reading()
    async with asyncio.timeout(10), desk(tmp_path, model=model, client=client) as (session, _, _model):
        await session.prompt("Rename it")
        assert [await client.titles.get(), await client.titles.get()] == ["Rename it", named]
        await session.prompt("And that")
    assert client.titles.empty()
    assert len(model.requests) == 2


async def test_a_session_that_ends_while_it_is_being_named_leaves_nothing(tmp_path: Path) -> None:
    asked = asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
            if request.purpose == "title":
                asked.set()
                await asyncio.Event().wait()
            async for event in super().stream(request):
                yield event

    async with asyncio.timeout(10), desk(tmp_path, model=Slow("One.")) as (session, client, _):
        await session.prompt("Go")
        await asked.wait()
        await session.close()
    assert [u.title for u in updates(client) if isinstance(u, s.SessionInfoUpdate)] == ["Go"]


async def test_a_call_the_model_began_but_did_not_make_does_not_stay_open(tmp_path: Path) -> None:
    class Fickle(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Event, None]:
            if not self.requests:
                yield CallStarted("never-made", "run_command")
            async for event in super().stream(request):
                yield event

    model = Fickle(call("list_files"), "Done.")
    async with desk(tmp_path, model=model) as (session, client, _):
        await session.prompt("Go")
    assert [shown["status"] for shown in calls(client).values()] == ["failed", "completed"]
    assert [name for name, _, _ in results(model)] == ["list_files"]


async def test_a_script_that_is_over_says_so(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with desk(tmp_path, model=model) as (session, client, _):
        await session.prompt("Hi")
    assert "The script is over." in said(updates(client))
