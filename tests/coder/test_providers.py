"""The same conversation over every provider's wire, with real HTTP on loopback."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dragoman import schema as s
from dragoman.coder import Coder
from dragoman.coder.model import models
from dragoman.coder.model.choice import Choice, opened
from dragoman.coder.model.port import Model
from dragoman.errors import AuthRequired, InternalError
from dragoman.testing import pair

from .desk import QUICK, DiskClient, Reading, calls, said, updates
from .model_servers import (
    WIRES,
    Answer,
    Anthropic,
    Fault,
    Frame,
    ModelServer,
    OpenAIChat,
    OpenAIResponses,
    answer,
)
from .talking import talking

pytestmark = pytest.mark.usefixtures("collected")
every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.__name__)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("first line\n")
    (root / "b.txt").write_text("other line\n")
    return root


@every_wire
async def test_words_are_streamed_and_counted(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(wire, project, monkeypatch, answer("Hello from the model server.")) as (
        session,
        client,
        server,
    ):
        response = await session.prompt("Hi")
    assert response.stop_reason == "end_turn"
    assert said(updates(client)).endswith("Hello from the model server.")
    assert len([u for u in updates(client) if isinstance(u, s.AgentMessageChunk)]) > 3
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (100, 20)
    assert "You are a coding agent" in server.told()[0]


async def test_a_model_is_opened_once_and_before_the_first_prompt(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider's library takes seconds to load, in which the user types."""
    names: list[str] = []

    async def noted(choice: Choice, keys: Mapping[str, str]) -> Model:
        names.append(choice.name)
        return await opened(choice, keys)

    monkeypatch.setattr(models, "opened", noted)
    async with talking(Anthropic, project, monkeypatch, answer("Hello."), answer("Hello.")) as (session, _, server):
        await session.set_mode("ask")  # anything but a prompt
        assert names == [server.name]
        for _ in range(2):
            await session.prompt("Hi")
    assert names == [server.name]


@every_wire
async def test_several_calls_of_one_answer_are_run_and_their_results_sent_back(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = answer("Reading. ", ("read_file", {"path": "a.txt"}), ("read_file", {"path": "b.txt"}))
    async with talking(wire, project, monkeypatch, both, answer("Done.")) as (session, client, server):
        await session.prompt("Read both")
    assert len(server.requests) == 2
    assert "first line" in server.told()[1] and "other line" in server.told()[1]
    assert [shown["status"] for shown in calls(client).values()] == ["completed", "completed"]


@every_wire
async def test_malformed_arguments_are_answered_and_the_conversation_goes_on(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = "{}" if wire.provider == "google" else '{"path": "a.t'  # on Google's wire arguments are always JSON
    steps = answer("", ("read_file", broken)), answer("", ("read_file", {"path": "a.txt"})), answer("Done.")
    async with talking(wire, project, monkeypatch, *steps) as (session, client, server):
        response = await session.prompt("Read it")
    assert response.stop_reason == "end_turn"
    assert "nothing was done" in server.told()[1].lower()
    assert [shown["status"] for shown in calls(client).values()] == ["failed", "completed"]


@every_wire
async def test_a_cancel_hangs_up_on_a_slow_model_and_the_next_prompt_works(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Answer("I am thinking about", hangs=True), answer("Here again.")
    async with talking(wire, project, monkeypatch, *steps) as (session, client, server):
        prompt = session.prompt("Go")
        await server.speaking.wait()
        async for update in prompt:
            if isinstance(update, s.AgentMessageChunk) and "about" in said(updates(client)):
                break
        session.cancel()
        assert (await prompt).stop_reason == "cancelled"
        await server.hung_up.wait()
        assert (await session.prompt("Again")).stop_reason == "end_turn"
    assert "I am thinking about" in server.told()[1]


@every_wire
async def test_a_rate_limit_is_waited_for(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Fault("rate_limit"), Fault("overloaded"), answer("Here.")
    async with talking(wire, project, monkeypatch, *steps) as (session, client, server):
        assert (await session.prompt("Go")).stop_reason == "end_turn"
    assert len(server.requests) == 3
    assert len([u for u in updates(client) if isinstance(u, s.Notice)]) == 2


@every_wire
async def test_a_refusal_is_told_as_such(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(wire, project, monkeypatch, answer("I would rather not", stop="refusal")) as (
        session,
        _,
        _s,
    ):
        assert (await session.prompt("Go")).stop_reason == "refusal"


@every_wire
async def test_an_answer_cut_off_is_told_as_such(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(wire, project, monkeypatch, answer("And then", stop="length")) as (session, _, _s):
        assert (await session.prompt("Go")).stop_reason == "max_tokens"


@every_wire
async def test_a_conversation_too_long_is_summarised_and_goes_on(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = (
        answer("", ("read_file", {"path": "a.txt"})),
        Fault("overflow"),
        answer("The user wants a.txt read; it says: first line."),
        answer("It says: first line."),
    )
    async with talking(wire, project, monkeypatch, *steps) as (session, client, server):
        assert (await session.prompt("What does a.txt say?")).stop_reason == "end_turn"
    assert "Write a summary" in server.told()[2]
    assert "Summary of the conversation so far" in server.told()[3]
    assert "What does a.txt say?" in server.told()[3]
    states = [u.status for u in updates(client) if isinstance(u, s.CompactionUpdate)]
    assert states == ["in_progress", "completed"]


@every_wire
async def test_a_key_that_is_refused_is_a_matter_of_logging_in(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(wire, project, monkeypatch, Fault("key"), answer("Here.")) as (session, _, server):
        with pytest.raises(AuthRequired) as caught:
            await session.prompt("Go")
        assert (await session.prompt("Again")).stop_reason == "end_turn"
    assert "does not accept the key" in caught.value.message
    for value in server.environ.values():
        assert value not in str(caught.value)


async def test_a_server_that_is_not_there_is_an_error_of_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    async with pair(lambda remote: Coder(remote, model="ollama:none", limits=QUICK), DiskClient()) as client:
        session = await client.new_session(project)
        with pytest.raises(InternalError, match="ollama:none is not answering") as caught:
            await session.prompt("Go")
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["nonsense", "nobody:gpt", "anthropic:"])
async def test_a_name_that_is_no_model_is_an_error_that_says_how_to_write_it(project: Path, name: str) -> None:
    async with pair(lambda remote: Coder(remote, model=name), DiskClient()) as client:
        session = await client.new_session(project)
        with pytest.raises((InternalError, AuthRequired), match=r"provider|no model"):
            await session.prompt("Go")


@every_wire
async def test_a_picture_is_sent_along(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = s.ImageContent(data="iVBORw0KGgpQSVhFTA==", mime_type="image/png")
    async with talking(wire, project, monkeypatch, answer("A pixel.")) as (session, _, server):
        await session.prompt([s.TextContent(text="What is this?"), picture])
    assert picture.data in server.told()[0]


async def test_what_a_model_thought_is_shown_and_sent_back_as_it_was(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Thinking(Anthropic):
        def frames(self, step: Answer) -> Iterator[Frame]:
            start, *rest = super().frames(step)
            yield start
            yield self._start(0, {"type": "thinking", "thinking": "", "signature": ""})
            yield self._delta(0, {"type": "thinking_delta", "thinking": "Let me think."})
            yield self._delta(0, {"type": "signature_delta", "signature": "c2lnbmVk"})
            yield "content_block_stop", {"type": "content_block_stop", "index": 0}
            for name, data in rest:
                yield name, {**data, "index": data["index"] + 1} if "index" in data else data

    steps = answer("", ("read_file", {"path": "a.txt"})), answer("Done.")
    async with talking(Thinking, project, monkeypatch, *steps) as (session, client, server):
        await session.prompt("Go")
    thoughts = [u.content.text for u in updates(client) if isinstance(u, s.AgentThoughtChunk)]
    assert thoughts[0] == "Let me think."
    sent = [block for message in server.requests[1]["messages"] for block in message["content"]]
    (thought,) = [block for block in sent if isinstance(block, dict) and block["type"] == "thinking"]
    assert (thought["thinking"], thought["signature"]) == ("Let me think.", "c2lnbmVk")


async def test_the_effort_the_user_sets_is_asked_for(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(OpenAIResponses, project, monkeypatch, answer("One."), answer("Two.")) as (
        session,
        _,
        server,
    ):
        await session.prompt("Go")
        await session.set_config_option("effort", "low")
        await session.prompt("Go")
    assert [request.get("reasoning", {}).get("effort") for request in server.requests] == [None, "low"]


async def test_what_a_session_has_cost_is_told_where_prices_are_known(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, steps = Reading(), (answer("One."), answer("Two."))
    async with talking(Anthropic, project, monkeypatch, *steps, client=client) as (session, _, _server):
        await session.prompt("Go")
        assert [await client.titles.get(), await client.titles.get()] == ["Go", "What was asked for"]
        await session.prompt("Go")
    costs = [u.cost for u in updates(client) if isinstance(u, s.UsageUpdate)]
    assert costs[0] and costs[1] and costs[0].amount > 0
    assert costs[1].amount == pytest.approx(3 * costs[0].amount)  # the title was the second of three requests
    assert costs[0].currency == "USD"


async def test_a_conversation_goes_on_with_another_providers_model(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = OpenAIChat(answer("It said: first line."))
    first = answer("", ("read_file", {"path": "a.txt"})), answer("Read.")
    async with other.running(), talking(Anthropic, project, monkeypatch, *first) as (session, _, _server):
        for name, value in other.environ.items():
            monkeypatch.setenv(name, value)
        await session.prompt("Read a.txt")
        await session.prompt(f"/model {other.name}")
        await session.prompt("What did it say?")
    assert "first line" in other.told()[0] and "What did it say?" in other.told()[0]


async def test_without_its_libraries_the_agent_says_what_to_install(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    monkeypatch.delitem(sys.modules, "dragoman.coder.model.providers", raising=False)
    monkeypatch.delattr("dragoman.coder.model.providers", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    async with pair(lambda remote: Coder(remote, model="openai:gpt-5.5"), DiskClient()) as client:
        session = await client.new_session(project)
        with pytest.raises(InternalError, match=r"pip install 'dragoman\[coder\]'"):
            await session.prompt("Go")
