"""Two older forms of HTTP that agents still speak.

`PostsForm`: a request is a POST and its answer the answer to it; nothing else comes from the agent, unless it puts
it in front of that answer.  `EventsForm`: one event stream, whose first event says where to post.
"""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import msgspec

from ..errors import ConnectionClosed
from ..framing import Oversize
from .event_stream import EventStream
from .glance import glance
from .http_exchange import ANSWER_TIMEOUT, JSON, Reply
from .sse import Event, EventReader

if TYPE_CHECKING:
    from .http import HttpTransport

log = logging.getLogger("dragoman")

MAX_POSTS = 256  # at a time
FIRST_EVENT = 10.0  # seconds for the event that says where to post


class PostsForm:
    """Answers come as answers; a turn's POST stays open until the turn has ended."""

    def __init__(self, wire: "HttpTransport") -> None:
        self._wire = wire
        self._posts: set[asyncio.Task[None]] = set()

    async def post(self, frame: bytes) -> None:
        if len(self._posts) >= MAX_POSTS:
            await asyncio.wait(self._posts, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.get_running_loop().create_task(self._post(frame), name="post")
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _post(self, frame: bytes) -> None:
        message = glance(frame)
        headers = [JSON, ("accept", "application/json, text/event-stream")]
        try:
            reply, body = await self._wire.link.ask("POST", headers, frame, timeout=None)
        except OSError as exc:
            self._wire.end(f"{self._wire.link.address.shown} cannot be reached: {exc}")
            return
        if 200 <= reply.status < 300:
            self.heard(reply, body)
        else:
            self._wire.refused(message, reply.status, body)

    def heard(self, reply: Reply, body: bytes) -> None:
        """Hear what an answer holds: a message, several in a list or on lines, or events."""
        frames: list[bytes | Oversize] = []
        if reply.get("content-type").startswith("text/event-stream"):
            frames = [event.data for event in EventReader(self._wire.limit).feed(body + b"\n\n")]
        elif body.lstrip()[:1] == b"[":
            with contextlib.suppress(msgspec.DecodeError):
                frames = [bytes(item) for item in msgspec.json.decode(body, type=list[msgspec.Raw])]
        elif glance(body).id or glance(body).method:
            frames = [body.strip()]
        else:
            frames = [line for line in body.splitlines() if line.strip()]
        if frames:
            self._wire.heard(frames)

    def hold(self, held: bool) -> None:
        """Nothing comes that was not asked for."""

    async def close(self) -> None:
        for task in list(self._posts):
            task.cancel()
        await asyncio.gather(*self._posts, return_exceptions=True)


class EventsForm:
    """Everything comes on one stream, which says where to post."""

    def __init__(self, wire: "HttpTransport") -> None:
        self._wire = wire
        self._target: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stream = EventStream(self._heard, wire.limit)

    @classmethod
    async def open(cls, wire: "HttpTransport") -> "EventsForm":
        form = cls(wire)
        shown = wire.link.address.shown
        status = await form._stream.open(wire.link, [("accept", "text/event-stream")])
        if status != 200:
            form._stream.close()
            raise ConnectionClosed(f"{shown} is no agent: it answered with status {status}")
        form._stream.ended.add_done_callback(lambda _: wire.end("the agent's server has ended the connection"))
        await asyncio.wait({form._target}, timeout=FIRST_EVENT)
        if not form._target.done():
            form._target.set_result(wire.link.address.target)  # it does not say, so it is the same
        return form

    def _heard(self, events: list[Event]) -> None:
        frames: list[bytes | Oversize] = []
        for event in events:
            if event.kind != b"endpoint":
                frames.append(event.data)
            elif isinstance(event.data, bytes) and not self._target.done():
                self._target.set_result(self._target_in(event.data.decode(errors="replace").strip()))
        if frames:
            self._wire.heard(frames)

    def _target_in(self, where: str) -> str:
        """Where to post; another server than the one we came to is none of its business."""
        address = self._wire.link.address
        base = f"{address.scheme}://{address.authority}"
        parts = urlsplit(urljoin(base + address.target, where))
        if f"{parts.scheme}://{parts.netloc}" != base:
            log.warning("the agent's server wants messages posted elsewhere, which is not done")
            return address.target
        return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    async def post(self, frame: bytes) -> None:
        target = self._target.result()
        reply, body = await self._wire.link.ask("POST", [JSON], frame, target=target, timeout=ANSWER_TIMEOUT)
        if not 200 <= reply.status < 300:
            self._wire.refused(glance(frame), reply.status, body)
        elif glance(body).is_answer:
            self._wire.heard([body.strip()])

    def hold(self, held: bool) -> None:
        self._stream.pause(held)

    async def close(self) -> None:
        self._stream.close()
