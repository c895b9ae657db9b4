"""Runs a peer over a transport: a reader, a batched writer, a task per incoming request.

The only place where the sans-IO peer meets I/O.  Frames are handled in the order they came: a notification is a
plain call, a response goes straight to whoever waits for it, and only a request gets a task of its own.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from .errors import (
    ConnectionClosed,
    InternalError,
    LocalProtocolError,
    RequestCancelled,
    RequestTimeout,
    RpcError,
)
from .framing import Oversize
from .rpc import Call, Cancel, Event, Method, Noise, Note, Peer, Reply, State
from .schema.base import RequestId
from .transports import HIGH_WATER, Transport

log = logging.getLogger("dragoman")

SOFT_LIMIT = 64 * 1024  # bytes not yet handed to the wire before a sender that awaits `room` has to wait
HARD_LIMIT = 32 * 1024 * 1024  # and before one that does not is stopped
BURST = 50e-6  # seconds; frames closer together than this are sent with one write
GRACE = 0.5  # seconds for answers in the works after the peer hung up
PATIENCE = 5.0  # seconds for cancelled handlers to end
NOISY = 1000  # lines that are no message before the user is warned


class Connection:
    """One peer over one wire; `run` does the work until either side hangs up."""

    frame: bytes | Oversize = b""  # the one being handled, for whoever keeps bytes rather than objects

    def __init__(self, transport: Transport, *, quiet: bool = False) -> None:
        self.peer = Peer(quiet=quiet)
        self.closed: Exception | None = None  # why, once it is
        self.on_close: Callable[[], None] | None = None  # called when everything pending has failed
        self.on_noise: Callable[[], None] | None = None  # called for each frame that is wrong
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()  # the peer has hung up
        self._waiting: dict[int, Callable[[Reply], None]] = {}  # our calls, and where their answers go
        self._deadlines: dict[int, tuple[float, Method]] = {}  # those of our calls that may not take for ever
        self._watchdog: asyncio.TimerHandle | None = None  # set for the first of them
        self._tasks: dict[int, asyncio.Task[None]] = {}  # their calls, and the tasks that answer them
        self._afterwards: dict[asyncio.Task[Any], list[Callable[[], None]]] = {}
        self._due = False  # a flush is scheduled
        self._flushed = 0.0  # when the last one was
        self._congested = False  # the wire holds more than it should
        self._choked = False  # and more than it may
        self._noise = 0
        self._holds = 0  # how many have no room for what arrives
        self._hanging_up: asyncio.Task[None] | None = None

    def answer_with(self, requests: Mapping[str, Method], notifications: Mapping[str, Method]) -> None:
        """Say what this side answers, each method with its handler; before `run`."""
        self.peer.answer(requests, notifications)

    def through(self, gate: Callable[[Transport], Transport]) -> Callable[[], None]:
        """Have all that is sent pass a gate first; before `run`.  Gives what hands it everything at once."""
        self._transport = gate(self._transport)
        return self._flush

    # Sending

    async def call(self, method: Method, params: Any) -> Any:
        """Ask, and wait for the answer; whoever is cancelled while waiting tells the peer so."""
        if self.is_full:
            await self.room()
        answer: asyncio.Future[Any] = self._loop.create_future()

        def settle(reply: Reply) -> None:
            if answer.done():
                return
            if reply.error is None:
                answer.set_result(reply.result)
            else:
                answer.set_exception(reply.error)

        id = self.submit(method, params, settle)
        if method.timeout:
            self._watch(id, method)
        try:
            return await answer
        except asyncio.CancelledError:
            self.withdraw(id)
            raise
        finally:
            self._deadlines.pop(id, None)

    def submit(self, method: Method, params: Any, settle: Callable[[Reply], None]) -> int:
        """Ask without waiting: `settle` is called with the answer, in its order among all that arrives."""
        if self.closed:
            raise self.closed.with_traceback(None)
        id = self.peer.call(method, params)
        self._waiting[id] = settle
        self._flush_soon()
        return id

    def withdraw(self, id: int) -> None:
        """Tell the peer an answer is no longer wanted, and drop it if it comes."""
        if self._waiting.pop(id, None):
            self.peer.cancel(id)
            self._flush_soon()

    def hurry(self, id: int) -> None:
        """Ask the peer to cancel a call whose answer is still wanted."""
        self.peer.hurry(id)
        self._flush_soon()

    def note(self, method: Method, params: Any) -> None:
        if self.closed:
            raise self.closed.with_traceback(None)
        if self._choked or self.peer.queued > HARD_LIMIT:
            raise LocalProtocolError(f"the peer does not take what it is sent; await room() before {method.name}")
        self.peer.note(method, params)
        if not self._due:
            self._flush_soon()

    @property
    def is_full(self) -> bool:
        """Whether it is time to await `room`."""
        return self._congested or self.peer.queued > SOFT_LIMIT

    async def room(self) -> None:
        """Wait until the peer has taken most of what was sent, and let the reader have its turn."""
        self._flush()
        await self._transport.drain()
        self._congested = self._choked = False
        await asyncio.sleep(0)
        if self.closed:
            raise self.closed.with_traceback(None)

    def _flush_soon(self) -> None:
        """Send a lone frame at once; what comes in a burst goes together."""
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
            self._congested, self._choked = waiting > HIGH_WATER, waiting > HARD_LIMIT

    def _watch(self, id: int, method: Method) -> None:
        """Give a call up when its time is over; one timer serves all of them, for most are answered long before."""
        assert method.timeout
        due = self._loop.time() + method.timeout
        self._deadlines[id] = due, method
        if self._watchdog is None or due < self._watchdog.when():
            self._set_watchdog(due)

    def _set_watchdog(self, due: float) -> None:
        if self._watchdog:
            self._watchdog.cancel()
        self._watchdog = self._loop.call_at(due, self._expire)

    def _expire(self) -> None:
        self._watchdog = None
        for id, (due, method) in list(self._deadlines.items()):
            if due <= self._loop.time() and (settle := self._waiting.pop(id, None)):
                del self._deadlines[id]
                self.peer.cancel(id)
                self._flush_soon()
                settle(Reply(id, error=RequestTimeout(f"{method.name} was not answered in {method.timeout:g} s")))
        if self._deadlines:
            self._set_watchdog(min(due for due, _ in self._deadlines.values()))

    # Receiving

    async def run(self) -> None:
        """Handle what arrives until the peer hangs up, then settle everything."""
        self._transport.listen(self._hear, self._over.set)
        try:
            await self._over.wait()
            await self._wind_down(await self._transport.why_ended(), GRACE)
        except asyncio.CancelledError:
            await self._wind_down(ConnectionClosed("we hung up"), 0)
            raise

    def hold(self) -> None:
        """Stop reading: whoever was to take what arrives has no room for it."""
        self._holds += 1
        self._transport.hold()

    def resume(self) -> None:
        """Go on reading, once everybody who wanted it stopped has said so."""
        self._holds -= 1
        if self._holds == 0:
            self._transport.resume()

    def _hear(self, frames: list[bytes | Oversize]) -> None:
        if self.peer.state is State.CLOSED:
            return
        receive, noise = self.peer.receive, self._noise
        for frame in frames:
            self.frame = frame
            event = receive(frame)
            if type(event) is Note:  # most of them, so first and without a detour
                try:
                    event.method.handler(event.params)  # type: ignore[misc]
                except BaseException:  # whatever a handler does, what comes next is still read
                    log.exception("the handler of %s failed", event.method.name)
            elif event is not None:
                self._dispatch(event)
        if self._noise - noise < len(frames):
            self._noise = 0  # something among it was a message
        if self.peer.queued:
            self._flush_soon()

    def _dispatch(self, event: Event) -> None:
        match event:
            case Reply():
                if settle := self._waiting.pop(event.id, None):
                    settle(event)
            case Call():
                self._tasks[event.key] = self._loop.create_task(self._answer(event), name=event.method.name)
            case Cancel():
                if task := self._tasks.get(event.key):
                    self._loop.call_soon(cancel_once, task)  # cancelled before it began it would answer nothing
            case Noise():
                self._ignore(event)

    async def _answer(self, call: Call) -> None:
        try:
            self.peer.reply(call.key, await call.method.handler(call.params))  # type: ignore[misc]
        except asyncio.CancelledError:
            self.peer.fail(call.key, RequestCancelled())
        except RpcError as exc:
            self.peer.fail(call.key, exc if exc.method is None else InternalError(f"{exc.method} failed: {exc}"))
        except BaseException as exc:  # also SystemExit: a handler's bug ends its request, not the process
            self.peer.fail(call.key, InternalError(data={"errorId": self._report(call, exc)}))
        finally:
            task = self._tasks.pop(call.key)
            for callback in self._afterwards.pop(task, ()):
                callback()
            self._flush_soon()

    def after_answer(self, callback: Callable[[], None]) -> None:
        """Have something done right after the request being answered in this task has been."""
        task = asyncio.current_task()
        assert task
        self._afterwards.setdefault(task, []).append(callback)

    @property
    def request_id(self) -> RequestId:
        """The id, as the peer wrote it, of the request being answered in this task."""
        task = asyncio.current_task()
        for key, answering in self._tasks.items():
            if answering is task:
                return self.peer.id_of(key)
        raise LocalProtocolError("no request is being answered in this task")

    def _report(self, call: Call, exc: BaseException) -> str:
        """Log what a handler raised; gives the id under which it is found."""
        error_id = os.urandom(6).hex()
        if exc is self.closed:  # the peer left in the middle, which is no fault of the handler
            log.info("%s was cut short [%s]: %s", call.method.name, error_id, exc)
            return error_id
        log.error("the handler of %s failed [%s]", call.method.name, error_id, exc_info=exc)
        return error_id

    def answer_early(self, task: "asyncio.Task[Any]", result: Any) -> None:
        """Answer the request a task is answering; what the task itself answers later is dropped."""
        for key, answering in self._tasks.items():
            if answering is task:
                self.peer.reply(key, result)
                self._flush_soon()
                return

    def _ignore(self, noise: Noise) -> None:
        self._noise += 1
        log.info("ignored: %s %r", noise.why, noise.data)
        if self._noise == NOISY:
            log.warning("the peer has sent %d lines that are no messages; the last: %r", NOISY, noise.data[:200])
        if self.on_noise:
            self.on_noise()

    # The end

    def hang_up(self) -> None:
        """End the connection from our side; `run` returns when everything is settled."""
        if self.closed is None and self._hanging_up is None:
            self._hanging_up = self._loop.create_task(self._transport.close())

    async def _wind_down(self, why: Exception, grace: float) -> None:
        """Fail what is pending, let what is owed finish or be cancelled, flush, hang up."""
        self.closed = why
        if self._watchdog:
            self._watchdog.cancel()
        for reply in self.peer.lose(why):
            self._dispatch(reply)
        if self.on_close:
            self.on_close()
        if tasks := set(self._tasks.values()):
            await asyncio.wait(tasks, timeout=grace)
            for task in tasks:
                task.cancel()
            _, stuck = await asyncio.wait(tasks, timeout=PATIENCE)
            for task in stuck:
                log.warning("the handler of %s does not end", task.get_name())
        self._flush()
        self.peer.close()
        await self._transport.close()
        if self._hanging_up:
            await self._hanging_up


def cancel_once(task: "asyncio.Task[Any]") -> None:
    """Cancel a task that is not being cancelled yet: its cleaning up is not to be disturbed."""
    if not task.cancelling():
        task.cancel()
