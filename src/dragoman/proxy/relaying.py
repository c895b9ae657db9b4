"""Pass messages between two connections, in order.

A `Lane` is one direction.  A message without a handler is passed on at once, as its frame is read, so that nothing
overtakes it.  While a handler has a request that it has neither passed on nor answered, later messages of the same
session wait.  A full sink stops reading from the source.
"""

import asyncio
import functools
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..connection.connection import Connection
from ..errors import ConnectionClosed, Error, InternalError, RequestCancelled, RpcError
from ..events import Call, Method, Reply
from ..transports.holding import HeldUntilRoom

PATIENCE = 5.0  # seconds for the next connection to answer a request that was cancelled
MAX_WAITING = 4 * 1024 * 1024  # bytes that may wait behind handlers before reading from the source stops
MAX_KNOWN = 1000  # methods that are remembered with the function that passes each on


Opened = Callable[[Raw], None]  # called with the answer to a handshake


class _Params(Struct, rename="camel", frozen=True):
    session_id: str | None = None


class _Frame(Struct):
    params: _Params = _Params()


_read_params, _read_frame = msgspec.json.Decoder(_Params).decode, msgspec.json.Decoder(_Frame).decode


def session_of(params: object) -> str | None:
    """The session of a message, from its params (decoded or raw) or from its whole frame."""
    try:
        if isinstance(params, Raw):
            return _read_params(params).session_id
        if isinstance(params, bytes):
            return _read_frame(params).params.session_id
    except msgspec.DecodeError:
        return None
    return getattr(params, "session_id", None)


class Lane:
    """One direction between two connections."""

    def __init__(self, source: Connection, sink: Connection) -> None:
        self.source, self.sink = source, sink
        self._held = HeldUntilRoom(source.hold, source.resume, sink.room)
        self.passed: dict[int, int] = {}  # the id of a request at the sink, and its key at the source
        self._in_hand: Counter[str | None] = Counter()  # messages that handlers have, by session
        self._waiting: dict[str | None, deque[tuple[int, Callable[[], None]]]] = {}  # the messages behind them
        self._size = 0  # bytes of the waiting messages
        self._is_held = False  # whether reading has stopped for the waiting messages

    def pass_on(self, frame: bytes) -> None:
        """Pass a notification on unchanged, in order."""
        if self._in_hand:
            self.in_turn(session_of(frame), functools.partial(self._forward, frame), len(frame))
        else:
            self._forward(frame)

    def note(self, method: Method, params: Any) -> None:
        """Send a notification from a handler, in that handler's place in the order."""
        self.sink.note(method, params)
        self.hold_while_full()

    def _forward(self, frame: bytes) -> None:
        if not self.sink.closed:
            self.sink.forward(frame)
            self.hold_while_full()

    def hold_while_full(self) -> None:
        """Hold the source while the sink is full."""
        if self.sink.is_full:
            self._held.begin()

    def original(self, id: object) -> object:
        """The source's id of a request, from the sink's id of it; an unknown id is given back as it is."""
        key = self.passed.get(id) if type(id) is int else None
        return id if key is None else self.source.peer.id_of(key)

    # Turns

    def in_turn(self, session: str | None, step: Callable[[], None], size: int = 0) -> None:
        """Run a step of a message when no handler has an earlier message of the same session."""
        if not self._in_hand or not (self._is_blocked(session) or session in self._waiting):
            step()
            return
        self._waiting.setdefault(session, deque()).append((size, step))
        self._count_waiting(size)

    def take(self, session: str | None) -> None:
        """Note that a handler has a message of a session; a message without a session counts for all sessions."""
        self._in_hand[session] += 1

    def let_go(self, session: str | None) -> None:
        self._in_hand[session] -= 1
        if not self._in_hand[session]:
            del self._in_hand[session]
        for waiting in list(self._waiting):
            self._go_on(waiting)

    def _go_on(self, session: str | None) -> None:
        steps = self._waiting.get(session)
        while steps and not self._is_blocked(session):
            size, step = steps.popleft()
            self._count_waiting(-size)
            step()
        if not steps and self._waiting.get(session) is steps:
            self._waiting.pop(session, None)

    def _is_blocked(self, session: str | None) -> bool:
        return None in self._in_hand or session in self._in_hand

    def _count_waiting(self, size: int) -> None:
        self._size += size
        if (self._size > MAX_WAITING) != self._is_held:
            self._is_held = not self._is_held
            (self.source.hold if self._is_held else self.source.resume)()


class Passage:
    """A request passed on to the next connection, until its answer is given; it needs no task."""

    def __init__(self, lane: Lane, back: Lane, method: Method, call: Call, opened: Opened | None = None) -> None:
        self._lane, self._back, self._key, self._opened = lane, back, call.key, opened
        self._session = session_of(call.params)
        self._id: int | None = None  # its id at the next connection
        self._patience: asyncio.TimerHandle | None = None
        lane.source.passing[call.key] = self.cancel
        lane.in_turn(self._session, functools.partial(self._go, method, call.params), len(call.params))

    def _go(self, method: Method, params: Raw) -> None:
        if self._key not in self._lane.source.passing:
            return  # cancelled before it was passed on
        try:
            self._id = self._lane.sink.submit(method, params, self._answered)
        except Error as exc:
            self._give(Reply(0, error=exc))
        else:
            self._lane.passed[self._id] = self._key
            self._lane.hold_while_full()

    def _answered(self, reply: Reply) -> None:
        self._back.in_turn(self._session, functools.partial(self._give, reply))

    def _give(self, reply: Reply) -> None:
        if self._patience:
            self._patience.cancel()
        if self._id is not None:
            self._lane.passed.pop(self._id, None)
        if self._opened and reply.error is None:
            self._opened(reply.result)
        self._lane.source.give(self._key, reply.result, _passed_on(reply.error))
        self._back.hold_while_full()

    def cancel(self) -> None:
        """The source no longer wants the answer, or has disconnected; the request still gets an answer."""
        if self._id is None:
            self._give(Reply(0, error=RequestCancelled()))
        elif self._patience is None:
            self._lane.sink.request_cancel(self._id)
            patience = 0 if self._lane.source.closed else PATIENCE
            self._patience = asyncio.get_running_loop().call_later(patience, self._give_up)

    def _give_up(self) -> None:
        assert self._id is not None
        self._lane.sink.withdraw(self._id)
        self._give(Reply(0, error=RequestCancelled()))


def _passed_on(error: Exception | None) -> RpcError | None:
    match error:
        case None:
            return None
        case RpcError(code=code, message=message, data=data):
            return RpcError.of(code, message, data)
    return InternalError(str(error))


class HandledRequest:
    """A request that a handler has; no message of its session overtakes it or its answer."""

    def __init__(self, lane: Lane, back: Lane, call: Call) -> None:
        self._lane, self._back, self._call = lane, back, call
        self._session = session_of(call.params)
        self._is_passed_on = self._is_answered = self._is_done = False
        self._id: int | None = None  # its id at the next connection
        lane.source.passing[call.key] = self._cancel
        lane.in_turn(self._session, self._begin)

    def _begin(self) -> None:
        if self._lane.source.passing.pop(self._call.key, None) is None:
            return  # cancelled before it was passed on
        method = self._call.method
        handler = functools.partial(self._handle, method.handler)
        self._lane.take(self._session)
        if not self._lane.source.begin(replace(self._call, method=replace(method, handler=handler))):
            self._done()

    def _cancel(self) -> None:
        self._lane.source.give(self._call.key, None, RequestCancelled())

    async def _handle(self, handler: Callable[[Any], Awaitable[Any]] | None, params: Any) -> Any:
        handled_request.set(self)
        self._lane.source.after_answer(self._done)
        assert handler
        return await handler(params)

    def passed_on(self, method: Method, id: int | None = None) -> None:
        """The handler has called the next connection, or has ended without calling it."""
        if not self._is_passed_on and method.name == self._call.method.name:
            self._is_passed_on, self._id = True, id
            if id is not None:
                self._lane.passed[id] = self._call.key
            self._lane.let_go(self._session)

    def answered(self, method: Method, settle: Callable[[], None]) -> None:
        """The next connection has answered; if it answered this request, the handler is told in order."""
        if self._is_answered or method.name != self._call.method.name:
            settle()
        else:
            self._back.in_turn(self._session, functools.partial(self._take_answer, settle))

    def _take_answer(self, settle: Callable[[], None]) -> None:
        if not self._is_done:
            self._is_answered = True
            self._back.take(self._session)
        settle()

    def _done(self) -> None:
        self._is_done = True
        self.passed_on(self._call.method)
        if self._id is not None:
            self._lane.passed.pop(self._id, None)
        if self._is_answered:
            self._back.let_go(self._session)


handled_request: ContextVar[HandledRequest | None] = ContextVar("handled_request", default=None)


async def relayed(source: Connection, onward: Connection, method: Method, params: Any) -> Any:
    """Call the next connection; a cancel is passed on, and the answer is awaited if it is wanted."""
    answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    hand = handled_request.get()

    def settle(reply: Reply) -> None:
        if not answer.done():
            answer.set_result(reply)

    def settle_in_turn(reply: Reply) -> None:
        if hand:
            hand.answered(method, functools.partial(settle, reply))
        else:
            settle(reply)

    try:
        id = onward.submit(method, params, settle_in_turn)
        if hand:
            hand.passed_on(method, id)
        try:
            reply = await asyncio.shield(answer)
        except asyncio.CancelledError:
            onward.request_cancel(id)
            async with asyncio.timeout(0 if source.closed else PATIENCE):
                reply = await answer
    except TimeoutError:
        onward.withdraw(id)
        raise RequestCancelled() from None
    except ConnectionClosed as exc:
        raise InternalError(str(exc)) from None
    if error := _passed_on(reply.error):
        raise error
    return reply.result


class Relayed(dict[str, Method]):
    """The methods that are answered here; every other name is passed on."""

    def __init__(self, own: Mapping[str, Method], relay: Callable[[str], Method]) -> None:
        super().__init__(own)
        self.relayed = relay

    def get(self, name: str, default: Any = None) -> Method:
        if (found := super().get(name)) is None:
            found = self.relayed(name)
            if len(self) < MAX_KNOWN:
                self[name] = found
        return found
