"""Messages in every spelling JSON has, and a plain slow reader that says what each means: what `rpc` is held to."""

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec

from dragoman.errors import RemoteProtocolError, RpcError
from dragoman.events import Batch, Call, Cancel, Event, Method, Noise, Note, Reply
from dragoman.rpc import Peer

ASK = Method("ask", dict[str, Any], Any)
PASS = Method("pass", msgspec.Raw, msgspec.Raw)
TELL = Method("tell", dict[str, Any], is_request=False)
HAND = Method("hand/on", msgspec.Raw, is_request=False)
METHODS = ("ask", "pass", "tell", "hand/on", "nobody/knows", "t\u00e9ll", "$/cancel_request")
NAMES = ("jsonrpc", "id", "method", "params", "result", "error")
STRETCH = 100  # messages that are written in one way
PENDING = range(1, 6)  # the ids of calls that wait for an answer

TEXTS = (
    "",
    "plain",
    'say "id":1,"id":2',
    "f\u00fcr \u00e9 \U0001f600",
    "\\",
    '\\"',
    "{[]}",
    "\u2028",
    "\u0007",
    "\x7f",
    "a\tb",
)
IDS: tuple[Any, ...] = (0, 1, 2, 7, -1, 2**53, "x", "1", "", None, "\u00e9")
Meaning = tuple[Any, ...]


def value(dice: random.Random, depth: int = 3) -> Any:
    kind = dice.randrange(8 if depth else 5)
    if kind < 3:
        return dice.choice(TEXTS)
    if kind < 5:
        return dice.choice((0, 1, -5, 2.5, True, None, 12345678901234567890))
    if kind == 5:
        return [value(dice, depth - 1) for _ in range(dice.randrange(4))]
    names = ("id", "method", "params", "result", "jsonrpc", "text", *TEXTS[:4])
    return {dice.choice(names): value(dice, depth - 1) for _ in range(dice.randrange(4))}


def params(dice: random.Random) -> Any:
    if not dice.randrange(12):
        return dice.choice((None, [], [1], "s", 5))
    return {"a": value(dice), **({"pad": "x" * dice.choice((300, 5000))} if not dice.randrange(12) else {})}


def members(dice: random.Random) -> list[tuple[str, Any]]:
    """The members of one message, good or odd, in the usual order."""
    found: list[tuple[str, Any]] = [("jsonrpc", "2.0")]
    kind = dice.choice(("note", "note", "call", "reply"))
    if kind != "note":
        found.append(("id", dice.choice(IDS) if kind == "call" else dice.choice((*PENDING, 77, "1", None))))
    if kind == "reply":
        error = {"code": -32000, "message": dice.choice(TEXTS), "data": value(dice, 1)}
        found.append(("error", error) if not dice.randrange(4) else ("result", value(dice)))
    else:
        found.append(("method", dice.choice(METHODS[2:4] if dice.randrange(3) else METHODS)))
        if dice.randrange(8):
            found.append(("params", params(dice)))
    return found


def oddly(dice: random.Random, found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The same with a member too many, too few, or of another kind."""
    match dice.randrange(7):
        case 0:
            found.insert(dice.randrange(len(found) + 1), dice.choice(found))
        case 1:
            name, _ = dice.choice(found)
            found.insert(dice.randrange(len(found) + 1), (name, value(dice, 1)))
        case 2:
            found.insert(dice.randrange(len(found) + 1), (dice.choice(("future", "_meta", "Id", "")), value(dice)))
        case 3:
            found.remove(dice.choice(found))
        case 4:
            at = dice.randrange(len(found))
            found[at] = found[at][0], value(dice, 1)
        case 5:
            found.append(dice.choice((("result", value(dice)), ("error", None), ("id", 1), ("params", {}))))
    return found


class Writer:
    """One of many ways to write the same message: order of the members, spaces, escapes, ends of lines."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._order = dice.sample(NAMES, len(NAMES)) if dice.randrange(3) else list(NAMES)
        self._comma, self._colon = dice.choice(((",", ":"), (", ", ": "), (" ,\t", " :  ")))
        is_ascii = bool(dice.randrange(2))
        self._dump = json.JSONEncoder(ensure_ascii=is_ascii, separators=(self._comma, self._colon)).encode
        self._line = dice.choice(("{%s}", "{%s}", "{ %s }", "{%s}\r", " {%s}"))

    def write(self, found: list[tuple[str, Any]]) -> bytes:
        dice = self._dice
        ordered = sorted(found, key=lambda member: self._order.index(member[0]) if member[0] in self._order else 3)
        names = [_escaped(dice, name) if not dice.randrange(60) else self._dump(name) for name, _ in ordered]
        pairs = zip(names, ordered, strict=True)
        body = self._comma.join(name + self._colon + self._dump(item) for name, (_, item) in pairs)
        return (self._line % body).encode()


def _escaped(dice: random.Random, name: str) -> str:
    return (
        '"' + "".join(f"\\u{ord(char):04x}" if dice.randrange(2) else json.dumps(char)[1:-1] for char in name) + '"'
    )


def frames(seed: int, count: int) -> Iterator[bytes]:
    """Messages of a few peers, each with its way to write them, most of them good."""
    dice = random.Random(seed)
    for number in range(count):
        if number % STRETCH == 0:
            writer = Writer(dice)
        found = members(dice)
        yield writer.write(found if dice.randrange(3) else oddly(dice, found))


def peer() -> Peer:
    made = Peer(max_owed=1_000_000)
    made.answer({"ask": ASK, "pass": PASS}, {"tell": TELL, "hand/on": HAND})
    return made


def expect(by: Peer) -> None:
    """Have every pending id pending again."""
    by._last_id = 0
    for _ in PENDING:
        by.call(ASK, {})
    by.take()


def meaning(by: Peer, frame: bytes) -> list[Meaning]:
    """What a frame means to a peer, in plain values."""
    event = by.receive(frame)
    answers = [msgspec.json.decode(answer) for answer in by.take()]
    refused = [("refused", answer["id"], answer["error"]["code"]) for answer in answers]
    return [*_plain(event), *refused]


def _plain(event: Event | None) -> list[Meaning]:
    match event:
        case Call(id=id, method=method, params=given):
            return [("call", id, method.name, _read(given))]
        case Note(method=method, params=given):
            return [("note", method.name, _read(given))]
        case Reply(id=id, error=RpcError() as error):
            return [("error", id, error.code, error.message, error.data)]
        case Reply(id=id, error=RemoteProtocolError()):
            return [("failed", id)]
        case Reply(id=id, result=result):
            return [("reply", id, result)]
        case Batch(events=events):
            return [each for inner in events for each in _plain(inner)]
        case Cancel() | Noise() | None:
            return []
    raise AssertionError(event)


def _read(given: Any) -> Any:
    return msgspec.json.decode(given) if isinstance(given, msgspec.Raw) else given


class _Object(dict[str, Any]):
    """An object that knows whether a member is there twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        envelope = [name for name, _ in pairs if name in NAMES]
        self.is_doubled = len(envelope) != len(set(envelope))


def plainly(frame: bytes) -> list[Meaning]:
    """What an object means by the rules, read by a parser that knows nothing of ours."""
    message = json.loads(frame, object_pairs_hook=_Object)
    method, id = message.get("method"), message.get("id")
    is_legal = type(id) in (int, str, type(None))
    name = id if type(id) in (int, str) else None
    has_outcome = "result" in message or "error" in message
    is_sound = message.get("jsonrpc") == "2.0" and not message.is_doubled and is_legal
    if not (is_sound and type(method) in (str, type(None))):
        if method is None and has_outcome:
            return _failed(id)
        return [("refused", name if method is not None or "params" in message else None, -32600)]
    if method is None:
        return _answer(message, id, has_outcome)
    given = message.get("params", {})
    given = {} if given is None else given
    fits = isinstance(given, dict) or (isinstance(given, list) and method in ("pass", "hand/on"))
    if "id" not in message:
        return [("note", method, given)] if method in ("tell", "hand/on") and fits else []
    if method not in ("ask", "pass"):
        return [("refused", id, -32601)]
    return [("call", id, method, given)] if fits else [("refused", id, -32602)]


def _failed(id: Any) -> list[Meaning]:
    number = next((number for number in PENDING if id in (str(number), float(number)) and id is not True), None)
    return [] if number is None else [("failed", number)]


def _answer(message: dict[str, Any], id: Any, has_outcome: bool) -> list[Meaning]:
    if not has_outcome and "params" in message:
        return [("refused", id, -32600)]
    if type(id) is not int or id not in PENDING:
        return _failed(id) if has_outcome else []
    error, result = message.get("error"), message.get("result")
    if error is None:
        return [("reply", id, result)]
    is_error = isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("message"), str)
    if result is not None or not is_error:
        return [("failed", id)]
    return [("error", id, error["code"], error["message"] or "Authentication required", error.get("data"))]


def compare(seed: int, count: int) -> dict[str, int]:
    """Read messages both ways, one peer for all of them so that it learns; gives how many meant what."""
    subject, found = peer(), dict[str, int]()
    for frame in frames(seed, count):
        expect(subject)
        expected, actual = plainly(frame), meaning(subject, frame)
        assert actual == expected, (frame, actual, expected)
        kind = expected[0][0] if expected else "nothing"
        found[kind] = found.get(kind, 0) + 1
    return found
