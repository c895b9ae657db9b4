"""Two older forms of HTTP that agents still speak.

`PostsForm`: a request is a POST, and its answer is the answer to that POST; other messages of the agent can only
come before that answer.  `EventsForm`: one event stream, whose first event names the URL for POSTs.
"""

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from ....errors import ConnectionClosed
from ....framing import Oversize
from ..routing import Withdrawal
from ..sse import Event
from .event_stream import EventStream
from .exchange import ACCEPTS, JSON
from .post import Posts

if TYPE_CHECKING:
    from .http import HttpTransport

log = logging.getLogger("dragoman")

SAFE = "%/:?#[]@!$&'()*+,;=-._~"  # characters of a URL that have a meaning, or are escaped already
FIRST_EVENT = 10.0  # seconds for the event that names the URL for POSTs


class OlderForm:
    """The common part of both forms: messages as POSTs."""

    def __init__(self, wire: "HttpTransport", *, promises: bool) -> None:
        self._wire = wire
        self._posts = Posts(wire, promises=promises)

    @property
    def unsettled(self) -> int:
        return self._posts.unsettled

    def withdraw(self, wanted: Withdrawal) -> bool:
        return self._posts.withdraw(wanted)

    def hold(self, held: bool) -> None:
        self._posts.hold(held)

    async def close(self) -> None:
        await self._posts.close()


class PostsForm(OlderForm):
    """The answer to a request comes as the answer to its POST, which stays open until the turn has ended."""

    def __init__(self, wire: "HttpTransport") -> None:
        super().__init__(wire, promises=False)

    async def post(self, frame: bytes) -> None:
        await self._posts.deliver(frame, [JSON, ACCEPTS], self._wire.heard_events)


class EventsForm(OlderForm):
    """All messages of the agent come on one stream, whose first event names the URL for POSTs."""

    def __init__(self, wire: "HttpTransport") -> None:
        super().__init__(wire, promises=True)
        self._target: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stream = EventStream(self._heard, wire.limit)

    @classmethod
    async def open(cls, wire: "HttpTransport") -> "EventsForm":
        form = cls(wire)
        shown = wire.link.address.shown
        status = await form._stream.open(wire.link, [("accept", "text/event-stream")])
        if status != 200:
            form._stream.close()
            raise ConnectionClosed(f"{shown} is not an agent: it answered with status {status}")
        form._stream.ended.add_done_callback(lambda _: wire.end(form._stream.goodbye))
        await asyncio.wait({form._target}, timeout=FIRST_EVENT)
        if not form._target.done():
            form._target.set_result(wire.link.address.target)  # it names no URL, so it is the same one
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
        """The URL for POSTs, which must be on the same server."""
        address = self._wire.link.address
        base = f"{address.scheme}://{address.authority}"
        try:
            parts = urlsplit(urljoin(base + address.target, where))
        except ValueError:
            log.warning("the agent's server names an invalid address for messages")
            return address.target
        if f"{parts.scheme}://{parts.netloc}" != base:
            log.warning("the agent's server names another server for messages, which is not allowed")
            return address.target
        return quote((parts.path or "/") + (f"?{parts.query}" if parts.query else ""), safe=SAFE)

    async def post(self, frame: bytes) -> None:
        target = self._target.result()
        await self._posts.deliver(frame, [JSON, ACCEPTS], self._wire.heard_events, target=target)

    def hold(self, held: bool) -> None:
        super().hold(held)
        self._stream.pause(held)

    async def close(self) -> None:
        await super().close()
        self._stream.close()
