"""Messages to a server that keeps a log: each has a number and is handled once, in order.

The client sends a message as soon as the one before it has arrived, even if that one's POST is not answered yet:
the outcome of a permission request, or a cancel, must not wait for a server that holds a POST until a turn has
ended.  The server keeps the order.  It answers 409 to a message that arrives too early, and the client sends it
again.  A message never changes its number: after a refused one, a POST with that number and no body is sent.
"""

import asyncio
from collections.abc import Callable

from ..addresses import LAST_EVENT, NUMBER, TEMPORARY, Persistence, why_unreachable
from ..replay import Receipt
from ..routing import Withdrawal, head_of
from ..sse import Event
from .exchange import Headers, ResponseHead
from .post import BUSY, FIRST_PAUSE, Post, Posts, Refused, retry_after

TOO_MANY = 429  # not taken, as the server itself says
TOO_EARLY = 409  # an earlier message is missing
LONGEST_LOOK = 2.0  # seconds after which a message that arrived too early is sent again at the latest


class Unavailable(ConnectionRefusedError):
    """A server is busy, or a proxy cannot reach it: another attempt may succeed."""

    def __init__(self, post: Post, reply: ResponseHead) -> None:
        super().__init__(0, f"it answered with status {reply.status}")
        self.post, self.reply = post, reply


class NumberedMessage:
    """A message that the server may not have taken yet."""

    def __init__(self, frame: bytes, headers: Headers, number: int) -> None:
        self.frame, self.headers, self.number = frame, headers, number
        self.post: Post | None = None
        self.is_taken = False
        self.may_be_taken = False  # it was sent, and the server has not refused it for lack of room
        self.is_unwanted = False  # it was cancelled
        self.arrived = asyncio.Event()  # set when the server has it, as far as we know, or when it is settled
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # taken or refused

    def settle(self) -> None:
        self.arrived.set()
        if not self.settled.done():
            self.settled.set_result(None)

    def set_back(self) -> None:
        """Note that it has not arrived after all, so that later messages wait."""
        if not self.is_taken:
            self.arrived.clear()

    def empty(self) -> None:
        """Replace it by an empty message: later messages keep their numbers, since some may have been sent."""
        self.frame = b""
        self.set_back()


class NumberedPosts:
    """The messages of one connection, in the order of their numbers."""

    def __init__(self, posts: Posts, heard: Receipt, hear: Callable[[list[Event]], None], patience: float) -> None:
        self._posts, self._heard, self._hear, self._patience = posts, heard, hear, patience
        self._next = 1
        self._unsettled: list[NumberedMessage] = []

    async def deliver(self, frame: bytes, headers: Headers, refused: Refused) -> None:
        """Send a message, and return when the next one may follow."""
        if not self._posts.has_room(head_of(frame)):
            return
        message = NumberedMessage(frame, headers, self._next)
        self._next += 1
        self._unsettled.append(message)
        task = self._posts.begin(self._see_through(message, refused))
        await self._posts.turn_of_the_next(task, message.arrived)
        self._posts.count(len(frame), message.settled)

    def withdraw(self, wanted: Withdrawal) -> bool:
        """Answer cancelled requests that the server does not have yet; true if there were any."""
        found = [message for message in self._unsettled if wanted.covers(head_of(message.frame))]
        for message in found:
            message.is_unwanted = True
        return sum(map(self._withdraw_unsent, found)) > 0

    def _withdraw_unsent(self, message: NumberedMessage) -> bool:
        """Answer a cancelled message and send an empty one in its place, unless the server may have it."""
        if message.may_be_taken or not message.is_unwanted or not message.frame:
            return False
        self._posts.wire.withdraw(head_of(message.frame))
        message.empty()
        return True

    async def _see_through(self, message: NumberedMessage, refused: Refused) -> None:
        try:
            if refusal := await self._outcome(message):
                post, reply = refusal
                if message.frame:  # and it was not answered meanwhile
                    refused(post.message, reply.status, post.text)
                if not message.is_taken and not self._posts.wire.is_over:
                    message.empty()
                    if refusal := await self._outcome(message):
                        raise Unavailable(*refusal)
        except Exception as exc:
            self._fail(message, exc)
        finally:
            message.settle()

    async def _outcome(self, message: NumberedMessage) -> tuple[Post, ResponseHead] | None:
        """Send a message and read its answer; returns the refusal, if there was one."""
        persistence = Persistence(self._patience)
        try:
            while True:
                post, reply = await persistence.persist(lambda: self._attempt(message, persistence))
                if not reply.is_good:
                    return post, reply
                self._take(message)
                if await self._hear_out(post, reply):
                    return None
        except Unavailable as exc:
            if exc.reply.status != TOO_MANY:  # this answer may be a proxy's; the server may have taken the message
                raise
            return exc.post, exc.reply

    async def _attempt(self, message: NumberedMessage, persistence: Persistence) -> tuple[Post, ResponseHead]:
        """Send it until its turn has come.  Raises OSError or TimeoutError when it has to be sent again."""
        pause = FIRST_PAUSE
        while True:
            before = self._before(message)
            if before:
                await before.arrived.wait()
            doubted, message.may_be_taken = message.may_be_taken, True
            told = str(self._heard.count)  # not counted as acknowledged, since this POST may fail
            numbered = [*message.headers, (NUMBER, f'"{message.number}"'), (LAST_EVENT, told)]
            message.post = post = Post(self._posts.wire, message.frame, self._hear)
            try:
                reply = await self._posts.send(post, numbered, message.arrived.set)
            except BaseException:
                message.set_back()
                raise
            if reply.status in BUSY or reply.status == TOO_EARLY:
                message.may_be_taken = doubted
                self._withdraw_unsent(message)
            if reply.status == TOO_EARLY and before:
                message.set_back()
                await asyncio.wait({before.settled}, timeout=pause)
                pause = min(2 * pause, LONGEST_LOOK)
            elif reply.status not in TEMPORARY or (wait := retry_after(reply)) > persistence.rest:
                return post, reply
            else:
                message.set_back()
                await asyncio.sleep(wait)
                raise Unavailable(post, reply)

    async def _hear_out(self, post: Post, reply: ResponseHead) -> bool:
        """Read the rest of a successful answer, which may last as long as a turn; false when it was cut short."""
        try:
            await post.over()
        except OSError:
            return post.is_answered
        finally:
            self._posts.drop(post)
        self._posts.settle(post, reply)
        return True

    def _before(self, message: NumberedMessage) -> NumberedMessage | None:
        """The newest earlier message that may still be missing."""
        earlier = [found for found in self._unsettled if found.number < message.number]
        return earlier[-1] if earlier else None

    def _take(self, message: NumberedMessage) -> None:
        """Note that the server has a message, and therefore all earlier ones."""
        for found in [found for found in self._unsettled if found.number <= message.number]:
            found.is_taken = True
            found.settle()
            self._unsettled.remove(found)

    def _fail(self, message: NumberedMessage, exc: Exception) -> None:
        if message.is_taken and message.post:
            self._posts.fail(message.post, f"the answer was cut short: {why_unreachable(exc)}")
        else:
            self._posts.wire.give_up(exc)
