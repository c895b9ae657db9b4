"""Events are read however they are cut, and whatever ends their lines."""

import json

from hypothesis import given
from hypothesis import strategies as st

from dragoman.framing import Oversize
from dragoman.transports.sse import Event, EventReader, in_ascii, write_events

FRAMES = st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), max_size=5)


def read(data, cuts=(), limit=1000):
    reader = EventReader(limit)
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    parts = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    return [event for part in parts for event in reader.feed(part)]


@given(FRAMES, st.lists(st.integers(0, 10_000)), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans())
def test_events_are_the_same_however_they_are_cut(texts, cuts, newline, has_bom):
    frames = [text.encode() for text in texts]
    data = (b"\xef\xbb\xbf" if has_bom else b"") + write_events(frames, 7).replace(b"\n", newline)
    assert [event.data for event in read(data, cuts, 10_000)] == frames
    assert [event.id for event in read(data, cuts, 10_000)] == [b"%d" % (7 + n) for n in range(len(frames))]


def test_comments_and_unknown_fields_are_nothing():
    assert read(b": keepalive\n\n:\n\nretry: 5\nfoo\n\ndata: x\n\n") == [Event(b"x")]


def test_data_of_several_lines_is_joined():
    assert read(b"data: {\ndata:  1}\ndata\n\n") == [Event(b"{\n 1}\n")]


def test_an_event_has_a_kind_when_it_is_given_one():
    assert read(b"event: endpoint\ndata: /post\n\n") == [Event(b"/post", kind=b"endpoint")]


def test_an_event_without_its_end_is_none():
    assert read(b"data: x\n") == []


@given(st.lists(st.integers(0, 3000)))
def test_an_event_that_is_too_large_is_thrown_away_and_the_next_one_read(cuts):
    first, second = read(b"data: " + b"x" * 2000 + b"\n\ndata: y\n\n", cuts)
    assert isinstance(first.data, Oversize)
    assert (first.data.size, second) == (2000, Event(b"y"))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_in_ascii_says_the_same(text):
    frame = json.dumps({"text": text}, ensure_ascii=False).encode()
    assert in_ascii(frame).isascii()
    assert json.loads(in_ascii(frame)) == {"text": text}
