"""A stream that ends before the provider says why it ends was cut off: it is no answer, whatever came of it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.errors import InternalError

from .desk import QUICK, calls, said, updates
from .model_servers import WIRES, Answer, Anthropic, Cut, Mistral, ModelServer, answer
from .talking import talking

pytestmark = pytest.mark.usefixtures("collected")
every_wire = pytest.mark.parametrize("wire", [*WIRES, Mistral], ids=lambda wire: wire.__name__)

WRITES = answer("On it. ", ("write_file", {"path": "cut.txt", "content": "from an answer that was cut\n"}))
MEDIA = ("close", "chunked", "reset")


def cuts(wire: type[ModelServer], whole: Answer) -> list[Cut]:
    """The answer cut off before each frame and inside of each, as far as the end was not said; each way in turn."""
    frames = len(list(wire().frames(whole))) - wire.closing
    places = [(number, half) for number in range(frames + 1) for half in (False, True)]
    return [Cut(whole, number, half, MEDIA[i % 3]) for i, (number, half) in enumerate(places)]


@every_wire
async def test_a_cut_stream_is_tried_again_and_no_call_of_it_is_made(
    wire: type[ModelServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = cuts(wire, WRITES)
    steps = [step for cut in broken for step in (cut, answer("Whole again."))]
    async with talking(wire, tmp_path, monkeypatch, *steps) as (session, client, server):
        await session.set_mode("code")
        for number, cut in enumerate(broken, 1):
            assert (await session.prompt("Go")).stop_reason == "end_turn", cut
            assert len(server.requests) == 2 * number, cut
    assert len(broken) >= 4
    assert not (tmp_path / "cut.txt").exists()
    assert said(updates(client)).count("Whole again.") == len(broken)
    assert {shown["status"] for shown in calls(client).values()} <= {"failed"}
    assert "from an answer" not in server.told()[-1]  # nor is it told the model as something it said


@every_wire
async def test_a_stream_cut_every_time_ends_the_turn_with_a_sentence(
    wire: type[ModelServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (*_, last) = cuts(wire, WRITES)
    steps = [Cut(WRITES, last.frames)] * 5
    async with talking(wire, tmp_path, monkeypatch, *steps, answer("Here.")) as (session, _, server):
        await session.set_mode("code")
        with pytest.raises(InternalError, match="hung up in the middle of its answer") as caught:
            await session.prompt("Go")
        assert len(server.requests) == 5
        assert (await session.prompt("Again")).stop_reason == "end_turn"
    assert "\n" not in caught.value.message
    assert not (tmp_path / "cut.txt").exists()


@every_wire
async def test_an_answer_whose_end_was_said_counts_whatever_is_lost_behind_it(
    wire: type[ModelServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = len(list(wire().frames(WRITES))) - wire.closing + 1
    async with talking(wire, tmp_path, monkeypatch, Cut(WRITES, frames), answer("Done.")) as (session, _, server):
        await session.set_mode("code")
        assert (await session.prompt("Go")).stop_reason == "end_turn"
    assert len(server.requests) == 2
    assert (tmp_path / "cut.txt").read_text() == "from an answer that was cut\n"


async def test_a_model_that_hangs_is_given_up_with_a_sentence_and_the_next_prompt_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Answer("I am thinking about", hangs=True), answer("Here again.")
    impatient = replace(QUICK, silence=5.0)
    async with talking(Anthropic, tmp_path, monkeypatch, *steps, limits=impatient) as (session, _, server):
        with pytest.raises(InternalError, match=r"has said nothing for 5 s, so I gave up on it.*/model"):
            await session.prompt("Go")
        await server.hung_up.wait()  # the wait is over, and so is the request
        assert len(server.requests) == 1
        assert (await session.prompt("Again")).stop_reason == "end_turn"
