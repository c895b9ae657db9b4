"""T04: whatever is sent is one line, and is read back as it was, however the stream is cut into pieces."""

import random
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from dragoman.events import Method, Note
from dragoman.framing import LineFramer, join_lines
from dragoman.rpc import Peer

TELL = Method("tell", Any, is_request=False)

ANY_TEXT = st.text(st.characters(codec=None), max_size=12)  # lone surrogates and all
TRICKY = st.sampled_from(
    ["\n", "\r\n", "\u2028", "\u2029", "\x85", "\0", "\ufeff", "\ud800", "\udfff\ud800", "\U0001f600"]
)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
PAYLOADS = st.recursive(
    st.none() | st.booleans() | NUMBERS | ANY_TEXT | TRICKY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT | TRICKY, inner, max_size=3),
    max_leaves=5,
)


def carry(count: int, number: int) -> None:
    """Send that many payloads from one peer to another, in pieces."""

    @seed(number)
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(PAYLOADS, st.integers(0, 2**32))
    def property(payload: Any, cuts: int) -> None:
        sender, receiver = Peer(), Peer()
        receiver.answer({}, {TELL.name: TELL})
        sender.note(TELL, payload)
        sender.note(TELL, {"payload": payload})
        sent = sender.take()
        stream = join_lines(sent)
        assert stream.count(b"\n") == 2
        assert b"\r" not in stream
        assert b"\0" not in stream
        assert stream.decode()
        assert received(stream, random.Random(cuts)) == sent
        event = receiver.receive(sent[1])
        assert isinstance(event, Note)
        assert event.params == {"payload": sendable(payload)}

    property()


def received(stream: bytes, dice: random.Random) -> list[Any]:
    """The lines of a stream that comes in pieces of any size."""
    framer, lines, at = LineFramer(), [], 0
    while at < len(stream):
        size = dice.randint(1, 40)
        lines += framer.feed(stream[at : at + size])
        at += size
    return lines + framer.end()


def sendable(value: Any) -> Any:
    """The value with each lone surrogate replaced, which is all that sending may change."""
    if isinstance(value, str):
        return "".join("\ufffd" if 0xD800 <= ord(character) < 0xE000 else character for character in joined(value))
    if isinstance(value, dict):
        return {sendable(key): sendable(item) for key, item in value.items()}
    return [sendable(item) for item in value] if isinstance(value, list) else value


def joined(text: str) -> str:
    """Pairs of surrogates as the one character they stand for."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
