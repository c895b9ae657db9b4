"""Transcript: the fold of session updates that every screen shows."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Transcript, codec
from dragoman import schema as s
from dragoman.schema import UNSET
from dragoman.transcript import (
    Compaction,
    Message,
    PlanEntries,
    SessionNote,
    Subagent,
    ToolCallEntry,
    TurnEnd,
    Unknown,
    joined,
)


def text(words, **more):
    return s.TextContent(text=words, **more)


def agent(words, id=None):
    return s.AgentMessageChunk(content=text(words), message_id=id)


def thought(words, id=None):
    return s.AgentThoughtChunk(content=text(words), message_id=id)


def user(words, id=None):
    return s.UserMessageChunk(content=text(words), message_id=id)


def texts(transcript):
    return [(message.speaker, message.text) for message in transcript.messages]


# Messages


def test_chunks_with_one_id_are_one_message():
    assert texts(Transcript([agent("Hel", "1"), agent("lo", "1"), agent("Again", "2")])) == [
        ("agent", "Hello"),
        ("agent", "Again"),
    ]


def test_chunks_without_an_id_go_on_with_the_message_before():
    assert texts(Transcript([agent("a"), agent("b", "1"), agent("c"), agent("d", "1")])) == [("agent", "abcd")]


def test_a_new_id_begins_a_new_message_also_after_chunks_that_had_none():
    assert texts(Transcript([agent("a"), agent("b", "1"), agent("c", "2")])) == [("agent", "ab"), ("agent", "c")]


def test_another_speaker_begins_another_message():
    assert texts(Transcript([agent("a"), thought("b"), user("c"), agent("d")])) == [
        ("agent", "a"),
        ("thought", "b"),
        ("user", "c"),
        ("agent", "d"),
    ]


def test_what_comes_in_between_ends_a_message():
    call = s.ToolCall(tool_call_id="c", title="t")
    assert texts(Transcript([agent("a"), call, agent("b")])) == [("agent", "a"), ("agent", "b")]


def test_what_has_no_place_in_the_flow_does_not_interrupt_a_message():
    events = [agent("a"), s.UsageUpdate(used=1, size=2), s.CurrentModeUpdate(current_mode_id="m"), agent("b")]
    transcript = Transcript(events)
    assert texts(transcript) == [("agent", "ab")]
    assert (transcript.usage.used, transcript.mode) == (1, "m")


def test_the_echo_of_a_prompt_takes_its_place():
    transcript = Transcript()
    local = transcript.said([text("hello")])
    assert local.is_local
    assert transcript.apply(user("hel", "p1"))[0] is local
    assert transcript.apply(user("lo", "p1"))[0] is local
    assert texts(transcript) == [("user", "hello")]
    assert (local.id, local.is_local) == ("p1", False)


def test_a_prompt_nobody_echoes_stays():
    transcript = Transcript()
    transcript.said([text("one")])
    transcript.apply(agent("1"))
    transcript.said([text("two")])
    transcript.apply(user("two, echoed"))
    assert texts(transcript) == [("user", "one"), ("agent", "1"), ("user", "two, echoed")]


def test_neighbouring_texts_are_joined_where_nothing_tells_them_apart():
    image = s.ImageContent(data="aGk=", mime_type="image/png")
    noted = s.Annotations(priority=1.0)
    blocks = [text("a"), text("b"), image, text("c"), text("d", annotations=noted), text("e", meta={"x": 1})]
    assert joined(blocks) == [
        text("ab"),
        image,
        text("c"),
        text("d", annotations=noted),
        text("e", meta={"x": 1}),
    ]


# Tool calls


def test_an_update_before_its_tool_call_makes_it():
    transcript = Transcript([s.ToolCallUpdated(tool_call_id="c", title="Ghost", status="completed")])
    assert transcript.tool_calls == [ToolCallEntry("c", title="Ghost", status="completed")]


def test_an_update_changes_what_it_names_and_nothing_else():
    place = s.ToolCallLocation(path="/a", line=1)
    shown = [s.Content(content=text("x"))]
    call = s.ToolCall(tool_call_id="c", title="t", name="n", kind="read", locations=[place], raw_input={"a": 1})
    transcript = Transcript([call])
    (entry,) = transcript.apply(s.ToolCallUpdated(tool_call_id="c", status="in_progress", content=shown))
    assert entry == ToolCallEntry("c", "t", "n", "read", "in_progress", shown, [place], {"a": 1})
    transcript.apply(s.ToolCallUpdated(tool_call_id="c", content=[], locations=[], raw_output=None))
    assert (entry.content, entry.locations, entry.raw_input, entry.raw_output) == ([], [], {"a": 1}, None)


def test_the_tool_of_a_permission_request_can_be_folded_in():
    transcript = Transcript([s.ToolCallUpdate(tool_call_id="c", title="Delete")])
    assert transcript.tool_calls[0].title == "Delete"


def test_a_cancelled_turn_leaves_no_tool_unfinished():
    events = [s.ToolCall(tool_call_id=status, title=status, status=status) for status in STATUSES]
    transcript = Transcript([*events, s.PromptResponse(stop_reason="cancelled")])
    assert [call.status for call in transcript.tool_calls] == ["cancelled", "cancelled", "completed", "failed"]


@pytest.mark.parametrize("reason", ["end_turn", "refusal", "_odd"])
def test_a_turn_that_ends_otherwise_leaves_tools_as_they_are(reason):
    events = [s.ToolCall(tool_call_id=status, title=status, status=status) for status in STATUSES]
    transcript = Transcript([*events, s.PromptResponse(stop_reason=reason)])
    assert [call.status for call in transcript.tool_calls] == list(STATUSES)
    assert transcript.entries[-1] == TurnEnd(reason)


STATUSES = ("pending", "in_progress", "completed", "failed")


# Plans


def entry(words):
    return s.PlanEntry(content=words, priority="low", status="pending")


def test_a_plan_changes_in_its_place():
    transcript = Transcript([s.Plan(entries=[entry("a")]), agent("x"), s.Plan(entries=[entry("b"), entry("c")])])
    plan, _ = transcript.entries
    assert plan == PlanEntries(None, s.Plan(entries=[entry("b"), entry("c")]))
    assert transcript.plan is plan


def test_the_plan_is_the_one_last_touched_that_is_still_there():
    one, two = (s.PlanMarkdown(plan_id=id, content="") for id in ("1", "2"))
    transcript = Transcript([s.PlanUpdate(plan=one), s.PlanUpdate(plan=two), s.PlanUpdate(plan=one)])
    assert transcript.plan.id == "1"
    (removed,) = transcript.apply(s.PlanRemoved(plan_id="1"))
    assert removed.plan is None
    assert transcript.plan.id == "2"
    assert transcript.apply(s.PlanRemoved(plan_id="never")) == ()
    transcript.apply(s.PlanUpdate(plan=one))
    assert transcript.plan is removed
    assert len(transcript.entries) == 2


# Patches: left out stays, null clears


def test_a_title_stays_until_it_is_changed_or_cleared():
    transcript = Transcript([s.SessionInfoUpdate(title="A", updated_at="now")])
    transcript.apply(s.SessionInfoUpdate())
    assert (transcript.title, transcript.updated_at) == ("A", "now")
    transcript.apply(s.SessionInfoUpdate(title=None, updated_at="later"))
    assert (transcript.title, transcript.updated_at) == (None, "later")


def test_a_compaction_is_patched():
    chunk = s.CompactionSummaryChunk(compaction_id="c", content=text("a"))
    transcript = Transcript([chunk, chunk])
    compaction = transcript.entries[0]
    assert compaction == Compaction("c", "in_progress", [text("a"), text("a")])
    transcript.apply(s.CompactionUpdate(compaction_id="c", status="failed", error="too long"))
    assert compaction == Compaction("c", "failed", [text("a"), text("a")], "too long")
    transcript.apply(s.CompactionUpdate(compaction_id="c", status="completed", summary=[text("b")], error=None))
    assert compaction == Compaction("c", "completed", [text("b")])
    transcript.apply(s.CompactionUpdate(compaction_id="c", status="completed", summary=None))
    assert compaction.summary == []


def test_a_subagent_is_patched():
    may_cancel = s.SubagentSessionCapabilities(cancel=s.SessionCancelCapabilities())
    transcript = Transcript([s.SubagentUpdate(session_id="x", title="T", capabilities=may_cancel)])
    (subagent,) = transcript.apply(s.SubagentUpdate(session_id="x", state=s.RunningStateUpdate()))
    assert subagent == Subagent("x", "T", None, s.RunningStateUpdate(), can_cancel=True)
    transcript.apply(s.SubagentUpdate(session_id="x", title=None, capabilities=None, state=None))
    assert subagent == Subagent("x")
    assert len(transcript.entries) == 1


def test_a_note_between_sessions_is_patched_and_grows():
    transcript = Transcript([s.SessionMessage(message_id="n", sender_session_id="a", content=[text("Go")])])
    (note,) = transcript.apply(s.SessionMessageChunk(message_id="n", content=text(" on")))
    assert note == SessionNote("n", "a", None, [text("Go"), text(" on")])
    transcript.apply(s.SessionMessage(message_id="n", sender_session_id=None, recipient_session_id="b"))
    assert note == SessionNote("n", None, "b", [text("Go"), text(" on")])
    transcript.apply(s.SessionMessage(message_id="n", content=None))
    assert note.blocks == []


# The rest


def test_the_latest_word_counts():
    command = s.AvailableCommand(name="x", description="y")
    option = s.SessionConfigBoolean(id="o", name="O", current_value=True)
    transcript = Transcript(
        [
            s.CurrentModeUpdate(current_mode_id="a"),
            s.CurrentModeUpdate(current_mode_id="b"),
            s.AvailableCommandsUpdate(available_commands=[command]),
            s.ConfigOptionUpdate(config_options=[]),
            s.ConfigOptionUpdate(config_options=[option]),
            s.UsageUpdate(used=1, size=9),
            s.UsageUpdate(used=2, size=9),
        ]
    )
    assert (transcript.mode, transcript.commands, transcript.config_options) == ("b", [command], [option])
    assert transcript.usage.used == 2
    assert transcript.entries == []


def test_every_notice_is_shown():
    notice = s.Notice(severity="info", title="x")
    assert Transcript([notice, notice]).entries == [notice, notice]


def test_what_is_unknown_is_kept_as_it_came():
    update, plan = s.Raw(b'{"sessionUpdate":"_x"}'), s.PlanUpdate(plan=s.Raw(b'{"type":"_x","planId":"1"}'))
    assert Transcript([update, plan]).entries == [Unknown(update), Unknown(plan)]


def test_a_turn_ends_with_its_reason_and_tokens():
    usage = s.Usage(total_tokens=3, input_tokens=1, output_tokens=2)
    assert Transcript([s.PromptResponse(stop_reason="end_turn", usage=usage)]).entries == [
        TurnEnd("end_turn", usage)
    ]


# Any sequence of updates at all

ids = st.sampled_from(["1", "2", "3"])
words = st.text(max_size=8)
maybe = st.one_of(st.none(), ids)
blocks = st.one_of(
    st.builds(text, words),
    st.builds(text, words, annotations=st.just(s.Annotations(priority=0.5))),
    st.builds(s.ImageContent, data=st.just("aGk="), mime_type=st.just("image/png")),
    st.builds(s.ResourceLink, name=words, uri=words),
    st.just(s.Raw(b'{"type":"_hologram"}')),
)
lists = st.lists(blocks, max_size=3)


def patch(values):
    return st.one_of(st.just(UNSET), st.none(), values)


def optional(values):
    return st.one_of(st.none(), values)


shown = st.lists(
    st.one_of(
        st.builds(s.Content, content=blocks),
        st.builds(s.Diff, path=words, new_text=words, old_text=optional(words)),
        st.builds(s.Terminal, terminal_id=ids),
        st.just(s.Raw(b'{"type":"_x"}')),
    ),
    max_size=2,
)
places = st.lists(st.builds(s.ToolCallLocation, path=words, line=optional(st.integers(0, 9))), max_size=2)
kinds = st.sampled_from(["read", "edit", "other"])
statuses = st.sampled_from(STATUSES)
anything = st.one_of(st.just(UNSET), st.none(), st.integers(0, 9), st.dictionaries(words, words, max_size=2))
entries = st.lists(st.builds(entry, words), max_size=2)
states = st.sampled_from([s.RunningStateUpdate(), s.IdleStateUpdate(stop_reason="error"), s.UnknownStateUpdate()])
abilities = st.sampled_from(
    [s.SubagentSessionCapabilities(), s.SubagentSessionCapabilities(cancel=s.SessionCancelCapabilities())]
)
updates = st.one_of(
    *(
        st.builds(kind, content=blocks, message_id=maybe)
        for kind in (s.AgentMessageChunk, s.AgentThoughtChunk, s.UserMessageChunk)
    ),
    st.builds(
        s.ToolCall,
        tool_call_id=ids,
        title=words,
        name=optional(words),
        kind=kinds,
        status=statuses,
        content=shown,
        locations=places,
        raw_input=anything,
        raw_output=anything,
    ),
    st.builds(
        s.ToolCallUpdated,
        tool_call_id=ids,
        title=optional(words),
        name=optional(words),
        kind=optional(kinds),
        status=optional(statuses),
        content=optional(shown),
        locations=optional(places),
        raw_input=anything,
        raw_output=anything,
    ),
    st.builds(s.Plan, entries=entries),
    st.builds(s.PlanUpdate, plan=st.builds(s.PlanItems, plan_id=ids, entries=entries)),
    st.builds(s.PlanUpdate, plan=st.builds(s.PlanFile, plan_id=ids, uri=words)),
    st.builds(s.PlanUpdate, plan=st.builds(s.PlanMarkdown, plan_id=ids, content=words)),
    st.builds(s.PlanUpdate, plan=st.just(s.Raw(b'{"type":"_x"}'))),
    st.builds(s.PlanRemoved, plan_id=ids),
    st.builds(s.CurrentModeUpdate, current_mode_id=ids),
    st.builds(
        s.AvailableCommandsUpdate,
        available_commands=st.lists(st.builds(s.AvailableCommand, name=words, description=words), max_size=2),
    ),
    st.builds(
        s.ConfigOptionUpdate,
        config_options=st.lists(
            st.builds(s.SessionConfigBoolean, id=ids, name=words, current_value=st.booleans()), max_size=2
        ),
    ),
    st.builds(s.SessionInfoUpdate, title=patch(words), updated_at=patch(words)),
    st.builds(s.UsageUpdate, used=st.integers(0, 99), size=st.integers(0, 99)),
    st.builds(s.Notice, severity=words, title=st.text(min_size=1, max_size=4), description=optional(words)),
    st.builds(s.CompactionUpdate, compaction_id=ids, status=words, summary=patch(lists), error=patch(words)),
    st.builds(s.CompactionSummaryChunk, compaction_id=ids, content=blocks),
    st.builds(
        s.SubagentUpdate,
        session_id=ids,
        title=patch(words),
        description=patch(words),
        capabilities=patch(abilities),
        state=patch(states),
    ),
    st.builds(
        s.SessionMessage,
        message_id=ids,
        sender_session_id=patch(ids),
        recipient_session_id=patch(ids),
        content=patch(lists),
    ),
    st.builds(s.SessionMessageChunk, message_id=ids, content=blocks),
    st.just(s.Raw(b'{"sessionUpdate":"_unheard_of"}')),
)
ends = st.builds(s.PromptResponse, stop_reason=st.sampled_from(["end_turn", "cancelled", "_odd"]))
events = st.lists(st.one_of(updates, updates, updates, ends), max_size=40)


def state(transcript):
    return {name: value for name, value in vars(transcript).items() if not name.startswith("_")}


@given(events)
def test_nothing_makes_it_raise_and_it_tells_every_entry_that_changed(events):
    transcript = Transcript()
    for event in events:
        before = [msgspec.json.encode(entry) for entry in transcript.entries]
        touched = transcript.apply(event)
        now = [msgspec.json.encode(entry) for entry in transcript.entries]
        changed = [
            entry for at, entry in enumerate(transcript.entries) if at >= len(before) or before[at] != now[at]
        ]
        assert {id(entry) for entry in changed} <= {id(entry) for entry in touched}
        assert {id(entry) for entry in touched} <= {id(entry) for entry in transcript.entries}
    assert len({call.id for call in transcript.tool_calls}) == len(transcript.tool_calls)


@given(events)
def test_it_is_the_same_whether_folded_at_once_one_by_one_or_from_the_wire(events):
    one_by_one = Transcript()
    for event in events:
        one_by_one.apply(event)
    told = (
        codec.decode(
            codec.encode(event), s.PromptResponse if isinstance(event, s.PromptResponse) else s.SessionUpdate
        )
        for event in events
    )
    assert state(Transcript(events)) == state(one_by_one) == state(Transcript(told))


@given(events)
def test_entries_never_move(events):
    transcript = Transcript()
    seen = []
    for event in events:
        transcript.apply(event)
        assert all(old is new for old, new in zip(seen, transcript.entries, strict=False))
        seen = list(transcript.entries)


@given(events)
def test_a_tool_call_is_what_was_last_said_of_it(events):
    status = {}
    for event in events:
        if isinstance(event, s.ToolCall | s.ToolCallUpdate):
            status[event.tool_call_id] = event.status or status.get(event.tool_call_id, "pending")
        elif isinstance(event, s.PromptResponse) and event.stop_reason == "cancelled":
            status = {id: "cancelled" if old in ("pending", "in_progress") else old for id, old in status.items()}
    assert {call.id: call.status for call in Transcript(events).tool_calls} == status


@given(events)
def test_after_a_cancelled_turn_nothing_is_unfinished(events):
    transcript = Transcript([*events, s.PromptResponse(stop_reason="cancelled")])
    assert not {call.status for call in transcript.tool_calls} & {"pending", "in_progress"}


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=6), st.sampled_from([agent, thought, user]))
def test_a_message_is_the_same_however_it_was_cut(words, cuts, speak):
    edges = [0, *sorted(min(cut, len(words)) for cut in cuts), len(words)]
    chunks = [words[start:end] for start, end in pairwise(edges)]
    whole, cut = Transcript([speak(words, "1")]), Transcript([speak(chunk, "1") for chunk in chunks])
    assert len(cut.entries) == 1
    assert isinstance(cut.entries[0], Message)
    assert cut.entries[0].text == words
    assert cut.entries[0].content == whole.entries[0].content


@given(lists)
def test_joining_keeps_every_word_in_order(blocks):
    def everything(blocks):
        return "".join(
            block.text if isinstance(block, s.TextContent) else f"[{msgspec.json.encode(block)!r}]"
            for block in blocks
        )

    assert everything(joined(blocks)) == everything(blocks)
    assert joined(joined(blocks)) == joined(blocks)
