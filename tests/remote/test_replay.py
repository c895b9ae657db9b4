"""What was sent is kept until it is known to have arrived, and not longer."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.transports.remote.replay import (
    ACKNOWLEDGE_EVERY,
    Log,
    OutOfOrder,
    Receipt,
    read_number,
    write_numbered,
)
from dragoman.transports.remote.server.stream import Stream, Superseded


def test_a_log_forgets_what_was_acknowledged():
    log = Log()
    log.append([b"a", b"bb", b"ccc"])
    log.forget(2)
    assert (log.frames(), log.size, log.last) == ([b"ccc"], 3, 3)
    assert [log.covers(number) for number in (1, 2, 3, 4)] == [False, True, True, False]
    log.forget(1)  # late, and nothing new
    log.forget(99)
    assert (log.frames(), log.size) == ([], 0)


def test_a_number_is_a_number():
    assert [read_number(text) for text in ("0", b"17", "", "-1", "²", "9" * 19, "x")] == [0, 17, *[None] * 5]


def test_a_log_is_trimmed_from_its_beginning():
    log = Log()
    log.append([b"aaaa", b"bb", b"c"])
    log.trim(3)
    assert (log.frames(), log.covers(0), log.covers(1)) == ([b"bb", b"c"], False, True)


def test_a_receipt_is_due_after_so_many_bytes():
    receipt = Receipt()
    assert not receipt.add(ACKNOWLEDGE_EVERY - 1)
    assert receipt.is_due
    assert receipt.add(1)
    assert receipt.tell() == 0
    assert not receipt.is_due


def test_a_receipt_admits_the_next_number_ignores_repeats_and_stops_at_a_gap():
    receipt = Receipt()
    frames, gap = receipt.admit_numbered([b"1 a", b"2 b b", b"1 a", b"3 c", b"5 e", b"4 d"])
    assert (frames, receipt.tell()) == ([b"a", b"b b", b"c"], 3)
    assert isinstance(gap, OutOfOrder)
    assert isinstance(receipt.admit_numbered([b"{}"])[1], OutOfOrder)
    assert receipt.admit_numbered(write_numbered([b"d", b"e"], 4)) == ([b"d", b"e"], None)


@given(st.lists(st.tuples(st.sampled_from(["put", "take", "come back", "late", "acknowledge"]), st.integers(0, 5))))
async def test_only_the_newest_reader_of_a_stream_takes_and_it_gets_every_frame_once(steps):
    """However readers come and go, also ones that lingered and ask for what is long since heard."""
    stream, put, heard = Stream(), 0, Receipt()
    done = asyncio.create_task(asyncio.sleep(0))
    await done
    reader, taken = stream.attach(done, 1), []
    for step, count in steps:
        if step == "put":
            stream.put([b"%d" % number for number in range(put + 1, put + count + 1)])
            put += count
        elif step == "take":
            first, frames = reader.take()
            taken += heard.admit_numbered(write_numbered(frames[:count], first))[0]
            if count < len(frames):  # the rest is lost on the way, and then so is the reader
                reader = returned(stream, heard.count, reader)
        elif step == "come back":
            reader = returned(stream, heard.count, reader)
        elif step == "late" and stream.covers(max(heard.count - count, 0)):
            late = returned(stream, max(heard.count - count, 0), reader)
            late.take()
            reader = returned(stream, heard.count, late)
        elif step == "acknowledge":
            stream.forget(heard.count)
    first, frames = returned(stream, heard.count, reader).take()
    taken += heard.admit_numbered(write_numbered(frames, first))[0]
    assert taken == [b"%d" % number for number in range(1, put + 1)]


def returned(stream, number, before):
    assert stream.covers(number)
    reader = stream.attach(before.task, stream.generation + 1)
    stream.rewind(number)
    with pytest.raises(Superseded):
        before.take()
    return reader
