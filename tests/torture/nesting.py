"""T02: values nested deeper than any parser's stack, in every place of every message."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from dragoman.events import Call, Event, Method, Noise, Note
from dragoman.framing import LineFramer
from dragoman.roles import AgentRole, ClientRole, methods
from dragoman.rpc import Peer, State

FORMS = {"arrays": (b"[", b"]"), "objects": (b'{"a":', b"}"), "mixed": (b'[{"a":', b"}]")}
SHORT_STACK = 256 * 1024


def nested(form: str, depth: int, *, closed: bool) -> bytes:
    opening, closing = FORMS[form]
    levels = depth // (opening.count(b"[") + opening.count(b"{"))
    return opening * levels + (b"1" + closing * levels if closed else b"")


def places(value: bytes) -> Iterator[bytes]:
    """Every request and notification there is, with the value in each of its fields in turn."""
    for role in (AgentRole, ClientRole):
        for method in methods(role).values():
            for name in _fields(method):
                params = b'{"%s":%s' % (name.encode(), value)
                id = b'"id":7,' if method.is_request else b""
                yield b'{"jsonrpc":"2.0",%s"method":"%s","params":%s}}' % (id, method.name.encode(), params)


def _fields(method: Method) -> list[str]:
    if isinstance(method.params, type) and issubclass(method.params, Struct):
        return [field.encode_name for field in msgspec.structs.fields(method.params)]
    return ["params", "_meta"]


def nest(depths: list[int], *, forms: tuple[str, ...] = tuple(FORMS)) -> dict[str, float]:
    """Have every frame refused, by a peer that talks back and by one that does not; gives the slowest."""
    slowest, count = 0.0, 0
    for quiet in (False, True):
        for depth in depths:
            for form in forms:
                for frame in places(nested(form, depth, closed=depth % 2 == 0)):
                    slowest = max(slowest, refused(frame + b"\n", quiet))
                    count += 1
    return {"frames": count, "slowest": slowest}


def refused(line: bytes, quiet: bool) -> float:
    """One line is read, and refused without a word more than is due; gives the seconds of the processor it took."""
    peer = everything(quiet)
    started = time.thread_time()
    (frame,) = LineFramer().feed(line)
    event = peer.receive(frame)
    seconds = time.thread_time() - started
    assert isinstance(event, Noise), event
    answers = [msgspec.json.decode(answer) for answer in peer.take()]
    expected = [(7, -32700)] if b'"id":7,' in line else [] if quiet else [(None, -32700)]
    assert [(a["id"], a["error"]["code"]) for a in answers] == expected, answers
    return seconds


def everything(quiet: bool = False) -> Peer:
    """A peer in mid-conversation that answers every method of both roles."""
    peer = Peer(quiet=quiet)
    known = [method for role in (AgentRole, ClientRole) for method in methods(role).values()]
    peer.answer({m.name: m for m in known if m.is_request}, {m.name: m for m in known if not m.is_request})
    peer.state = State.OPEN
    return peer


def meaning(frame: bytes, *, quiet: bool = False) -> tuple[Event | None, list[dict[str, Any]]]:
    """What a frame is to such a peer, and what it is answered at once."""
    peer = everything(quiet)
    event = peer.receive(frame)
    assert isinstance(event, Call | Note | Noise | None)
    return event, [msgspec.json.decode(answer) for answer in peer.take()]


def deep(value: int) -> Raw:
    """A value of exactly this depth that is perfectly good JSON."""
    return Raw(nested("arrays", value, closed=True))


if __name__ == "__main__":  # in a process with a short stack: must end well, and not by a signal
    import sys
    import threading

    threading.stack_size(SHORT_STACK)
    ended: list[dict[str, float]] = []
    thread = threading.Thread(target=lambda: ended.append(nest([int(depth) for depth in sys.argv[1:]])))
    thread.start()
    thread.join()
    sys.exit(0 if ended else 1)
