"""A remote agent over HTTP: each of our messages is a POST, the agent's messages are events of long GET answers.

The server's answer to `initialize` shows its form: the draft's, with a connection id; that form with a log, which
survives drops; or one of two older forms (`older`), where the answer to a request is the answer to its POST, or
comes on an event stream that names the URL for POSTs.
"""

import asyncio
import contextlib
import logging
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol

from ....errors import AgentStartError, ConnectionClosed
from ....foundation.documents import Document
from ....framing import MAX_FRAME, Oversize, in_lines
from ... import Hear
from .. import libraries as libraries  # first: it says what to install
from ..addresses import CONNECTION, LAST_EVENT, LAST_WORDS, PATIENCE, Persistence, read_url, why_unreachable
from ..routing import MessageHead, Withdrawal, asked_version, failure, head_of, withdrawal
from ..sse import Event
from .dialled import DialledTransport
from .exchange import ACCEPTS, ANSWER_TIMEOUT, JSON, Headers, ResponseHead
from .link import ServerLink, Version
from .post import Post, Posts

log = logging.getLogger("dragoman")

SHOWN = 8 * 1024  # bytes of an error's body that are quoted


class Form(Protocol):
    """How messages are sent and received, once the server has shown its form."""

    @property
    def unsettled(self) -> int:
        """Bytes of sent messages that the server may not have taken."""

    async def post(self, frame: bytes) -> None:
        """Send a message; returns when the next may follow, raises ConnectionClosed if the transport has ended."""

    def withdraw(self, wanted: Withdrawal) -> bool:
        """Answer cancelled requests that were not sent yet; true if there were any."""

    def hold(self, held: bool) -> None: ...

    async def close(self) -> None: ...


class HttpTransport(DialledTransport):
    def __init__(self, link: ServerLink, *, resumes: bool, limit: int, patience: float) -> None:
        super().__init__()
        self.link, self.limit, self.patience = link, limit, patience
        self._asks_to_resume = resumes
        self._form: Form | None = None
        self._outbox: deque[bytes] = deque()
        self._size = 0
        self._more = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._first: Post | None = None  # the POST that opened the connection; its answer may continue

    # The transport, as its user sees it

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        super().listen(hear, ended)
        self._sender = asyncio.get_running_loop().create_task(self._send_all(), name="posts")

    def _pause(self, paused: bool) -> None:
        if self._first:
            self._first.hold(paused)
        if self._form:
            self._form.hold(paused)

    def send(self, frames: list[bytes]) -> None:
        if self._why is None:
            for frame in frames:
                if not self._takes_back(frame):
                    self._outbox.append(frame)
                    self._size += len(frame)
            self._more.set()

    def _takes_back(self, frame: bytes) -> bool:
        """Whether a frame cancels a request that the server does not have; then neither is sent.

        The cancel of a session is always sent, since a turn of it may be in progress.
        """
        if (wanted := withdrawal(frame)) is None:
            return False
        waiting = [found for found in self._outbox if wanted.covers(head_of(found))]
        for found in waiting:
            self._outbox.remove(found)
            self._size -= len(found)
            self.withdraw(head_of(found))
        has_more = self._form is not None and self._form.withdraw(wanted)
        return bool(wanted.request) and (bool(waiting) or has_more)

    @property
    def queued(self) -> int:
        return self._size + (self._form.unsettled if self._form else 0)

    async def close(self) -> None:
        """Post the waiting messages, if the server takes them in time, and end the connection."""
        if self._sender:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_WORDS):
                    while self.queued and self._why is None:
                        self._taken.clear()
                        await self._taken.wait()
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        if self._first:
            self._first.cancel()
        self.end("we hung up")
        if self._form:
            form, self._form = self._form, None
            await form.close()
        await self.link.close()

    # Called by the form

    def heard(self, frames: list[bytes | Oversize]) -> None:
        if self._hear and self._why is None:
            told: list[bytes | Oversize] = []
            for frame in frames:
                told += [frame] if isinstance(frame, Oversize) else in_lines((frame,))
            self._hear(told)

    def heard_events(self, events: list[Event]) -> None:
        """Handle a message from the answer to a POST."""
        self.heard([event.data for event in events])

    def refused(self, message: MessageHead, status: int, body: bytes) -> None:
        """Answer a request whose message was refused."""
        if _is_answer(body):
            self.heard([body])
        elif message.is_request:
            data: Document = {"status": status, "body": body[:SHOWN].decode(errors="replace")}
            self.heard([failure(message.id, -32603, f"the server answered with status {status}", data)])
        else:
            log.warning("the server refused %s with status %d", message.method or "an answer", status)

    def took(self) -> None:
        """Note that the server has taken a message."""
        self._taken.set()

    def give_up(self, exc: Exception) -> None:
        """End the transport, since a message could not be sent."""
        if isinstance(exc, ConnectionClosed):
            self.end(str(exc))
        elif isinstance(exc, OSError | TimeoutError):
            self.end(f"{self.link.address.shown} cannot be reached: {why_unreachable(exc)}")
        else:
            log.exception("posting to %s failed", self.link.address.shown, exc_info=exc)
            self.end(f"posting to {self.link.address.shown} failed: {exc}")

    # Sending

    async def _send_all(self) -> None:
        try:
            while self._why is None:
                while self._outbox:
                    frame = self._outbox.popleft()
                    await (self._form.post(frame) if self._form else self._open(frame))
                    self._size -= len(frame)
                    self._taken.set()
                self._more.clear()
                await self._more.wait()
        except Exception as exc:
            self.give_up(exc)

    async def _open(self, frame: bytes) -> None:
        """Send the first message, `initialize`, whose answer shows the form and opens the connection."""
        self._is_version_2 = asked_version(frame) == 2
        headers: Headers = [JSON, ACCEPTS, *([(LAST_EVENT, "0")] if self._asks_to_resume else [])]
        post, reply = await self._ask_first(headers, frame)
        self._first = post
        if reply.status in (404, 405) and post.message.method == "initialize":
            from .older import EventsForm

            post.cancel()
            self._form = await EventsForm.open(self)
            await self._form.post(frame)
        elif not reply.is_good:
            await post.over()
            said = post.text[:SHOWN].decode(errors="replace").strip()
            is_greeting = post.message.method == "initialize"
            if is_greeting and not _is_answer(
                post.text
            ):  # there is no agent for us, as when a WebSocket is refused
                why = f"{self.link.address.shown} refused the connection with status {reply.status}"
                raise ConnectionClosed(f"{why}{said and ': ' + said}")
            self.refused(post.message, reply.status, post.text)
        else:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                await post.settled
            await self._choose_form(post, reply)

    async def _choose_form(self, post: Post, reply: ResponseHead) -> None:
        if id := reply.get(CONNECTION):
            from .streams import StreamsForm

            self._form = form = StreamsForm(self, id, resumes=self._asks_to_resume and reply.get(LAST_EVENT) == "0")
            await form.open()
        elif post.is_answered and not post.has_failed:
            from .older import PostsForm

            self._form = PostsForm(self)
        if not post.is_answered:
            Posts(self, promises=self._form is not None).settle(post, reply)

    async def _ask_first(self, headers: Headers, frame: bytes) -> tuple[Post, ResponseHead]:
        """Send the first POST; it may be repeated where a lost one has no effect."""

        async def attempt() -> tuple[Post, ResponseHead]:
            post = Post(self, frame, self.heard_events)
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT):
                    await post.send(headers)
                    return post, await post.reply()
            except BaseException:
                post.cancel()
                raise

        return await Persistence(self.patience if self._asks_to_resume else 0).persist(attempt)


def _is_answer(body: bytes) -> bool:
    """Whether the body of a refusal is an agent's answer."""
    return b'"error"' in body and b'"jsonrpc"' in body and head_of(body).method is None


async def dial_http(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    version: Version | None = None,
    resumes: bool = True,
    limit: int = MAX_FRAME,
    patience: float = PATIENCE,
) -> HttpTransport:
    """A transport to the agent at an http:// or https:// URL; raises AgentStartError when it cannot be reached."""
    address, sent = read_url(url, headers)
    link = ServerLink(address, sent, tls, version, limit)
    try:
        await link.open()
    except (OSError, TimeoutError) as exc:
        await link.close()
        raise AgentStartError(f"cannot reach {address.shown}: {why_unreachable(exc)}") from None
    return HttpTransport(link, resumes=resumes, limit=limit, patience=patience)
