"""What was sent is kept until it is known to have arrived, and not longer."""

from hypothesis import given
from hypothesis import strategies as st

from dragoman.transports.replay import ACKNOWLEDGE_EVERY, Log, Receipt, read_number
from dragoman.transports.stream import Stream


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
    assert not receipt.add(1, ACKNOWLEDGE_EVERY - 1)
    assert receipt.is_due
    assert receipt.add(1, 1)
    assert receipt.tell() == 2
    assert not receipt.is_due


@given(st.lists(st.tuples(st.sampled_from(["put", "take", "drop"]), st.integers(0, 5))))
async def test_a_reader_that_comes_back_gets_every_frame_once(steps):
    stream, put, heard = Stream(), 0, []
    for step, count in steps:
        if step == "put":
            stream.put([b"%d" % number for number in range(put, put + count)])
            put += count
        elif step == "take":
            first, frames = stream.take()
            assert first == len(heard) + 1
            heard += frames[:count]  # the rest is lost on the way, and then so is the reader
            if count < len(frames):
                stream.rewind(len(heard))
        else:
            stream.rewind(len(heard))
    heard += stream.take()[1]
    assert heard == [b"%d" % number for number in range(put)]
