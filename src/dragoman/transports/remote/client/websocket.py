"""A remote agent over a WebSocket: each message is a text frame, and one socket carries all of them.

A server that keeps a log says so when the socket is opened.  After a drop, the socket is opened again, each side
states the number of the last frame it received, and lost frames are sent again.  Each text begins with its frame's
number; acknowledgements are binary frames.  With any other server, a drop ends the connection.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping

from ....errors import AgentStartError, ConnectionClosed
from ....framing import MAX_FRAME, in_lines
from ... import Hear
from .. import libraries as libraries  # first: it says what to install
from ..addresses import (
    CONNECTION,
    DIAL_TIMEOUT,
    GENERATION,
    LAST_EVENT,
    PATIENCE,
    Address,
    Persistence,
    open_socket,
    read_url,
    why_unreachable,
)
from ..cookies import CookieJar
from ..replay import ACKNOWLEDGE_EVERY, Log, Receipt, read_number, write_numbered
from ..routing import BINARY, asked_version, failure, head_of, withdrawal
from .dialled import DialledTransport
from .websocket_socket import WebSocketSocket

log = logging.getLogger("dragoman")

FINAL_CODES = {1000, 1002, 1003, 1007, 1008, 1009, 4401}  # closed on purpose, or it would be closed again


class WebSocketTransport(DialledTransport):
    def __init__(
        self,
        address: Address,
        headers: list[tuple[str, str]],
        tls: ssl.SSLContext | None,
        *,
        resumes: bool,
        limit: int,
        patience: float,
    ) -> None:
        super().__init__()
        self._address, self._headers, self._tls = address, headers, tls
        self._asks_to_resume, self._limit = resumes, limit
        self._persistence = Persistence(patience)
        self._loop = asyncio.get_running_loop()
        self._cookies = CookieJar()
        self._socket: WebSocketSocket | None = None
        self._id = ""  # the server's id for this connection
        self._resumes = False  # both ends can resume the connection
        self._generation = 0  # the number of the newest attempt to open a socket
        self._sent = Log()
        self._heard = Receipt()
        self._written = 0  # the number of the last frame given to any socket
        self._early: list[bytes] = []  # arrived before there was a listener
        self._returning: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect to the server; raises OSError or ConnectionClosed when that fails."""
        await self._dial()

    # The transport, as its user sees it

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        super().listen(hear, ended)
        if self._early:
            hear([*self._early])
        if self._why is not None:
            self._loop.call_soon(ended)
        elif self._socket:
            self._socket.pause(self.is_held)

    def _pause(self, paused: bool) -> None:
        if self._socket:
            self._socket.pause(paused)

    def send(self, frames: list[bytes]) -> None:
        if self._why is not None:
            return
        first = self._sent.last + 1
        if not self._resumes:
            if self._socket:
                self._socket.send_texts(frames)
        elif self._socket:
            if first == 1:
                self._is_version_2 = asked_version(frames[0]) == 2
            self._sent.append(frames)
            self._socket.send_texts(write_numbered(frames, first))
            self._written = self._sent.last
        else:
            for frame in frames:
                if not self._takes_back(frame):
                    self._sent.append([frame])

    def _takes_back(self, frame: bytes) -> bool:
        """Whether a frame cancels requests that were not sent yet.

        The cancel then takes their places, so that later frames keep their numbers; on the server it has no effect.
        """
        if (wanted := withdrawal(frame)) is None:
            return False
        waiting = self._sent.frames()[max(self._written - self._sent.forgotten, 0) :]
        found = [sent for sent in waiting if wanted.covers(head_of(sent))]
        for sent in found:
            self._sent.replace(sent, frame)
            self.withdraw(head_of(sent))
        return bool(found)

    @property
    def queued(self) -> int:
        if self._resumes:
            return self._sent.size
        return self._socket.transport.get_write_buffer_size() if self._socket else 0

    async def close(self) -> None:
        """Close the WebSocket properly, if it is open, and release the socket."""
        if self._returning:
            self._returning.cancel()
            await asyncio.gather(self._returning, return_exceptions=True)
        self.end("we hung up")
        if self._socket:
            await self._socket.close()

    # Called by the socket

    def heard(self, socket: WebSocketSocket, texts: list[bytes]) -> None:
        if socket is not self._socket:
            return
        frames = texts
        if self._resumes:
            frames, gap = self._heard.admit_numbered(texts)
            if gap:
                log.info("reconnecting to %s: %s", self._address.shown, gap)
                socket.abort()
        if not frames:
            return
        frames = in_lines(frames)
        self._persistence.note_success()
        if self._heard.add(sum(map(len, frames))):
            self.acknowledge()
        if self._hear:
            self._hear([*frames])
        else:
            self._early += frames

    def acknowledge(self) -> None:
        if self._resumes and self._heard.is_due and self._socket:
            self._socket.send_binary(b"%d" % self._heard.tell())

    def heard_binary(self, data: bytes) -> None:
        """Handle an acknowledgement; an answer in a binary frame, which should be a text, fails its call."""
        if self._resumes and (number := read_number(data)) is not None:
            self._sent.forget(number)
            self._taken.set()
        elif self._hear and (message := head_of(data)).is_answer:
            self._hear([failure(message.id, -32603, f"the answer {BINARY}")])

    def may_send(self) -> None:
        self._taken.set()

    def dropped(self, socket: WebSocketSocket, code: int, reason: str) -> None:
        """The socket was lost: reconnect if both ends can resume, else end."""
        if socket is not self._socket:
            return
        self._socket = None
        if not self._resumes or code in FINAL_CODES:
            self.end(_goodbye(code, reason))
        elif self._why is None:
            log.info("the connection to %s dropped: %s", self._address.shown, _goodbye(code, reason))
            self._returning = self._loop.create_task(self._return(), name="reconnect")

    # Reaching the server

    async def _dial(self) -> None:
        socket = await open_socket(
            self._address, self._tls, ["http/1.1"], lambda: WebSocketSocket(self, self._limit)
        )
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                response = await socket.shake_hands(self._address, self._request_headers())
        except BaseException:
            socket.abort()
            raise
        if socket.is_gone:
            raise ConnectionResetError(0, "it hung up")
        self._cookies.store(response.headers.get_all("Set-Cookie"))
        names = (CONNECTION, LAST_EVENT, GENERATION)
        id, number, generation = (_only(response.headers.get_all(name)) for name in names)
        if not self._id:
            self._id = id
            is_numbered = number == "0" and generation == str(self._generation)
            self._resumes = self._asks_to_resume and bool(id) and is_numbered
            self._room += ACKNOWLEDGE_EVERY if self._resumes else 0
        elif (heard := read_number(number)) is None or not self._sent.covers(heard):
            socket.abort()
            raise ConnectionClosed("the agent's server no longer knows which of our messages it has received")
        else:
            self._sent.forget(heard)
        self._socket = socket
        socket.send_texts(write_numbered(self._sent.frames(), self._sent.forgotten + 1))
        self._written = self._sent.last
        socket.pause(self.is_held or self._hear is None)
        socket.deliver()
        self._taken.set()

    def _request_headers(self) -> list[tuple[str, str]]:
        headers = [*self._headers]
        if cookie := self._cookies.header:
            headers.append(("cookie", cookie))
        if self._id:
            headers.append((CONNECTION, self._id))
        if self._asks_to_resume:
            self._generation += 1
            headers.append((LAST_EVENT, str(self._heard.tell())))
            headers.append((GENERATION, str(self._generation)))
        return headers

    async def _return(self) -> None:
        try:
            await self._persistence.persist(self._dial)
        except (OSError, TimeoutError) as exc:
            why = f"the connection to {self._address.shown} dropped and could not be restored"
            self.end(f"{why} in {self._persistence.patience:g} s: {why_unreachable(exc)}")
        except ConnectionClosed as exc:
            self.end(str(exc))
        except Exception as exc:
            log.exception("reconnecting to %s failed", self._address.shown)
            self.end(f"reconnecting to {self._address.shown} failed: {exc}")
        else:
            log.info("reconnected to %s", self._address.shown)
        finally:
            self._returning = None


def _only(values: list[str]) -> str:
    """A header's value; empty if the header is missing or repeated."""
    return values[0] if len(values) == 1 else ""


def _goodbye(code: int, reason: str) -> str:
    if code in (1000, 1005):
        return "the agent hung up"
    if code == 1006:
        return f"the connection dropped{reason and ': ' + reason}"
    if code == 1009:
        return f"a message was too large for the other side{reason and ': ' + reason}"
    return f"the connection was closed with code {code}{reason and ': ' + reason}"


async def dial_websocket(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
    resumes: bool = True,
    limit: int = MAX_FRAME,
    patience: float = PATIENCE,
) -> WebSocketTransport:
    """A transport to the agent at a ws:// or wss:// URL; raises AgentStartError when it cannot be reached."""
    address, sent = read_url(url, headers)
    wire = WebSocketTransport(address, sent, tls, resumes=resumes, limit=limit, patience=patience)
    try:
        await wire.open()
    except (OSError, TimeoutError) as exc:
        raise AgentStartError(f"cannot reach {address.shown}: {why_unreachable(exc)}") from None
    except ConnectionClosed as exc:
        raise AgentStartError(f"cannot reach {address.shown}: {exc}") from None
    return wire
