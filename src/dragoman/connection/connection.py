"""Runs a peer over a transport: a reader, a batched writer, a task per incoming request.

The only place where the sans-IO peer meets I/O.  Frames are handled in the order they came: a notification is a
plain call, a response goes straight to its waiting caller, and only a request gets a task of its own.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

from ..envelope import Notification, sendable
from ..errors import (
    ConnectionClosed,
    InternalError,
    LocalProtocolError,
    NotOffered,
    Overloaded,
    RequestCancelled,
    RequestTimeout,
    RpcError,
    again,
)
from ..events import Batch, Call, Cancel, Event, Method, Noise, Note, Reply
from ..foundation.owning import Cleanup, cancel_once, guarded, log_failure, own
from ..framing import Oversize
from ..rpc import Peer
from ..schema.base import RequestId
from ..transports import HIGH_WATER, Transport
from .belonging import Home
from .deadlines import Deadlines
from .ending import GRACE, end_tasks, why_ended
from .incoming import IncomingRequest, PassedOn, answering, being_answered
from .reports import NoiseLog, report_failure
from .settling import settling

SOFT_LIMIT = 64 * 1024  # unsent bytes above which a sender that awaits `room` has to wait
HARD_LIMIT = 32 * 1024 * 1024  # and above which a sender that does not await it gets an error
PORTION = 16 * 1024  # bytes of a burst of requests or answers that are sent ahead, so that the peer can begin
BURST = 50e-6  # seconds; frames that are closer together are sent in one write
IN_WORKS = 64 * 1024 * 1024  # bytes of requests being answered; further requests are refused


class Connection:
    """One peer over one wire; `run` does the work until either side hangs up."""

    newest = 0  # the key of the newest request
    _begun = 0  # the key of the request whose task began last
    frame: bytes | Oversize = b""  # the frame being handled, for code that keeps bytes instead of objects

    def __init__(self, transport: Transport, *, quiet: bool = False) -> None:
        self.peer = Peer(quiet=quiet)
        self.closed: Exception | None = None  # the reason, once the connection is closed
        self._when_closed: tuple[Callable[[], None], ...] = ()  # called when all pending calls have failed
        self.on_noise: Callable[[], None] | None = None  # called for each invalid frame
        self._transport = transport
        self.home = Home()
        self._loop, self._check_loop = self.home.loop, self.home.check
        self._context = copy_context()
        self._over: asyncio.Future[None] = self._loop.create_future()  # the peer has hung up
        self._ending = Cleanup(self._wind_down)
        self._waiting: dict[int, Callable[[Reply], None]] = {}  # our calls, and what takes their answers
        self._deadlines = Deadlines(self._loop, self._expire)  # of our calls that have a deadline
        self.incoming: dict[int, IncomingRequest] = {}  # the peer's calls that are being answered, by their keys
        self.passing = PassedOn()
        self._in_works = 0  # bytes of the requests being answered
        self._due = False  # a flush is scheduled
        self._flushed = 0.0  # the time of the last flush
        self._congested = False  # the transport holds more bytes than it should
        self._choked = False  # and more bytes than it may
        self._allowed = HARD_LIMIT  # bytes that may be queued when a notification is sent; -1 when none may be sent
        self._throttled = False  # whether reading has stopped, because the peer does not read its answers
        self._noise = NoiseLog()
        self._holds = 0  # how many receivers have no room for messages

    def answer_with(self, requests: Mapping[str, Method], notifications: Mapping[str, Method]) -> None:
        """Set the methods that this side answers, each with its handler; call it before `run`."""
        self.peer.answer(requests, notifications)

    def through(self, wrap: Callable[[Transport], Transport]) -> Callable[[], None]:
        """Send through `wrap(transport)`; call it before `run`.  Returns a function that sends at once."""
        self._transport = wrap(self._transport)
        return self._flush

    # Sending

    async def call(self, method: Method, params: Any, unwanted: Callable[[Any], None] | None = None) -> Any:
        """Send a request and wait for the answer; if the caller is cancelled meanwhile, the peer is sent a cancel.

        A result that arrives in spite of the cancel goes to `unwanted`, which can undo the peer's work.
        """
        if self.is_full:
            await self.room()
        answer: asyncio.Future[Any] = self._loop.create_future()
        id = self.submit(method, params, settling(answer))
        if method.timeout:
            self._deadlines.add(id, method)
        try:
            return await answer
        except asyncio.CancelledError:
            if unwanted is None:
                self.withdraw(id)
            elif answer.cancelled():
                self._disown(id, unwanted)
            elif answer.exception() is None:  # the answer came at the same moment
                unwanted(answer.result())
            raise
        finally:
            if method.timeout:
                self._deadlines.discard(id)

    def _disown(self, id: int, unwanted: Callable[[Any], None]) -> None:
        """Pass the result to `unwanted` if it arrives in spite of the cancellation."""
        if id in self._waiting:
            self._waiting[id] = lambda reply: None if reply.error else unwanted(reply.result)
            self.request_cancel(id)

    def submit(self, method: Method, params: Any, settle: Callable[[Reply], None]) -> int:
        """Send a request without waiting; `settle` is called with the answer, in order with all other messages."""
        self._check_loop()
        if self.closed:
            raise again(self.closed)
        id = self.peer.call(method, params)
        self._waiting[id] = settle
        if self._throttled:
            self._throttle(False)  # the answer has to be read
        if self.peer.queued > PORTION:
            self._flush()
        elif not self._due:
            self._flush_soon()
        return id

    def withdraw(self, id: int) -> None:
        """Tell the peer that an answer is no longer wanted, and drop the answer if it comes."""
        if self._waiting.pop(id, None):
            self.peer.cancel(id)
            self._flush_soon()

    def request_cancel(self, id: int) -> None:
        """Ask the peer to cancel a call whose answer is still wanted."""
        self.peer.request_cancel(id)
        self._flush_soon()

    def note(self, method: Method, params: Any) -> None:
        self.tell(method, sendable(Notification(method.name, params)))

    def tell(self, method: Method, frame: bytes) -> None:
        """Send a notification whose frame has been made already."""
        self._check_loop()
        if self.peer.queued > self._allowed:
            raise self._why_refused(method)
        self.peer.forward(frame)
        if not self._due:
            self._flush_soon()

    def _why_refused(self, method: Method) -> Exception:
        if self.closed:
            return again(self.closed)
        return LocalProtocolError(f"the peer does not read what it is sent; await room() before {method.name}")

    def forward(self, frame: bytes) -> None:
        """Send a checked notification unchanged, however many bytes are unsent."""
        if self.closed:
            raise again(self.closed)
        self.peer.forward(frame)
        if not self._due:
            self._flush_soon()

    @property
    def unsent(self) -> int:
        """How many bytes wait because the peer has not read those before them."""
        return self.peer.queued + self._transport.queued

    @property
    def is_full(self) -> bool:
        """Whether the sender should await `room`."""
        return self._congested or self.peer.queued > SOFT_LIMIT

    async def room(self) -> None:
        """Wait until the peer has taken most of what was sent, and let the reader run."""
        self._check_loop()
        self._flush()
        await self._transport.drain()
        self._congested = False
        await asyncio.sleep(0)
        if self.closed:
            raise again(self.closed)

    def _flush_soon(self) -> None:
        """Send a lone frame at once; frames of a burst are sent together."""
        if self._due:
            return
        if time.monotonic() - self._flushed > BURST:
            self._flush()
        else:
            self._due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._due = False
        self._flushed = time.monotonic()
        if frames := self.peer.take():
            self._transport.send(frames)
            waiting = self._transport.queued
            self._congested = waiting > HIGH_WATER
            if waiting > HARD_LIMIT and not self._choked:
                self._choked, self._allowed = True, -1
                own(self._hold_until_taken(), "holding")

    async def _hold_until_taken(self) -> None:
        """Stop reading from a peer that does not read its answers, unless we wait for an answer from it."""
        if not self._waiting:
            self._throttle(True)
        try:
            await self._transport.drain()
        finally:
            self._choked, self._allowed = False, -1 if self.closed else HARD_LIMIT
            if self._throttled:
                self._throttle(False)

    def _throttle(self, throttled: bool) -> None:
        self._throttled = throttled
        if throttled:
            self.hold()
        else:
            self.resume()

    def _expire(self, id: int, method: Method) -> None:
        if settle := self._waiting.pop(id, None):
            self.peer.cancel(id)
            self._flush_soon()
            late = RequestTimeout(f"{method.name} was not answered in {method.timeout:g} s")
            guarded(settle, Reply(id, error=late))

    # Receiving

    def start(self) -> None:
        """Handle messages from now on, until either side hangs up."""
        self._transport.listen(self._hear, self._hear_end)

    async def run(self) -> None:
        """Handle messages until the peer hangs up, then settle everything; cancelling this call hangs up."""
        self.start()
        try:
            await asyncio.wait([self._over])
        finally:
            await self.close()

    def hold(self) -> None:
        """Stop reading because a receiver has no room for messages."""
        self._holds += 1
        self._transport.hold()

    def resume(self) -> None:
        """Continue reading once every receiver that called `hold` has room again."""
        self._holds -= 1
        if self._holds == 0:
            self._transport.resume()

    def _hear(self, frames: list[bytes | Oversize]) -> None:
        if self.closed is not None:
            return  # a handler that began now would never be ended
        receive, noise = self.peer.receive, self._noise.count
        for frame in frames:
            self.frame, event = frame, None
            try:
                event = receive(frame)
                if type(event) is Note:  # most messages are notifications, so they come first and directly
                    event.method.handler(event.params)  # type: ignore[misc]
                elif type(event) is Call:
                    (event.method.accept or self.begin)(event)
                elif type(event) is Reply and (settle := self._waiting.pop(event.id, None)):
                    settle(event)
                elif event is not None:
                    self._dispatch(event)
            except BaseException:  # a failing message does not stop the next one
                told = event.method.name if type(event) is Note else "a message"
                log_failure("the handler of %s failed", told)
        if self._noise.count - noise < len(frames):
            self._noise.count = 0  # a part of the frame was a message
        if self.peer.queued:
            self._flush_soon()

    def _hear_end(self) -> None:
        self._note_end()
        self._ending.begin()

    def _note_end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _dispatch(self, event: Event) -> None:
        """Handle any event but a notification; the caller continues if this raises."""
        match event:
            case Reply():
                if settle := self._waiting.pop(event.id, None):
                    settle(event)
            case Call():
                (event.method.accept or self.begin)(event)
            case Cancel():
                if event.key in self.incoming:  # not at once: a task cancelled before it began would not answer
                    self._loop.call_soon(self.interrupt, event.key)
                elif cancel := self.passing.get(event.key):
                    cancel()
            case Noise():
                self._noise.add(event)
                if self.on_noise:
                    self.on_noise()
            case Batch():
                for each in event.events:
                    guarded(self._dispatch, each)

    def give(self, key: int, result: Any, error: RpcError | None) -> None:
        """Give the answer to a request that was passed on."""
        if not self.passing.settle(key):
            return
        if error is None:
            self.peer.reply(key, result)
        else:
            self.peer.fail(key, error)
        self._flush_soon()

    def begin(self, call: Call) -> bool:
        """Answer a request in a task of its own, if there is room for it."""
        key = call.key
        size = len(self.frame) if isinstance(self.frame, bytes) else self.frame.size
        if self._choked:
            self.peer.fail(call.key, Overloaded("the answers to earlier requests have not been read"))
            return False
        if self._in_works + size > IN_WORKS and self.incoming:
            limit = IN_WORKS // 1024 // 1024
            self.peer.fail(call.key, Overloaded(f"more than {limit} MiB of requests are being answered"))
            return False
        self.newest = key
        self.incoming[key] = request = IncomingRequest(self, key, size)
        self._in_works += size
        # Not in the sender's context: in one process the sender may be the other side.
        answer = self._answer(request, call)
        task = self._loop.create_task(answer, name=call.method.name, context=self._context.copy())
        if not task.done():  # an eager task may have ended already
            request.task = task
        return True

    async def _answer(self, request: IncomingRequest, call: Call) -> None:
        key, peer = call.key, self.peer
        self._begun = key
        answering.set(request)
        try:
            peer.reply(key, await call.method.handler(call.params))  # type: ignore[misc]
        except asyncio.CancelledError:
            peer.fail(key, RequestCancelled())
        except RpcError as exc:
            peer.fail(key, exc if exc.method is None else exc.passed_on())
        except BaseException as exc:  # SystemExit, too: a handler's bug ends its request, not the process
            error_id = os.urandom(6).hex()
            # the peer can act on an error about what it does not offer
            why = str(exc) if isinstance(exc, NotOffered) else ""
            peer.fail(key, InternalError(why, {"errorId": error_id}))
            report_failure(call.method.name, exc, error_id, self.closed)  # last, for the log may fail as well
        finally:
            del self.incoming[key]
            self._in_works -= request.size
            request.task = None  # its context holds the request, so each would keep the other alive
            if request.afterwards:
                for callback in request.afterwards:
                    guarded(callback)
            if self.peer.queued > PORTION:
                self._flush()
            elif not self._due:
                self._flush_soon()

    def when_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the connection has ended and all pending calls have failed."""
        self._when_closed += (callback,)

    def in_turn(self, step: Callable[[], None]) -> None:
        """Run a step of a notification in order: once each request that came before it has begun."""
        if self._begun == self.newest:
            step()
        else:  # behind the tasks of those requests, which begin in this order as well
            self._loop.call_soon(step)

    @property
    def answering(self) -> int:
        """The key of the request that the current task answers, or the task that started it."""
        request = answering.get(None)
        if request is None or request.connection is not self or request.key not in self.incoming:
            raise LocalProtocolError("no request is being answered here")
        return request.key

    def after_answer(self, callback: Callable[[], None]) -> None:
        """Call `callback` right after the answer to the request that this task answers; if there is none, soon."""
        request = being_answered()
        if request is None or request.connection is not self:
            self._loop.call_soon(callback)
        elif request.afterwards is None:
            request.afterwards = [callback]
        else:
            request.afterwards.append(callback)

    @property
    def request_id(self) -> RequestId:
        """The id, as the peer wrote it, of the request that this task answers."""
        return self.peer.id_of(self.answering)

    def answer_early(self, key: int, result: Any) -> None:
        """Answer a request before its task does; the task's own answer is dropped."""
        self.peer.reply(key, result)
        self._flush_soon()

    def interrupt(self, key: int) -> None:
        """Cancel the task that answers a request, unless it is being cancelled already."""
        if (request := self.incoming.get(key)) and request.task:
            cancel_once(request.task)

    # The end

    def hang_up(self) -> None:
        """End the connection from our side; `run` returns when everything is settled."""
        if self.closed is None:
            self._flush()  # what was said before, such as an answer whose batch is not sent yet
            own(self._transport.close(), "hanging up")

    async def close(self) -> None:
        """Hang up, unless the peer has, and return when everything is settled."""
        await self._ending()

    async def _wind_down(self) -> None:
        """Fail our pending calls, let the peer's requests finish or cancel them, flush, and hang up."""
        try:
            has_hung_up = self._over.done()
            why = await why_ended(self._transport) if has_hung_up else ConnectionClosed("we hung up")
            grace = GRACE if has_hung_up else 0
            self.closed, self._allowed = why, -1
            self._deadlines.close()
            for reply in self.peer.lose(why):
                # one error for each: the traceback of a shared one would grow
                lost = Reply(reply.id, error=again(why))
                guarded(self._dispatch, lost)
            for callback in self._when_closed:
                guarded(callback)
            await self.passing.end(grace)
            await end_tasks({request.task for request in self.incoming.values() if request.task}, grace)
            guarded(self._flush)
        finally:
            self.peer.close()
            await self._transport.close()
            self._note_end()
