"""The view model: one meaning of what happens in a conversation, for every screen."""

import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_cases import CASES, CWD, NAMES, RECORDED, agent, described, events_of, text

from dragoman import codec
from dragoman import schema as s
from dragoman.transcript import Message
from dragoman.ui.model import events as e
from dragoman.ui.model.conversation import ConversationModel
from dragoman.ui.model.parts import Link, Participant, PendingQuestion, WaitingPrompt
from dragoman.ui.model.terminals import MOST

BEGAN = e.SessionBegan(id="sess_1", cwd=CWD, agent="Testy", at=0.0)
ids = st.sampled_from("abc")
times = st.none() | st.integers(0, 99).map(float)
words = st.text(max_size=4)
prompts = st.lists(st.builds(s.TextContent, text=words), max_size=2)
meta = st.builds(lambda id, data: {"terminal_output": {"terminal_id": id, "data": data}}, ids, words)
updates = st.one_of(
    st.builds(s.AgentMessageChunk, content=st.builds(s.TextContent, text=words), message_id=st.none() | ids),
    st.builds(s.UserMessageChunk, content=st.builds(s.TextContent, text=words)),
    st.builds(s.ToolCall, tool_call_id=ids, title=words, meta=st.none() | meta),
    st.builds(s.ToolCallUpdated, tool_call_id=ids, status=st.sampled_from(["in_progress", "completed"])),
    st.builds(s.UsageUpdate, used=st.integers(0, 9), size=st.integers(0, 9)),
    st.builds(s.CurrentModeUpdate, current_mode_id=ids),
    st.builds(s.SessionInfoUpdate, title=words),
    st.builds(s.Plan, entries=st.just([])),
)
TRANSCRIPT = st.one_of(
    st.builds(e.UpdateTold, update=updates, at=times),
    st.builds(e.PromptGiven, id=ids, prompt=prompts, at=times),
    st.builds(e.TurnOver, id=ids, response=st.builds(s.PromptResponse, stop_reason=st.just("cancelled"))),
    st.builds(e.TurnOver, id=ids, error=words, at=times),
    st.builds(e.QuestionPut, question=st.builds(PendingQuestion, id=ids, kind=st.just("form"), title=words)),
    st.builds(e.QuestionOver, id=ids, answer=words, allowed=st.none() | st.booleans(), at=times),
    st.builds(e.DecisionTold, title=words, allowed=st.booleans(), at=times),
    st.builds(e.NoticeTold, text=words, at=times),
)
TERMINALS = st.one_of(
    st.builds(e.TerminalBegan, id=ids, command=words, is_mine=st.booleans()),
    st.builds(e.TerminalPrinted, id=ids, text=st.text(alphabet="a\n\r\x1b[3m1日", max_size=12)),
    st.builds(e.TerminalSized, id=ids, columns=st.integers(1, 9), rows=st.integers(1, 9)),
    st.builds(
        e.TerminalOver, id=ids, status=st.none() | st.builds(s.TerminalExitStatus, exit_code=st.integers(0, 1))
    ),
)
QUEUE = st.one_of(
    st.builds(e.PromptWaits, prompt=st.builds(WaitingPrompt, id=st.sampled_from("xyz"), prompt=prompts)),
    st.builds(e.PromptDropped, id=st.sampled_from("xyz")),
)
PEOPLE = st.builds(e.PeopleTold, people=st.lists(st.builds(Participant, name=words), max_size=2))
LINKS = st.builds(
    e.LinkTold, link=st.builds(Link, kind=st.sampled_from(["connected", "reconnecting", "lost"]), since=times)
)
EVENTS = st.lists(st.one_of(TRANSCRIPT, TRANSCRIPT, TERMINALS, QUEUE, PEOPLE, LINKS, st.just(BEGAN)), max_size=30)


def told(events: Iterable[e.ModelEvent]) -> dict[str, Any]:
    return described(ConversationModel(events))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_conversation_makes_the_model_that_is_written_down_beside_it(name: str) -> None:
    assert told(events_of(name)) == msgspec.json.decode((CASES / f"{name}.json").read_bytes())


def test_every_case_that_can_be_recorded_is_there_and_every_kind_of_event_is_in_one() -> None:
    assert sorted(case.__name__ for case in RECORDED) == NAMES
    assert {type(event) for name in NAMES for event in events_of(name)} == set(e.ModelEvent.__args__)


@given(EVENTS)
def test_a_change_names_everything_that_is_different(events: list[e.ModelEvent]) -> None:
    model = ConversationModel()
    before = described(model)
    for event in events:
        entries = list(model.entries)
        change = model.apply(event)
        after = described(model)
        if not change.is_new:
            assert all(old is new for old, new in zip(entries, model.entries, strict=False))
            others = [
                model.place(entry) for entry in model.entries if not any(entry is each for each in change.entries)
            ]
            assert [after["entries"][at] for at in others] == [before["entries"][at] for at in others]
            quiet = [view for view in after["terminals"] if view["id"] not in change.terminals]
            assert [view for view in quiet if view not in before["terminals"]] == []
        for part, names in PARTS.items():
            if part not in change.parts:
                assert {name: after[name] for name in names} == {name: before[name] for name in names}, part
        before = after


PARTS: dict[str, tuple[str, ...]] = {
    "transcript": ("entries",),
    "questions": ("questions",),
    "queue": ("queue",),
    "terminals": ("terminals",),
    "options": ("mode", "modes", "options", "commands", "usage", "title"),
    "people": ("people",),
    "link": ("link",),
    "state": ("state",),
}


@given(EVENTS)
def test_a_session_that_is_told_twice_is_the_same_as_once(events: list[e.ModelEvent]) -> None:
    once = [BEGAN, *events]
    assert told([*once, *once]) == told(once)


@given(EVENTS, st.integers(0, 30))
def test_it_makes_no_difference_whether_events_come_at_once_or_one_by_one_or_over_a_wire(
    events: list[e.ModelEvent], at: int
) -> None:
    wired = [codec.decode(codec.encode(event), e.ModelEvent) for event in events]
    model = ConversationModel(wired[:at])
    described(model)  # looking at it changes nothing
    for event in wired[at:]:
        model.apply(event)
    assert described(model) == told(events)


# A command of the person's own has its place among what the agent tells.
APART = TERMINALS.filter(lambda event: not (isinstance(event, e.TerminalBegan) and event.is_mine))
CHANNELS = st.tuples(*(st.lists(channel, max_size=8) for channel in (TRANSCRIPT, APART, QUEUE, PEOPLE, LINKS)))


@given(channels=CHANNELS, chance=st.randoms(use_true_random=False))
def test_what_has_nothing_to_do_with_each_other_may_come_in_any_order(
    channels: tuple[list[e.ModelEvent], ...], chance: random.Random
) -> None:
    shuffled, ordered = told(_shuffled(channels, chance)), told(event for channel in channels for event in channel)
    for one in (shuffled, ordered):
        one["terminals"].sort(key=lambda view: view["id"])
    assert shuffled == ordered


def _shuffled(channels: Iterable[list[e.ModelEvent]], chance: random.Random) -> list[e.ModelEvent]:
    left, found = [list(channel) for channel in channels], []
    while any(left):
        found.append(chance.choice([channel for channel in left if channel]).pop(0))
    return found


@given(words=st.text(max_size=60), cuts=st.lists(st.integers(0, 60), max_size=6))
def test_words_and_output_are_the_same_however_they_are_cut(words: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(words)) for cut in cuts), len(words)]
    begin = [BEGAN, e.TerminalBegan(id="t", command="x"), e.UpdateTold(update=agent(""))]

    def events(pieces: list[str]) -> list[e.ModelEvent]:
        said = [e.UpdateTold(update=agent(piece)) for piece in pieces]
        return [*begin, *said, *(e.TerminalPrinted(id="t", text=piece) for piece in pieces)]

    assert told(events([words[start:end] for start, end in pairwise(edges)])) == told(events([words]))


def test_the_state_is_what_a_person_has_to_know_first() -> None:
    model = ConversationModel([BEGAN])
    assert model.state.kind == "idle"
    model.apply(e.PromptGiven(id="p", prompt=[text("go")], at=3.0))
    model.apply(e.UpdateTold(update=s.ToolCall(tool_call_id="c", title="Run the tests", status="in_progress")))
    assert (model.state.kind, model.state.since, model.state.on) == ("working", 3.0, "Run the tests")
    model.apply(e.QuestionPut(question=PendingQuestion(id="q", kind="permission", title="Run a command?")))
    assert (model.state.kind, model.state.count) == ("asking", 1)
    model.apply(e.LinkTold(link=Link(kind="lost", since=4.0, why="the agent was killed")))
    assert (model.state.kind, model.state.why) == ("broken", "the agent was killed")


def test_a_message_that_is_read_with_every_chunk_joins_each_chunk_once() -> None:
    model, read = ConversationModel([BEGAN, e.UpdateTold(update=agent(""))]), 0

    class Counting(list[Any]):
        def __getitem__(self, place: Any) -> Any:
            nonlocal read
            found = super().__getitem__(place)
            read += len(found) if isinstance(place, slice) else 1
            return found

        def __iter__(self) -> Any:
            nonlocal read
            read += len(self)
            return super().__iter__()

    (message,) = model.entries
    assert isinstance(message, Message)
    message.blocks = Counting(message.blocks)
    for _ in range(1000):
        model.apply(e.UpdateTold(update=agent("word ")))
        assert message.text.endswith("word ")
    assert message.text == "word " * 1000
    assert read < 3000


def test_terminals_are_bounded_and_those_that_ended_go_first() -> None:
    model = ConversationModel([BEGAN])
    for number in range(MOST + 10):
        model.apply(e.TerminalBegan(id=f"t{number}", command="sleep"))
        if number % 2:
            model.apply(e.TerminalOver(id=f"t{number}"))
    kept = list(model.terminals.views)
    assert len(kept) == MOST
    assert [f"t{number}" for number in range(0, 20, 2)] == kept[:10]
