"""A message sent over HTTP: the end of its POST settles it.

It is answered, promised (the answer will come on a stream), to be sent again, or failed with an error.  The answer
may stay open as long as its turn; the next message waits only until this one has arrived.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ....foundation.owning import Work
from ....framing import Oversize
from ..addresses import SILENCE, why_unreachable
from ..limits import SLOWEST
from ..routing import CANCEL, CANCEL_REQUEST, MessageHead, Withdrawal, failure, head_of, named_request
from ..sse import Event
from .body import ResponseBody, UnreadableBody
from .exchange import Exchange, Headers, ResponseHead

if TYPE_CHECKING:
    from .http import HttpTransport

log = logging.getLogger("dragoman")

MAX_POSTS = 256  # unanswered requests at a time, and as many other messages
ORDERLY = 0.1  # seconds that the next message waits for the answer to this one after it has arrived
LATE = 2.0  # seconds that it waits for this one to arrive, unless both belong to one session
BUSY = {429, 503}  # not taken: the message may be sent again
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0  # seconds before a message is sent again
ACCEPTED = 202
REPEATABLE = (CANCEL, CANCEL_REQUEST)  # notifications that have no further effect when they come twice

Refused = Callable[[MessageHead, int, bytes], None]


class Post:
    """The POST of one message; `hear` is called with each part of its answer as it arrives."""

    def __init__(self, wire: "HttpTransport", frame: bytes, hear: Callable[[list[Event]], None]) -> None:
        self.message: MessageHead = head_of(frame)
        self.is_answered = False
        self.has_failed = False  # it was answered with an error
        # set when it was answered or has ended
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire, self._frame, self._hear = wire, frame, hear
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._body = ResponseBody(wire.limit, self._heard, wire.link.unfinished, self._give_up)
        self._exchange: Exchange | None = None

    async def send(
        self, headers: Headers, target: str | None = None, begun: Callable[["Post"], None] | None = None
    ) -> None:
        """Send it, and return when it has arrived.

        Raises OSError when the server cannot be reached, TimeoutError when it does not take the message.
        """
        self._exchange = exchange = await self._wire.link.begin(
            "POST", headers, self._frame, self._feed, self._finish, target=target
        )
        if begun:
            begun(self)
        signs: set[asyncio.Future[Any]] = {exchange.sent, exchange.reply}
        most = SILENCE + self.size / SLOWEST
        done, _ = await asyncio.wait(signs, timeout=most, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise TimeoutError

    async def reply(self) -> ResponseHead:
        """The head of the answer; raises OSError when there is none."""
        assert self._exchange
        reply = await self._exchange.head()
        self._wire.link.note(reply)
        return reply

    async def over(self) -> None:
        """Wait for the end of the answer; raises OSError when it was cut short."""
        await asyncio.shield(self._over)

    @property
    def size(self) -> int:
        return len(self._frame)

    def hold(self, held: bool) -> None:
        """Stop or continue reading the answer."""
        if held:
            self._body.pause()
        if self._exchange:
            self._exchange.pause(held)

    def cancel(self) -> None:
        if self._exchange:
            self._exchange.cancel()

    @property
    def text(self) -> bytes:
        """The beginning of an answer that contains no messages."""
        return self._body.text

    @property
    def is_broken(self) -> bool:
        """Whether an answer that should be JSON is not."""
        return self._body.is_broken

    def _feed(self, data: bytes) -> None:
        assert self._exchange
        try:
            self._body.feed(self._exchange.reply.result(), data)
        except UnreadableBody as exc:
            self._finish(exc)
            self._exchange.cancel()

    def _give_up(self) -> None:
        self._finish(ConnectionResetError(0, "its answer began and does not end"))
        self.cancel()

    def _finish(self, exc: Exception | None) -> None:
        if self._over.done():
            return
        self._body.close()
        if exc is None:
            assert self._exchange
            self._body.end(is_good=self._exchange.reply.result().is_good)
            self._over.set_result(None)
        else:
            self._over.set_exception(exc)
            self._over.exception()  # a caller need not await it
        self._settle()

    def _heard(self, events: list[Event]) -> None:
        for event in events:
            if self.message.is_request and self._answers(event.data):
                self.is_answered = True
        self._hear(events)
        if self.is_answered:
            self._settle()

    def _answers(self, data: bytes | Oversize) -> bool:
        """Whether a frame is the answer to this message."""
        found = head_of(data)
        if not found.is_answer or found.id != self.message.id:
            return False
        self.has_failed = isinstance(data, bytes) and b'"error"' in data and b'"result"' not in data
        return True

    def _settle(self) -> None:
        if not self.settled.done():
            self.settled.set_result(None)


class Delivery:
    """A request that is being sent, until it is settled."""

    def __init__(self, message: MessageHead) -> None:
        self.message = message
        self.arrived = asyncio.Event()  # set when the server has it, as far as we know, or when it is settled
        self.is_sent = False  # the server may have it
        self.is_unwanted = False  # it was cancelled meanwhile
        self.task: asyncio.Task[None] | None = None


class Posts:
    """The POSTs in progress, each followed to its end by a task of its own."""

    def __init__(
        self, wire: "HttpTransport", *, promises: bool, forget: Callable[[bytes], object] = lambda id: None
    ) -> None:
        self.wire = wire
        self._forget = forget  # called with the id of a request that no answer of the server will settle
        self._promises = promises  # whether answers also come on streams
        self._tasks: set[asyncio.Task[None]] = set()
        self._posts: set[Post] = set()
        self._newest: dict[str | None, asyncio.Event] = {}  # by session: whether its newest message has arrived
        self._requests: dict[bytes, Delivery] = {}  # by id
        self.unsettled = 0  # bytes that the server may not have taken

    def hold(self, held: bool) -> None:
        """Stop or go on reading answers; unread ones wait in the server."""
        for post in self._posts:
            post.hold(held)

    async def deliver(
        self,
        frame: bytes,
        headers: Headers,
        hear: Callable[[list[Event]], None],
        *,
        target: str | None = None,
        refused: Refused | None = None,
        ready: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Send a message; returns when the next one may follow, because this one is settled or has arrived.

        A message that unblocks an agent never waits behind one that blocks it, such as a POST that is answered at a
        turn's end. `ready` is waited for before it is sent; false when it was settled there.
        """
        message = head_of(frame)
        if not self.has_room(message):
            return
        before, delivery = self._before(message, frame), Delivery(message)

        def attempt() -> Post:
            return Post(self.wire, frame, hear)

        async def see_through() -> None:
            try:
                if before:
                    await before.wait()
                if ready is None or await ready():
                    await self._see_through(delivery, attempt, headers, target, refused or self.wire.refused)
            finally:
                self._settle(delivery)

        if message.session is not None:
            self._newest[message.session] = delivery.arrived
        if message.is_request:
            self._requests[message.id] = delivery
        delivery.task = task = self.begin(see_through())
        await self.turn_of_the_next(task, delivery.arrived)
        if not message.is_request:  # the answer to a request may take as long as a turn
            self.count(len(frame), task)

    def _before(self, message: MessageHead, frame: bytes) -> asyncio.Event | None:
        """The message after which this one may be sent: the previous one of its session, or the one it cancels."""
        if message.method == CANCEL_REQUEST:
            cancelled = self._requests.get(named_request(frame))
            return cancelled.arrived if cancelled else None
        return self._newest.get(message.session)

    def _settle(self, delivery: Delivery) -> None:
        message = delivery.message
        delivery.arrived.set()
        if self._newest.get(message.session) is delivery.arrived:
            del self._newest[message.session]
        if self._requests.get(message.id) is delivery:
            del self._requests[message.id]

    def withdraw(self, wanted: Withdrawal) -> bool:
        """Answer cancelled requests that the server does not have yet; true if there were any.

        A request that was already sent is not sent again if the server refuses it.
        """
        found = [delivery for delivery in self._requests.values() if wanted.covers(delivery.message)]
        for delivery in found:
            delivery.is_unwanted = True
            if not delivery.is_sent and delivery.task:
                self._withdraw(delivery)
                delivery.task.cancel()
        return any(not delivery.is_sent for delivery in found)

    def _withdraw(self, delivery: Delivery) -> None:
        self._settle(delivery)
        self._forget(delivery.message.id)
        self.wire.withdraw(delivery.message)

    async def turn_of_the_next(self, task: "asyncio.Task[None]", arrived: asyncio.Event) -> None:
        """Wait until the message of a task is settled, has arrived a moment ago, or is late."""
        arriving = asyncio.ensure_future(arrived.wait())
        try:
            await asyncio.wait({task, arriving}, timeout=LATE, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({task}, timeout=ORDERLY)
        finally:
            arriving.cancel()

    def count(self, size: int, until: "asyncio.Future[None]") -> None:
        """Count `size` bytes as not taken while the block runs."""

        def uncount(_: object) -> None:
            self.unsettled -= size
            self.wire.took()

        if not until.done():
            self.unsettled += size
            until.add_done_callback(uncount)

    def begin(self, work: Work[None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work, name="post")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def has_room(self, message: MessageHead) -> bool:
        """Whether another POST may begin; a server that answers no POST is given up."""
        if len(self._tasks) >= MAX_POSTS and message.is_request:
            self.wire.heard([failure(message.id, -32001, f"{MAX_POSTS} requests are waiting for answers already")])
            return False
        if len(self._tasks) >= 2 * MAX_POSTS:
            self.wire.end(f"the server has answered none of {len(self._tasks)} messages")
            return False
        return True

    async def send(self, post: Post, headers: Headers, arrived: Callable[[], None]) -> ResponseHead:
        """Send a message that may come twice; returns when the server has taken or refused it.

        The caller has to read the rest of a successful answer.  Raises OSError or TimeoutError when the message
        has to be sent again.
        """
        try:
            async with asyncio.timeout(SILENCE + post.size / SLOWEST):
                await post.send(headers)  # even while held: it has to be known whether the message was taken
                arrived()
                reply = await post.reply()
                if not reply.is_good:
                    await post.over()
        except BaseException:
            post.cancel()
            raise
        if reply.is_good:
            self._take(post)
        return reply

    def _take(self, post: Post) -> None:
        self._posts.add(post)
        post.hold(self.wire.is_held)

    def drop(self, post: Post) -> None:
        self._posts.discard(post)
        post.cancel()

    async def _see_through(
        self,
        delivery: Delivery,
        attempt: Callable[[], Post],
        headers: Headers,
        target: str | None,
        refused: Refused,
    ) -> None:
        def begun(post: Post) -> None:
            delivery.is_sent = True
            self._take(post)

        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self.wire.patience, FIRST_PAUSE
        while True:
            post = attempt()
            try:
                await post.send(headers, target, begun)
                delivery.arrived.set()
                reply = await post.reply()
                await post.over()
            except OSError as exc:
                if not _may_come_twice(post.message) or loop.time() + pause > deadline:
                    self.fail(post, f"the message was sent, but no answer came: {why_unreachable(exc)}")
                    return
                wait = pause
            except Exception as exc:  # the request gets an answer for every kind of error
                log.exception("posting to %s failed", self.wire.link.address.shown)
                self.fail(post, f"the message could not be posted: {exc}")
                return
            else:
                wait = max(pause, retry_after(reply))
                if reply.status not in BUSY or loop.time() + wait > deadline:
                    break
            finally:
                self.drop(post)
            if delivery.is_unwanted:
                self._withdraw(delivery)
                return
            delivery.is_sent = False
            delivery.arrived.clear()  # later messages wait for it
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)
        if not reply.is_good:
            refused(post.message, reply.status, post.text)
        else:
            self.settle(post, reply)

    def settle(self, post: Post, reply: ResponseHead) -> None:
        """The answer is complete: a request that it does not answer was promised an answer, or will get none."""
        needs_none = self._promises or not post.message.is_request
        if needs_none and (reply.status == ACCEPTED or not (reply.media_type == "text/html" or post.is_broken)):
            return
        what = reply.media_type or "nothing"
        self.fail(post, f"the server answered with status {reply.status} and {what}, which contains no answer")

    def fail(self, post: Post, why: str) -> None:
        """Answer a request that the server will not answer."""
        if post.message.is_request and not post.is_answered:
            post.is_answered = True
            self._forget(post.message.id)
            self.wire.heard([failure(post.message.id, -32603, why)])
        elif not post.message.is_request:
            log.warning("%s may be lost: %s", post.message.method or "an answer", why)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _may_come_twice(message: MessageHead) -> bool:
    """Whether a message that may have arrived is sent again, because an agent without it would wait for ever."""
    return message.is_answer or message.method in REPEATABLE


def retry_after(reply: ResponseHead) -> float:
    """The seconds that a server asks us to wait."""
    told = reply.get("retry-after").strip()
    if told.isdecimal():
        return float(told)  # any number of digits; one that is too large becomes infinite
    try:
        return parsedate_to_datetime(told).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return 0.0
