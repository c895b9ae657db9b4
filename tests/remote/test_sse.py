"""Events are read however they are cut, and whatever ends their lines."""

import json

from hypothesis import given
from hypothesis import strategies as st

from dragoman.framing import HEAD, Oversize
from dragoman.transports.remote.sse import Event, EventReader, in_ascii, write_events

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


@given(st.lists(st.integers(0, 60_000)), st.integers(0, 40), st.sampled_from([b"", b" "]))
def test_both_ends_of_an_event_that_is_too_large_are_kept(cuts, lines, space):
    """However it is cut, and whether it is one long line or many."""
    data = b"".join(b"%07d" % number for number in range(7000))
    size = -(-len(data) // (lines + 1))
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    written = b"".join(b"data:%b%b\n" % (space, part) for part in parts) + b"\n"
    whole = b"\n".join(parts)
    (event,) = read(written, cuts)
    head, size, tail = event.data.head, event.data.size, event.data.tail
    assert (size, tail) == (len(whole), whole[-HEAD:])
    assert head == whole[: len(head)]
    assert len(head) >= HEAD - len(b"data: ")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_in_ascii_says_the_same(text):
    frame = json.dumps({"text": text}, ensure_ascii=False).encode()
    assert in_ascii(frame).isascii()
    assert json.loads(in_ascii(frame)) == {"text": text}


def test_short_lines_of_an_event_count_for_more_than_their_bytes():
    """Each costs as much work as a long one, so an event of many is given up sooner."""
    reader = EventReader()
    reader.feed(b"data:x\n" * 1000)
    assert reader.unfinished > 10 * len(b"x\n" * 1000) / 2
    assert reader.feed(b"\n")[0].data == b"\n".join([b"x"] * 1000)
    assert reader.unfinished == 0
