"""JSON-RPC 2.0 for one peer, without I/O.  Both sides run this same class.

Rule 1: whatever decides which message may follow which lives in this file.
Rule 2: this file does not know which side it plays.
Rule 3: nothing here awaits, sleeps or opens anything; `receive` never raises for what a peer sent.

A peer is in one of three states.  It starts NEW when one of the methods it answers opens the connection
(`Method.opens`), else OPEN; it is OPEN once that was answered, and CLOSED when the wire is gone.

    NEW    any request but an opening one is answered -32600; notifications and responses are ignored
    OPEN   everything is allowed, but opening again, which is answered -32600
    CLOSED nothing can be sent; everything that was pending has failed

Ids: ours are integers we count; theirs are whatever they like.  The two never meet, and two requests of theirs
with one and the same id are still two: inside, an incoming request is known by a number of our own (`Call.key`).
"""

import contextlib
import enum
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from . import codec
from .errors import (
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MethodNotFound,
    Overloaded,
    ParseError,
    RemoteProtocolError,
    RpcError,
)
from .framing import HEAD, Oversize
from .schema.base import RequestId

CANCEL = "$/cancel_request"
MAX_OWED = 4096  # requests of the peer in the works; further ones are refused


class Method(Struct, frozen=True):
    """One method: what it is called, what it takes and gives, and what must hold before it may be called."""

    name: str
    params: Any
    result: Any = None
    is_request: bool = True
    opens: bool = False  # it is the one that opens a connection
    gate: str = ""  # the capability the receiver must have advertised
    timeout: float | None = None  # seconds after which no answer is a failure
    unstable: bool = False
    handler: Callable[[Any], Any] | None = None  # what answers it, on the side that does


# Events: all that a peer can do to us.


class Call(Struct, frozen=True):
    """The peer asks; `Peer.reply` or `Peer.fail` with this key owes it exactly one answer."""

    key: int
    id: RequestId
    method: Method
    params: Any


class Note(Struct, frozen=True):
    """The peer tells."""

    method: Method
    params: Any


class Reply(Struct, frozen=True):
    """The peer answers a call of ours: a result, or the error to raise."""

    id: int
    result: Any = None
    error: Exception | None = None


class Cancel(Struct, frozen=True):
    """The peer no longer wants the answer to its call with this key; it is still owed one."""

    key: int


class Noise(Struct, frozen=True):
    """Something that is no message of ours to answer: `why` says what, `data` how it began."""

    why: str
    data: bytes


Event = Call | Note | Reply | Cancel | Noise


class State(enum.Enum):
    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"


_CLOSED = State.CLOSED  # looking up an enum's member costs as much as a call
_EMPTY, _NULL = Raw(b"{}"), Raw(b"null")


class _Envelope(Struct):
    jsonrpc: str = ""
    id: RequestId | UnsetType = UNSET
    method: str | None = None
    params: Raw = _EMPTY
    result: Raw = _NULL
    error: Raw = _NULL


# The envelope's tag puts `"jsonrpc":"2.0"` first on the wire.


class _Request(Struct, tag_field="jsonrpc", tag="2.0"):
    id: int
    method: str
    params: Any


class _Notification(Struct, tag_field="jsonrpc", tag="2.0"):
    method: str
    params: Any


class _Result(Struct, tag_field="jsonrpc", tag="2.0"):
    id: RequestId
    result: Any


class _Error(Struct, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class _Failure(Struct, tag_field="jsonrpc", tag="2.0"):
    id: RequestId
    error: _Error


class _CancelParams(Struct, rename="camel"):
    request_id: RequestId


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_NOTE = len(b'{"jsonrpc":"2.0","method":"","params":}')
_CALL = len(b'{"jsonrpc":"2.0","id":,"method":"","params":}')
_RESULT = len(b'{"jsonrpc":"2.0","id":,"result":}')
_MEMBERS = tuple(f'"{name}"'.encode() for name in _Envelope.__struct_fields__)
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode
# Patterns for rare frames; re compiles them when they are first used.
_NAME = rb'(?s)[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*'
_END = rb"\s*}\s*"
_TOKENS = rb'(?s)"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+'


class Peer:
    """One side of a connection.

    `requests` and `notifications` are the methods we answer, by name.  A `quiet` peer never answers what is no
    message: a foreign program that prints to the wire must not be talked back to.
    """

    def __init__(self, *, quiet: bool = False, max_owed: int = MAX_OWED) -> None:
        self._requests: Mapping[str, Method] = {}
        self._notifications: Mapping[str, Method] = {}
        self._quiet = quiet
        self._max_owed = max_owed
        self._pending: dict[int, Method] = {}  # we asked, they owe an answer
        self._owed: dict[int, tuple[RequestId, Method]] = {}  # they asked, we owe an answer
        self._last_id = 0
        self._last_key = 0
        self._outbox: list[bytes] = []
        self.queued = 0  # bytes in the outbox
        self.state = State.OPEN

    def answer(self, requests: Mapping[str, Method], notifications: Mapping[str, Method]) -> None:
        """Say which methods this side answers, by name."""
        self._requests, self._notifications = requests, notifications
        self.state = State.NEW if any(m.opens for m in requests.values()) else State.OPEN

    # Sending: each of these adds one frame to the outbox.

    def call(self, method: Method, params: Any) -> int:
        id = self._last_id + 1
        self._put(_Request(id, method.name, params))
        self._last_id = id
        self._pending[id] = method
        return id

    def note(self, method: Method, params: Any) -> None:
        if self.state is _CLOSED:
            raise LocalProtocolError("the connection is closed")
        frame = codec.encode(_Notification(method.name, params))
        self._outbox.append(frame)
        self.queued += len(frame)

    def cancel(self, id: int) -> None:
        """Tell the peer we no longer want an answer; whatever it still answers is given to nobody."""
        self.hurry(id)
        self._pending.pop(id, None)

    def hurry(self, id: int) -> None:
        """Tell the peer to cancel a call whose answer we still wait for."""
        if id in self._pending and self.state is not State.CLOSED:
            self._put(_Notification(CANCEL, {"requestId": id}))

    def reply(self, key: int, result: Any) -> None:
        """Answer a call; the second answer to the same call is nothing.  What cannot be sent is still owed."""
        if (owed := self._owed.get(key)) is None:
            return
        id, method = owed
        try:
            self._put(_Result(id, {} if result is None else result))
        except (TypeError, ValueError, OverflowError, RecursionError) as exc:
            raise LocalProtocolError(f"the result of {method.name} cannot be sent: {exc}") from exc
        del self._owed[key]
        if method.opens:
            self.state = State.OPEN

    def fail(self, key: int, error: RpcError) -> None:
        """Answer a call with an error; the second answer to the same call is nothing."""
        if owed := self._owed.pop(key, None):
            self._refuse(owed[0], error)

    def take(self) -> list[bytes]:
        """The frames to send, in order; they are no longer here."""
        frames, self._outbox, self.queued = self._outbox, [], 0
        return frames

    def lose(self, error: Exception) -> list[Reply]:
        """Nothing more will come: every answer still owed to us is this error."""
        pending, self._pending = self._pending, {}
        return [Reply(id, error=error) for id in pending]

    def close(self) -> None:
        """Nothing more can be sent either."""
        self.state = State.CLOSED
        self._owed.clear()

    def _put(self, message: Any) -> None:
        if self.state is _CLOSED:
            raise LocalProtocolError("the connection is closed")
        frame = codec.encode(message)
        self._outbox.append(frame)
        self.queued += len(frame)

    # Receiving: one frame in, what it means out; None when it means nothing to anybody.

    def receive(self, frame: bytes | Oversize) -> Event | None:
        if isinstance(frame, Oversize):
            return self._receive_oversize(frame)
        try:
            if len(frame) > codec.SHALLOW or not frame.isascii():
                codec.check(frame)
            message = _read_envelope(frame)
        except codec.Invalid:
            return self._receive_malformed(frame)
        except (codec.Malformed, UnicodeDecodeError, RecursionError) as exc:
            return self._receive_garbage(frame, exc)
        name, id = message.method, message.id
        if message.jsonrpc != "2.0" or not (_is_bare(frame, message) or not _has_duplicates(frame)):
            return self._receive_malformed(frame)
        if name is None:
            return self._receive_reply(message, frame)
        if id is UNSET:
            return self._receive_note(name, message.params)
        return self._receive_call(id, name, message.params)

    def _receive_call(self, id: RequestId, name: str, raw: Raw) -> Event | None:
        method = self._requests.get(name)
        try:
            if self.state is State.NEW and not (method and method.opens):
                raise InvalidRequest(f"{name} before the connection was initialized")
            if method is None:
                raise MethodNotFound(data={"method": name})
            if method.opens and (self.state is State.OPEN or any(m.opens for _, m in self._owed.values())):
                raise InvalidRequest("the connection is initialized already")
            if len(self._owed) >= self._max_owed:
                raise Overloaded(f"more than {self._max_owed} requests in flight")
            params = _read_params(raw, method)
        except codec.Invalid as exc:
            return self._refuse(id, InvalidParams(str(exc)))
        except RpcError as exc:
            return self._refuse(id, exc)
        self._last_key += 1
        self._owed[self._last_key] = id, method
        return Call(self._last_key, id, method, params)

    def _receive_note(self, name: str, raw: Raw) -> Event | None:
        if name == CANCEL:
            return self._receive_cancel(raw)
        method = self._notifications.get(name)
        if method is None or self.state is State.NEW:
            return None
        try:
            return Note(method, _read_params(raw, method))
        except codec.Invalid as exc:
            return Noise(f"{name} does not fit: {exc}", bytes(raw)[:HEAD])

    def _receive_cancel(self, raw: Raw) -> Event | None:
        try:
            target = codec.decode(raw, _CancelParams).request_id
        except codec.Invalid as exc:
            return Noise(f"{CANCEL} does not fit: {exc}", bytes(raw)[:HEAD])
        for key, (id, _) in self._owed.items():
            if id == target and type(id) is type(target):
                return Cancel(key)
        return None

    def _receive_reply(self, message: _Envelope, frame: bytes) -> Event | None:
        id, result, error = message.id, message.result, message.error
        if type(id) is not int or id not in self._pending:
            return Noise("a response to nothing we asked", frame[:HEAD])
        method = self._pending[id]
        if error != _NULL:
            try:
                failure = codec.decode(error, _Error)
            except codec.Invalid as exc:
                return Noise(f"a malformed error response: {exc}", frame[:HEAD])
            if result != _NULL:
                return Noise("a response with both a result and an error", frame[:HEAD])
            del self._pending[id]
            rpc_error = RpcError.of(failure.code, failure.message, failure.data)
            rpc_error.method = method.name
            return Reply(id, error=rpc_error)
        del self._pending[id]
        try:
            return Reply(id, result=codec.decode_result(result if result != _NULL else None, method.result))
        except codec.Invalid as exc:
            return Reply(id, error=RemoteProtocolError(f"the answer to {method.name} does not fit: {exc}"))

    def _receive_malformed(self, frame: bytes) -> Event | None:
        """JSON, but no message: answered if it asked for something, and never if it answered something."""
        try:
            value = msgspec.json.decode(frame)
        except (codec.Malformed, UnicodeDecodeError, RecursionError) as exc:  # further on it is not even JSON
            return self._receive_garbage(frame, exc)
        speaks = _speaks_rpc(value)
        if self._quiet and not speaks:
            return Noise("not a message", frame[:HEAD])
        if isinstance(value, list):
            return self._refuse(None, InvalidRequest("batches are not used"))
        if not isinstance(value, dict):
            return self._refuse(None, InvalidRequest("a message is an object"))
        if value.get("method") is None and ("result" in value or "error" in value or self._quiet):
            return Noise("a malformed response", frame[:HEAD])
        id = value.get("id")
        legal = type(id) in (int, str) and not _has_duplicates(frame)
        return self._refuse(id if legal else None, InvalidRequest(_complaint(value)))

    def _receive_garbage(self, frame: bytes, why: Exception) -> Event | None:
        if not frame.strip():
            return None
        if isinstance(why, codec.TooDeep):
            if reply := self._fail_reply(frame[:HEAD], str(why)):
                return reply
        elif (mended := codec.mend(frame)) != frame:
            return self.receive(mended)
        if not self._quiet:
            self._refuse(None, ParseError(str(why)))
        return Noise(f"not JSON: {why}", frame[:HEAD])

    def _receive_oversize(self, frame: Oversize) -> Event | None:
        too_large = f"a message of {frame.size} bytes is too large"
        if reply := self._fail_reply(frame.head, too_large):
            return reply
        seen = _peek(frame.head)
        if ("method" in seen or "params" in seen) and type(seen.get("id")) in (int, str):
            return self._refuse(seen["id"], InvalidRequest(too_large))
        if not self._quiet:
            self._refuse(None, InvalidRequest(too_large))
        return Noise(too_large, frame.head)

    def _fail_reply(self, head: bytes, why: str) -> Reply | None:
        """A response that cannot be read fails its call: there will be no other."""
        seen = _peek(head)
        id = seen.get("id")
        if "method" in seen or not ("result" in seen or "error" in seen) or type(id) is not int:
            return None
        if (method := self._pending.pop(id, None)) is None:
            return None
        return Reply(id, error=RemoteProtocolError(f"the answer to {method.name}: {why}"))

    def _refuse(self, id: RequestId, error: RpcError) -> Noise:
        try:
            self._put(_Failure(id, _Error(error.code, error.message, error.data)))
        except (TypeError, ValueError, OverflowError, RecursionError):  # data nothing says can be encoded
            self._put(_Failure(id, _Error(error.code, error.message)))
        return Noise(f"refused: {error}", b"")


def _read_params(raw: Raw, method: Method) -> Any:
    if method.params is not Raw:
        return codec.decode_params(raw, method.params)
    data = bytes(raw)
    if data == b"null":
        return _EMPTY
    if data[0] not in b"{[":
        raise codec.Invalid("Expected `object` - at `$`")
    return Raw(data.replace(b"\n", b" "))  # passed on as it came, on one line


def _is_bare(frame: bytes, message: _Envelope) -> bool:
    """Whether a frame has room for nothing but what was read from it: then no member is there twice."""
    if message.id is UNSET:
        return message.method is not None and len(frame) == _NOTE + len(message.method) + len(message.params)
    if type(message.id) is not int:
        return False
    if message.method is None:
        return len(frame) == _RESULT + len(str(message.id)) + len(message.result)
    return len(frame) == _CALL + len(str(message.id)) + len(message.method) + len(message.params)


def _has_duplicates(frame: bytes) -> bool:
    """Whether an object has a member of the envelope twice, also one that is spelt with escapes."""
    if b"\\u00" not in frame and all(frame.count(name) < 2 for name in _MEMBERS):
        return False
    at = frame.index(b"{") + 1
    for name, value in _read_members(frame).items():  # each once: a second one is found where the next should be
        if (found := re.compile(_NAME).match(frame, at)) is None or msgspec.json.decode(found[1]) != name:
            return True
        if not frame.startswith(bytes(value), found.end()):
            return True
        at = found.end() + len(value)
    return not re.compile(_END).fullmatch(frame, at)


def _peek(head: bytes) -> dict[str, Any]:
    """The members of an object that is cut off, read as far as it goes: scalars as they are, others as None."""
    members: dict[str, Any] = {}
    depth, name, tokens = 0, "", re.finditer(_TOKENS, head)
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        for token in tokens:
            text = token[0]
            if text in (b"{", b"["):
                depth += 1
            elif text in (b"}", b"]"):
                depth -= 1
            elif depth == 1 and text == b":":
                value = next(tokens, None)
                if value is None or (value.end() == len(head) and value[0] not in (b"{", b"[")):
                    break  # cut off in the middle
                opens = value[0] in (b"{", b"[")
                members[name] = None if opens else msgspec.json.decode(value[0])
                depth += opens
            elif depth == 1 and text.startswith(b'"'):
                name = msgspec.json.decode(text)
    return members


def _speaks_rpc(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, dict) and item.get("jsonrpc") == "2.0" for item in items)


def _complaint(value: dict[str, Any]) -> str:
    """What is wrong with an object that is no message, in words the peer's author can act on."""
    if value.get("jsonrpc") != "2.0":
        return '"jsonrpc" must be "2.0"'
    if not isinstance(value.get("method"), str):
        return '"method" must be a string'
    if "id" in value and type(value["id"]) not in (int, str):
        return '"id" must be a string or an integer'
    return "a member of the message is there twice"
