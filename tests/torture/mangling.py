"""Answers and questions with something wrong in them, but for their id: each still has its one outcome."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.errors import RemoteProtocolError
from dragoman.events import Batch, Call, Event, Reply
from dragoman.framing import HEAD, LineFramer
from dragoman.rpc import Peer

from .readings import ASK, PASS

LIMIT = 3 * HEAD  # bytes of a frame, so that oversize ones are small
Members = dict[str, bytes]  # by name, each as it is spelt

VALUES = (  # where a value should be
    b'{"a":NaN}',
    b"-Infinity",
    b'{"a":"\xff\xfe"}',
    b'{"a":"\x01"}',
    b'{"a":"\\x"}',
    b'{"a":"x" y"}',
    b'{"a":"x" "y"}',
    b'{"a":1,}',
    b"{'a': 1}",
    b"{a: 1}",
    b"None",
    b"undefined",
    b"",
    b"{",
    b"}",
    b"[",
    b"]]",
    b'{"a":[1,2}',
    b"{} // done",
    b"0x10",
    b"1 2",
    b'{"a":1} {"b":2}',
    b'"\xed\xa0\x80"',
    b"[" * 300 + b"]" * 300,
    b'{"a":' * 5000,
    b'{"a":"%s"}' % (b"x" * 2 * LIMIT),
    b'{"id":1,"method":"ask","result":[{"id":2}]}{',
)


def value(dice: random.Random, members: Members) -> bytes:
    """A payload that cannot be read."""
    name = next(name for name in ("result", "error", "params") if name in members)
    return joined({**members, name: dice.choice(VALUES)})


def version(dice: random.Random, members: Members) -> bytes:
    other = dice.choice((b'"1.0"', b"2.0", b"null", b"{}", b""))
    return joined(
        {name: other if name == "jsonrpc" else text for name, text in members.items() if other or name != "jsonrpc"}
    )


def twice(dice: random.Random, members: Members) -> bytes:
    name = dice.choice(list(members))
    return joined(members)[:-1] + b',"%b":%b}' % (name.encode(), members[name])


def batched(dice: random.Random, members: Members) -> bytes:
    return b"[%b]" % joined(members)


def trailing(dice: random.Random, members: Members) -> bytes:
    return joined(members) + dice.choice((b" trailing", b"}", b"{}", b"\xff", b",", b'"', b"\0"))


def cut_off(dice: random.Random, members: Members) -> bytes:
    """The line ends somewhere after it has said what it is about."""
    order = ["id", *(name for name in members if name in ("result", "error", "method")), "jsonrpc", "params"]
    line = joined({name: members[name] for name in order if name in members})
    about = line.index(b":", line.index(b":") + 1)
    return line[: dice.randrange(about + 1, len(line))]


def byte(dice: random.Random, members: Members) -> bytes:
    """A byte that JSON does not have, between two members."""
    parts = [b'"%b":%b' % (name.encode(), text) for name, text in members.items()]
    odd = dice.choice((b"\0", b"\x1b", b"\x80", b"\xff", b"\x0c", b",", b";"))
    return b"{" + (b"," + odd).join(parts) + b"}"


def error(dice: random.Random, members: Members) -> bytes:
    """For an answer, an error that is none; for a question, params that are none."""
    if "method" in members:
        return joined({**members, "params": dice.choice((b"5", b'"x"', b"true"))})
    wrong = dice.choice(
        (b'"boom"', b"[]", b"5", b'{"code":1}', b'{"code":1.5,"message":"x"}', b'{"code":1,"message":5}')
    )
    return joined({**{name: text for name, text in members.items() if name != "result"}, "error": wrong})


def both(dice: random.Random, members: Members) -> bytes:
    return joined({**members, "result": b"{}", "error": b'{"code":1,"message":"x"}'})


def retyped(dice: random.Random, members: Members) -> bytes:
    """The id of an answer as another type."""
    if "method" in members:
        return joined(members)
    return joined({**members, "id": dice.choice((b'"%b"', b"%b.0")) % members["id"]})


MANGLINGS: tuple[Callable[[random.Random, Members], bytes], ...] = (
    *(value,) * 6,
    version,
    twice,
    batched,
    trailing,
    cut_off,
    byte,
    error,
    both,
    retyped,
)


def joined(members: Members) -> bytes:
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), text) for name, text in members.items())


def message(dice: random.Random, id: int, is_answer: bool) -> Members:
    members = {"jsonrpc": b'"2.0"', "id": b"%d" % id}
    if is_answer:
        members |= {"result": b'{"a":[1,"id"]}'}
    else:
        members |= {"method": dice.choice((b'"ask"', b'"pass"', b'"nobody/knows"')), "params": b'{"id":7,"a":"x"}'}
    names = list(members)
    dice.shuffle(names)
    return {name: members[name] for name in names}


def outcomes(event: Event | None, sent: list[bytes]) -> list[tuple[str, Any]]:
    """Which requests, ours and the peer's, were settled by an event and by what was sent with it."""
    found: list[tuple[str, Any]] = []
    for each in event.events if isinstance(event, Batch) else [event]:
        if isinstance(each, Reply):
            assert isinstance(each.error, RemoteProtocolError | None), each
            found.append(("ours", each.id))
        elif isinstance(each, Call):
            found.append(("theirs", each.id))
    answers = [msgspec.json.decode(frame) for frame in sent]
    assert all(answer["error"]["code"] in (-32700, -32600, -32601, -32602) for answer in answers), answers
    return found + [("theirs", answer["id"]) for answer in answers]


def mangle(seed: int, count: int) -> Counter[str]:
    """Have mangled messages received, each beside its neighbours that are not; gives how many of which kind."""
    dice, found = random.Random(seed), Counter[str]()
    for _ in range(count):
        is_quiet, is_answer = bool(dice.randrange(2)), bool(dice.randrange(2))
        peer = Peer(quiet=is_quiet)
        peer.answer({"ask": ASK, "pass": PASS}, {})
        ids = [peer.call(ASK, {}) for _ in range(3)]
        id = ids[1] if is_answer else dice.choice((0, 7, 10**12))
        peer.take()
        mangling = dice.choice(MANGLINGS)
        line = mangling(dice, message(dice, id, is_answer))
        (frame,) = LineFramer(LIMIT).feed(line + b"\n")
        settled = outcomes(peer.receive(frame), peer.take())
        assert settled == [("ours" if is_answer else "theirs", id)], (line[:300], is_quiet, settled)
        after = peer.receive(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % ids[2])
        assert after == Reply(ids[2], {}), (line[:300], after)
        if is_answer:
            assert peer.receive(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % ids[1]) != Reply(ids[1], {})
        found[mangling.__name__] += 1
    return found
