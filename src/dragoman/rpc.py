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

import enum
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from . import codec
from .envelope import (
    EMPTY,
    NULL,
    CancelParams,
    Envelope,
    Error,
    Failure,
    Notification,
    Request,
    Result,
    complaint,
    has_duplicates,
    peek,
    read_envelope,
    speaks_rpc,
)
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


class Call(Struct, frozen=True, gc=False):
    """The peer asks; `Peer.reply` or `Peer.fail` with this key owes it exactly one answer."""

    key: int
    id: RequestId
    method: Method
    params: Any


class Note(Struct, frozen=True, gc=False):
    """The peer tells."""

    method: Method
    params: Any


class Reply(Struct, frozen=True, gc=False):
    """The peer answers a call of ours: a result, or the error to raise."""

    id: int
    result: Any = None
    error: Exception | None = None


class Cancel(Struct, frozen=True, gc=False):
    """The peer no longer wants the answer to its call with this key; it is still owed one."""

    key: int


class Noise(Struct, frozen=True, gc=False):
    """Something that is no message of ours to answer: `why` says what, `data` how it began."""

    why: str
    data: bytes


Event = Call | Note | Reply | Cancel | Noise


class State(enum.Enum):
    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"


_OPEN, _CLOSED = State.OPEN, State.CLOSED  # looking up an enum's member costs as much as a call
_NOTE = b'{"jsonrpc":"2.0","method":"%s","params":'
_USUAL = re.compile(rb'\{"jsonrpc":"2\.0","id":(0|[1-9]\d{0,14}),(?:"result"|"method":"([^"\\]+)","params"):')
_NO_HABIT = b"\xff"  # nothing in UTF-8 begins like this


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
        self._habit = _NO_HABIT
        self._habitual: Method
        self._read_habitual: Callable[[bytes], Any]
        self._outbox: list[bytes] = []
        self.queued = 0  # bytes in the outbox
        self.state = State.OPEN

    def answer(self, requests: Mapping[str, Method], notifications: Mapping[str, Method]) -> None:
        """Say which methods this side answers, by name."""
        self._requests, self._notifications, self._habit = requests, notifications, _NO_HABIT
        self.state = State.NEW if any(m.opens for m in requests.values()) else State.OPEN

    # Sending: each of these adds one frame to the outbox.

    def call(self, method: Method, params: Any) -> int:
        id = self._last_id + 1
        self._put(Request(id, method.name, params))
        self._last_id = id
        self._pending[id] = method
        return id

    def note(self, method: Method, params: Any) -> None:
        if self.state is _CLOSED:
            raise LocalProtocolError("the connection is closed")
        frame = codec.encode(Notification(method.name, params))
        self._outbox.append(frame)
        self.queued += len(frame)

    def cancel(self, id: int) -> None:
        """Tell the peer we no longer want an answer; whatever it still answers is given to nobody."""
        self.hurry(id)
        self._pending.pop(id, None)

    def hurry(self, id: int) -> None:
        """Tell the peer to cancel a call whose answer we still wait for."""
        if id in self._pending and self.state is not State.CLOSED:
            self._put(Notification(CANCEL, {"requestId": id}))

    def reply(self, key: int, result: Any) -> None:
        """Answer a call; the second answer to the same call is nothing.  What cannot be sent is still owed."""
        if (owed := self._owed.get(key)) is None:
            return
        id, method = owed
        try:
            self._put(Result(id, {} if result is None else result))
        except (TypeError, ValueError, OverflowError, RecursionError) as exc:
            raise LocalProtocolError(f"the result of {method.name} cannot be sent: {exc}") from exc
        del self._owed[key]
        if method.opens:
            self.state = State.OPEN

    def id_of(self, key: int) -> RequestId:
        """The id under which the peer knows a call that is owed an answer."""
        return self._owed[key][0]

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
            if event := self._receive_usual(frame):
                return event
            message = read_envelope(frame)
        except codec.Invalid:
            return self._receive_malformed(frame)
        except (codec.Malformed, UnicodeDecodeError, RecursionError) as exc:
            return self._receive_garbage(frame, exc)
        name, id = message.method, message.id
        if message.jsonrpc != "2.0" or has_duplicates(frame):
            return self._receive_malformed(frame)
        if name is None:
            return self._receive_reply(message, frame)
        if id is UNSET:
            self._learn(name, frame)
            return self._receive_note(name, message.params)
        return self._receive_call(id, name, message.params)

    def _receive_usual(self, frame: bytes) -> Event | None:
        """A message as nearly every peer writes it; None where it takes a closer look.

        A known head, one value, a bracket: there is no room for a member that is there twice.
        """
        if frame[-1:] != b"}":
            return None
        try:
            if frame.startswith(self._habit):
                return Note(self._habitual, self._read_habitual(frame[len(self._habit) : -1]))
            if (head := _USUAL.match(frame)) is None:
                return None
            id, name, value = int(head[1]), head[2], memoryview(frame)[head.end() : -1]  # a view: it may be large
            if name is None:
                if (method := self._pending.get(id)) is None:
                    return None
                result = codec.decoder(method.result).decode(value)
                del self._pending[id]
                return Reply(id, result)
            called = self._requests.get(name.decode())
            if called is None or called.opens or called.params is Raw:
                return None
            if self.state is not _OPEN or len(self._owed) >= self._max_owed:
                return None
            return self._owe(id, called, codec.decoder(called.params).decode(value))
        except (codec.Malformed, UnicodeDecodeError, RecursionError):
            return None

    def _learn(self, name: str, frame: bytes) -> None:
        """Most frames are notifications that begin as the one before did."""
        method, head = self._notifications.get(name), _NOTE % name.encode()
        if method and method.params is not Raw and self.state is _OPEN and frame.startswith(head):
            self._habit, self._habitual = head, method
            self._read_habitual = codec.decoder(method.params).decode

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
        return self._owe(id, method, params)

    def _owe(self, id: RequestId, method: Method, params: Any) -> Call:
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
            target = codec.decode(raw, CancelParams).request_id
        except codec.Invalid as exc:
            return Noise(f"{CANCEL} does not fit: {exc}", bytes(raw)[:HEAD])
        for key, (id, _) in self._owed.items():
            if id == target and type(id) is type(target):
                return Cancel(key)
        return None

    def _receive_reply(self, message: Envelope, frame: bytes) -> Event | None:
        id, result, error = message.id, message.result, message.error
        if type(id) is not int or id not in self._pending:
            return Noise("a response to nothing we asked", frame[:HEAD])
        method = self._pending[id]
        if error != NULL:
            try:
                failure = codec.decode(error, Error)
            except codec.Invalid as exc:
                return Noise(f"a malformed error response: {exc}", frame[:HEAD])
            if result != NULL:
                return Noise("a response with both a result and an error", frame[:HEAD])
            del self._pending[id]
            rpc_error = RpcError.of(failure.code, failure.message, failure.data)
            rpc_error.method = method.name
            return Reply(id, error=rpc_error)
        del self._pending[id]
        try:
            return Reply(id, result=codec.decode_result(result if result != NULL else None, method.result))
        except codec.Invalid as exc:
            return Reply(id, error=RemoteProtocolError(f"the answer to {method.name} does not fit: {exc}"))

    def _receive_malformed(self, frame: bytes) -> Event | None:
        """JSON, but no message: answered if it asked for something, and never if it answered something."""
        try:
            value = msgspec.json.decode(frame)
        except (codec.Malformed, UnicodeDecodeError, RecursionError) as exc:  # further on it is not even JSON
            return self._receive_garbage(frame, exc)
        speaks = speaks_rpc(value)
        if self._quiet and not speaks:
            return Noise("not a message", frame[:HEAD])
        if isinstance(value, list):
            return self._refuse(None, InvalidRequest("batches are not used"))
        if not isinstance(value, dict):
            return self._refuse(None, InvalidRequest("a message is an object"))
        if value.get("method") is None and ("result" in value or "error" in value or self._quiet):
            return Noise("a malformed response", frame[:HEAD])
        id = value.get("id")
        legal = type(id) in (int, str) and not has_duplicates(frame)
        return self._refuse(id if legal else None, InvalidRequest(complaint(value)))

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
        seen = peek(frame.head)
        if ("method" in seen or "params" in seen) and type(seen.get("id")) in (int, str):
            return self._refuse(seen["id"], InvalidRequest(too_large))
        if not self._quiet:
            self._refuse(None, InvalidRequest(too_large))
        return Noise(too_large, frame.head)

    def _fail_reply(self, head: bytes, why: str) -> Reply | None:
        """A response that cannot be read fails its call: there will be no other."""
        seen = peek(head)
        id = seen.get("id")
        if "method" in seen or not ("result" in seen or "error" in seen) or type(id) is not int:
            return None
        if (method := self._pending.pop(id, None)) is None:
            return None
        return Reply(id, error=RemoteProtocolError(f"the answer to {method.name}: {why}"))

    def _refuse(self, id: RequestId, error: RpcError) -> Noise:
        try:
            self._put(Failure(id, Error(error.code, error.message, error.data)))
        except (TypeError, ValueError, OverflowError, RecursionError):  # data nothing says can be encoded
            self._put(Failure(id, Error(error.code, error.message)))
        return Noise(f"refused: {error}", b"")


def _read_params(raw: Raw, method: Method) -> Any:
    if method.params is not Raw:
        return codec.decode_params(raw, method.params)
    data = bytes(raw)
    if data == b"null":
        return EMPTY
    if data[0] not in b"{[":
        raise codec.Invalid("Expected `object` - at `$`")
    return Raw(data.replace(b"\n", b" "))  # passed on as it came, on one line
