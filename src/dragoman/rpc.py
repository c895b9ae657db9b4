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
import functools
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET, Raw

from . import codec
from .dialects import older
from .envelope import (
    EMPTY,
    NULL,
    CancelParams,
    Envelope,
    ErrorBody,
    ErrorFrame,
    Notification,
    RequestFrame,
    ResultFrame,
    complaint,
    in_batch,
    is_message,
    meant,
    outline,
    passed,
    read_message,
    sendable,
    skim,
    speaks_rpc,
    verbatim,
)
from .errors import (
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    MethodNotFound,
    Overloaded,
    ParseError,
    RemoteProtocolError,
    RpcError,
    brief,
)
from .events import Batch, Call, Cancel, Event, Method, Noise, Note, Reply, Verbatim
from .framing import COUNTABLE, HEAD, SHALLOW, Oversize, TooDeep, Unfinished, check
from .schema.base import RequestId

CANCEL = "$/cancel_request"
MAX_OWED = 4096  # requests of the peer in the works; further ones are refused


class State(enum.Enum):
    NEW = "new"
    OPEN = "open"
    CLOSED = "closed"


_NEW, _OPEN, _CLOSED = State  # looking up an enum's member costs as much as a call
STRAY = "a response to nothing we asked"
_NO_HEAD = b"\xff"  # nothing in UTF-8 begins like this
_IDS = (int, str, float)  # what an id can be read as, if not every one of them is legal
_LESSON = 32  # notifications that are read in full between two whose head is learned


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
        self._owed: dict[int, Call] = {}  # they asked, we owe an answer
        self._last_id = 0
        self._last_key = 0
        self._forget_head()
        self._has_halves = False  # the frame that is being read had half characters in it, which were replaced
        self._outbox: list[bytes] = []
        self.queued = 0  # bytes in the outbox
        self.state = State.OPEN

    def answer(self, requests: Mapping[str, Method], notifications: Mapping[str, Method]) -> None:
        """Say which methods this side answers, by name."""
        self._requests, self._notifications = requests, notifications
        self._forget_head()
        self.state = State.NEW if any(m.opens for m in requests.values()) else State.OPEN

    # Sending: each of these adds one frame to the outbox.

    def call(self, method: Method, params: Any) -> int:
        id = self._last_id + 1
        self._put(RequestFrame(id, method.name, params))
        self._last_id = id
        self._pending[id] = method
        return id

    def note(self, method: Method, params: Any) -> None:
        self._put(Notification(method.name, params))

    def forward(self, frame: bytes) -> None:
        """Send a notification that was encoded and checked elsewhere, as it is."""
        if self.state is _CLOSED:
            raise LocalProtocolError("the connection is closed")
        self._outbox.append(frame)
        self.queued += len(frame)

    def cancel(self, id: int) -> None:
        """Tell the peer we no longer want an answer; whatever it still answers is given to nobody."""
        self.request_cancel(id)
        self._pending.pop(id, None)

    def request_cancel(self, id: int) -> None:
        """Tell the peer to cancel a call whose answer we still wait for."""
        if id in self._pending and self.state is not State.CLOSED:
            self._put(Notification(CANCEL, {"requestId": id}))

    def reply(self, key: int, result: Any) -> None:
        """Answer a call; the second answer to the same call is nothing.  What cannot be sent is still owed."""
        if (owed := self._owed.get(key)) is None:
            return
        method = owed.method
        try:
            self._put(ResultFrame(owed.id, codec.fitting(result, method.result, method.handler)))
        except (TypeError, ValueError, OverflowError, RecursionError) as exc:
            raise LocalProtocolError(f"the result of {method.name} cannot be sent: {exc}") from exc
        del self._owed[key]
        if method.opens:
            self.state = State.OPEN

    def id_of(self, key: int) -> RequestId:
        """The id under which the peer knows a call that is owed an answer."""
        return self._owed[key].id

    def fail(self, key: int, error: RpcError) -> None:
        """Answer a call with an error; the second answer to the same call is nothing."""
        if owed := self._owed.pop(key, None):
            self._refuse(owed.id, error)

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
        self.forward(sendable(message))

    # Receiving: one frame in, what it means out; None when it means nothing to anybody.

    def receive(self, frame: bytes | Oversize) -> Event | None:
        if isinstance(frame, Oversize):
            return self._receive_unreadable(frame, frame.head, InvalidRequest(f"{frame.size} bytes are too many"))
        if frame.startswith(self._head) and frame.endswith(self._tail) and len(frame) < COUNTABLE:
            # A known head, one value, a known tail: there is no room for a member that is there twice.
            try:
                if len(frame) > SHALLOW or not frame.isascii():
                    check(frame)
                return Note(self._learned, self._read_learned(frame[self._start : self._end]))
            except Exception:
                pass  # a closer look tells whose fault it is
        try:
            message = read_message(frame)
        except codec.Invalid:
            return self._receive_malformed(frame)
        except (codec.Malformed, UnicodeDecodeError, RecursionError) as exc:
            return self._receive_garbage(frame, exc)
        name, id = message.method, message.id
        if name is None:
            return self._receive_reply(message, frame)
        if id is UNSET:
            return self._receive_note(name, message.params, frame)
        return self._receive_call(id, name, message.params)

    def _forget_head(self) -> None:
        self._head, self._tail, self._start = _NO_HEAD, b"", 0
        self._end: int | None = None
        self._learned: Method
        self._read_learned: Callable[[bytes], Any]
        self._until_lesson = 0

    def _learn(self, method: Method, raw: Raw, frame: bytes) -> None:
        """Remember what is around the params: most frames are notifications that begin and end as others did."""
        self._until_lesson = _LESSON
        params = bytes(raw)
        at = frame.find(params)
        head, tail = frame[:at], frame[at + len(params) :]
        if is_message(head + b"[0]" + tail, Envelope("2.0", method=method.name, params=Raw(b"[0]"))):
            self._head, self._tail, self._learned = head, tail, method
            self._start, self._end = len(head), -len(tail)
            if method.params is Verbatim:
                self._read_learned = functools.partial(verbatim, self._start, self._end)
                self._start, self._end = 0, None
            else:
                self._read_learned = passed if method.params is Raw else codec.reader(method.params)

    def _receive_call(self, id: RequestId, name: str, raw: Raw) -> Event | None:
        method = self._requests.get(name)
        try:
            if method is None or method.opens or self.state is not _OPEN or len(self._owed) >= self._max_owed:
                method = self._admitted(name, method)
            if self._has_halves and getattr(method.params, "is_verbatim", False):
                raise InvalidParams("a text in it has half a character (a lone surrogate)", {"kind": "encoding"})
            params = self._read_params(raw, method)
        except codec.Invalid as exc:
            return self._refuse(id, InvalidParams(str(exc)))
        except RpcError as exc:
            return self._refuse(id, exc)
        except Exception as exc:  # of a type of the author's
            self._refuse(id, InternalError())
            return Noise(f"the params of {name} cannot be read", bytes(raw)[:HEAD], exc)
        self._last_key = key = self._last_key + 1
        self._owed[key] = call = Call(key, id, method, params)
        return call

    def _admitted(self, name: str, method: Method | None) -> Method:
        """The method of a request, where it may be called now; raises what to answer where it may not."""
        if self.state is _NEW and not (method and method.opens):
            raise InvalidRequest(f"{name} before the connection was initialized")
        if method is None:
            raise MethodNotFound(data={"method": name})
        if method.opens and (self.state is _OPEN or any(owed.method.opens for owed in self._owed.values())):
            raise InvalidRequest("the connection is initialized already")
        if len(self._owed) >= self._max_owed:
            raise Overloaded(f"more than {self._max_owed} requests in flight")
        return method

    @staticmethod
    def _read_params(raw: Raw, method: Method) -> Any:
        if method.params is Raw or method.params is Verbatim:
            return EMPTY if raw == NULL else passed(bytes(raw))
        try:
            return codec.reader(method.params)(raw)
        except codec.Invalid:
            return codec.decode_params(Raw(older.mended(bytes(raw), method.params)), method.params)

    def _receive_note(self, name: str, raw: Raw, frame: bytes) -> Event | None:
        if name == CANCEL:
            return self._receive_cancel(raw)
        method = self._notifications.get(name)
        if method is None or self.state is _NEW:
            return None
        try:
            params = self._read_params(raw, method)
        except codec.Invalid as exc:
            return Noise(f"{name} does not fit: {exc}", bytes(raw)[:HEAD])
        except Exception as exc:  # of a type of the author's
            return Noise(f"the params of {name} cannot be read", bytes(raw)[:HEAD], exc)
        self._until_lesson -= 1
        if self._until_lesson < 0:
            self._learn(method, raw, frame)
        return Note(method, frame if method.params is Verbatim else params)

    def _receive_cancel(self, raw: Raw) -> Event | None:
        try:
            target = codec.decode(raw, CancelParams).request_id
        except codec.Invalid as exc:
            return Noise(f"{CANCEL} does not fit: {exc}", bytes(raw)[:HEAD])
        for key, owed in self._owed.items():
            if owed.id == target and type(owed.id) is type(target):
                return Cancel(key)
        return None

    def _receive_reply(self, message: Envelope, frame: bytes) -> Event | None:
        id, has_error = message.id, message.error is not NULL
        is_empty = message.result is NULL and not has_error
        if is_empty and message.params is not EMPTY:
            return self._settle(outline(frame), frame[:HEAD], InvalidRequest("a request needs a method"))
        if type(id) is not int or id not in self._pending:
            return (None if is_empty else self._fail(id, f"its id is {id!r}")) or Noise(STRAY, frame[:HEAD])
        method = self._pending.pop(id)
        if has_error and message.error != NULL:
            return Reply(id, error=_failure(method, message))
        try:
            try:
                return Reply(id, older.result_reader(method.result)(message.result))
            except codec.Invalid:
                return Reply(id, codec.decode_result(message.result, method.result))
        except codec.Invalid as exc:
            return Reply(id, error=RemoteProtocolError(f"the answer to {method.name} does not fit: {exc}"))
        except Exception as exc:  # of a type of the caller's
            error = LocalProtocolError(f"the answer to {method.name} cannot be read: {exc!r}")
            error.__cause__ = exc
            return Reply(id, error=error)

    # What is no message: whatever carries an id still has its outcome, for there will be no other.

    def _receive_malformed(self, frame: bytes) -> Event | None:
        """JSON, as far as it was read."""
        try:
            skim(frame)
        except (codec.Malformed, UnicodeDecodeError, RecursionError) as exc:
            return self._receive_garbage(frame, exc)
        match frame.lstrip()[:1]:
            case b"{":
                members = outline(frame)
                return self._settle(members, frame[:HEAD], InvalidRequest(complaint(members)))
            case b"[":
                return self._receive_batch(frame)
        if self._quiet:
            return Noise("not a message", frame[:HEAD])
        return self._refuse(None, InvalidRequest("a message is an object"))

    def _receive_batch(self, frame: bytes) -> Event:
        why, batch = InvalidRequest("batches are not used"), in_batch(frame, self._max_owed)
        if named := [members for members in batch if type(members.get("id")) in _IDS]:
            return Batch([self._settle(members, frame[:HEAD], why) for members in named])
        if self._quiet and not any(map(speaks_rpc, batch)):
            return Noise("not a message", frame[:HEAD])
        return self._refuse(None, why)

    def _receive_garbage(self, frame: bytes, why: Exception) -> Event | None:
        if not frame.strip():
            return None
        if not isinstance(why, TooDeep) and (mended := codec.mend(frame)) != frame:
            self._has_halves = not frame.endswith(mended)  # more than a byte order mark is gone
            try:
                return self.receive(type(frame)(mended))
            finally:
                self._has_halves = False
        if isinstance(frame, Unfinished):
            return Noise("the last line has no end", frame[:HEAD])  # and why it has none is soon known
        return self._receive_unreadable(frame, frame[:HEAD], ParseError(str(why)))

    def _receive_unreadable(self, frame: bytes | Oversize, head: bytes, why: RpcError) -> Event:
        members = outline(frame)
        if self._quiet and type(members.get("id")) not in _IDS:
            return Noise(why.message, head)
        return self._settle(members, head, why)

    def _settle(self, members: Mapping[str, Any], head: bytes, why: RpcError) -> Event:
        """Fail the call that bad members answer, or refuse the one they make."""
        if self._quiet and not speaks_rpc(members):
            return Noise("not a message", head)
        id = members.get("id")
        if members.get("method") is None:
            if "result" in members or "error" in members:
                return self._fail(id, why.message) or Noise(STRAY, head)
            if "params" not in members:  # whoever answers it might end a call that the peer made under this id
                return Noise(why.message, head) if self._quiet else self._refuse(None, why, head)
        return self._refuse(id if type(id) in (int, str) else None, why, head)

    def _fail(self, id: object, why: str) -> Reply | None:
        """The end of the call of ours that an id stands for, whose answer cannot be read."""
        if (number := meant(id)) is None or (method := self._pending.pop(number, None)) is None:
            return None
        return Reply(number, error=RemoteProtocolError(f"the answer to {method.name} cannot be read: {why}"))

    def _refuse(self, id: RequestId, error: RpcError, head: bytes = b"") -> Noise:
        try:
            self._put(ErrorFrame(id, ErrorBody(error.code, error.message, error.data)))
        except (
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
            LocalProtocolError,
        ):  # data like that cannot go
            self._put(ErrorFrame(id, ErrorBody(error.code, error.message)))
        return Noise(f"refused: {error}", head)


def _failure(method: Method, message: Envelope) -> Exception:
    """The error that a call was answered with, or the one that this is no error."""
    if message.result != NULL:
        return RemoteProtocolError(f"the answer to {method.name} has both a result and an error")
    try:
        error = codec.decode(message.error, ErrorBody)
    except codec.Invalid as exc:
        said = brief(bytes(message.error).decode())
        return RemoteProtocolError(f"the answer to {method.name} is no proper error ({exc}): {said}")
    failure = RpcError.of(error.code, error.message, error.data)
    failure.method = method.name
    return failure
