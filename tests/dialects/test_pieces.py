"""Pieces of text take a short way through a translator, and come out as they would have on the long one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import NAMES, translator

from .test_properties import EACH, SIZE, settings

DIALECTS = [name for name in NAMES if name != "v1"]
TEXTS = st.sampled_from(["", "a few words", 'é\u2028\n"\\', "🦆"])
KINDS = st.sampled_from(["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"])
IDS = st.sampled_from(["m1", "m2", "", "dragoman:v2-message-1", "pharo-message-1", None, 7])
MARGIN = st.sampled_from([{}, {"a": 1}, {"dragoman.dialect": {"draft": {"index": 3, "+": ["messageId"]}}}])


def members(required, **optional):
    return st.fixed_dictionaries(required, optional=optional)


TEXT = members({"type": st.just("text"), "text": TEXTS})
BLOCK = (
    TEXT
    | TEXT
    | members({"type": st.sampled_from(["text", "image"])}, text=st.sampled_from(["x", 5]), _meta=MARGIN)
)
CHUNK = members({"sessionUpdate": KINDS, "content": BLOCK}, messageId=IDS)
TOOL = st.just({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "T"})


def told(update):
    return members({"sessionId": st.sampled_from(["s1", "s2"]), "update": update}, _meta=MARGIN)


MESSAGE = members({"role": st.sampled_from(["agent", "user", "assistant"]), "content": st.lists(TEXT, max_size=2)})
DATA = members({"content": TEXTS, "index": st.integers(0, 3)}, final=st.booleans(), visible=st.booleans())
TYPES = st.sampled_from(["agent_message_chunk", "user_message_chunk", "thought_message_chunk", "tool_call"])
OWN = {
    "pharo": told(MESSAGE.map(lambda message: {"type": "message", **message})),
    "jetbrains": told(MESSAGE.map(lambda message: {"sessionUpdate": "message", **message})),
    "draft": members(
        {"sessionId": st.sampled_from(["s1", "s2"]), "type": TYPES, "data": DATA}, timestamp=st.just("now")
    ),
}


def frames(dialect):
    """Updates in the words of version 1 and of the dialect, most of them pieces of text."""
    params = told(CHUNK) | told(CHUNK) | told(TOOL) | OWN.get(dialect, told(CHUNK))
    whole = members({"jsonrpc": st.just("2.0"), "method": st.just("session/update"), "params": params})
    return whole | members({"method": st.just("session/update"), "params": params}, id=st.just(1))


def passed(t, is_inward, message, is_quick):
    frame = json.dumps(message).encode()
    if is_quick and (quick := (t.quick_inward if is_inward else t.quick_outward)(frame)) is not None:
        return [json.loads(quick)]
    translation = (t.inward if is_inward else t.outward)(message)
    return [*translation.onward, *translation.back]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("peer", ["agent", "client"])
def test_the_short_way_leads_where_the_long_one_does(dialect, peer):
    @settings(EACH, max_examples=2 * SIZE)
    @given(st.lists(st.tuples(st.booleans(), frames(dialect)), max_size=12))
    def holds(conversation):
        quick, slow = translator(dialect, peer), translator(dialect, peer)
        for is_inward, message in conversation:
            assert passed(quick, is_inward, message, True) == passed(slow, is_inward, message, False)
        assert quick.report == slow.report

    holds()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_words_take_the_short_way(dialect):
    ours, theirs = translator(dialect, "client"), translator(dialect, "agent")
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "word"}}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": chunk}}
    first = ours.outward(message).onward[0]
    theirs.inward(first)  # what begins a message may take longer
    said = ours.quick_outward(json.dumps(message).encode())
    heard = json.loads(theirs.quick_inward(said))
    assert heard["params"]["update"]["content"] == chunk["content"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "frame", [b"", b"noise", b"[]", b"{}", b"[" * 5000, b'{"a":' * 5000, b"\xff\xfe", b'"\\ud800"']
)
def test_what_is_no_message_is_no_piece(dialect, frame):
    t = translator(dialect, "agent")
    assert t.quick_inward(frame) is None
    assert t.quick_outward(frame) is None
