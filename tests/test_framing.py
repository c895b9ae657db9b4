"""Bytes to lines: however they arrive, however long they are, in bounded memory."""

import time
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.framing import HEAD, LineFramer, Oversize, Unfinished, join_lines, one_line

PIECES = st.lists(st.binary(max_size=12) | st.sampled_from([b"\n", b"\n\n", b"x" * 30, b"\r\n"]), max_size=20)


def expected(stream: bytes, limit: int) -> list[bytes | Oversize]:
    """What a framer that had the whole stream at once would say."""
    lines = filter(None, stream.split(b"\n"))
    return [line if len(line) <= limit else Oversize(line[:HEAD], len(line), line[-HEAD:]) for line in lines]


@given(PIECES, st.integers(1, 40))
def test_the_pieces_a_stream_comes_in_do_not_matter(pieces: list[bytes], limit: int) -> None:
    framer = LineFramer(limit)
    frames = [frame for piece in pieces for frame in framer.feed(piece)]
    assert frames + framer.end() == expected(b"".join(pieces), limit)


@given(st.binary(min_size=1, max_size=HEAD * 2), st.lists(st.integers(0, HEAD * 2), max_size=6))
def test_an_oversize_line_keeps_its_ends_and_its_length(line: bytes, cuts: list[int]) -> None:
    line = line.replace(b"\n", b"x")
    whole = line + b"y" * HEAD + line[::-1]
    stream = whole + b"\nnext\n"
    framer, edges = LineFramer(HEAD // 2), sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    frames = [frame for start, end in pairwise(edges) for frame in framer.feed(stream[start:end])]
    assert frames == [Oversize(whole[:HEAD], len(whole), whole[-HEAD:]), b"next"]


@pytest.mark.parametrize("size", [1, 63, 64])
def test_a_line_of_the_limit_is_still_a_line(size: int) -> None:
    assert LineFramer(64).feed(b"x" * size + b"\n") == [b"x" * size]


def test_a_line_one_byte_longer_is_not() -> None:
    assert LineFramer(64).feed(b"x" * 65 + b"\n") == [Oversize(b"x" * 65, 65, b"x" * 65)]


def test_the_last_line_needs_no_newline() -> None:
    framer = LineFramer()
    assert framer.feed(b"one\ntwo") == [b"one"]
    assert framer.end() == [b"two"]
    assert framer.end() == []


def test_blank_lines_are_nothing() -> None:
    assert LineFramer().feed(b"\n\n\none\n\n") == [b"one"]


def test_frames_are_joined_each_with_its_newline() -> None:
    assert join_lines([b"one", b"two"]) == b"one\ntwo\n"
    assert join_lines([]) == b""


def test_a_line_without_end_is_thrown_away_as_it_arrives() -> None:
    framer, piece = LineFramer(1024 * 1024), b"x" * 64 * 1024
    tracemalloc.start()
    try:
        for _ in range(1024):
            assert framer.feed(piece) == []
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert framer.feed(b"\nalive\n") == [Oversize(piece[:HEAD], 64 * 1024 * 1024, piece[:HEAD]), b"alive"]


def test_a_long_line_in_small_pieces_costs_no_more_than_its_length() -> None:
    """A framer that searched its whole buffer on each piece would take minutes."""
    framer, started = LineFramer(), time.process_time()
    for _ in range(15 * 1024):
        framer.feed(b"x" * 1024)
    (line,) = framer.feed(b"\n")
    assert isinstance(line, bytes)
    assert len(line) == 15 * 1024 * 1024
    assert time.process_time() - started < 2


def test_an_oversize_line_among_others_of_one_read_is_told_and_costs_no_other() -> None:
    frames = LineFramer(64).feed(b"one\n" + b"x" * 65 + b"\ntwo\n")
    assert frames == [b"one", Oversize(b"x" * 65, 65, b"x" * 65), b"two"]


def test_a_line_that_the_end_of_the_stream_cut_is_told_from_a_whole_one() -> None:
    framer = LineFramer()
    framer.feed(b"whole\ncut")
    assert [type(line) for line in framer.end()] == [Unfinished]


@pytest.mark.parametrize("spread", [b'{\n"a":1}', b'{\r"a":1}', b'{\r\n"a":\r\n1}'])
def test_a_message_of_several_lines_goes_out_as_one(spread: bytes) -> None:
    assert join_lines([b"one", spread]) == b'one\n{"a":1}\n' if b"\n" in spread else one_line(spread) == b'{"a":1}'
    assert one_line(b"no\rjson") == b"no\vjson"
