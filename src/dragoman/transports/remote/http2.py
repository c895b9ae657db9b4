"""HTTP/2 on one socket, for either side: settings, windows, and the flow of data in both directions."""

import asyncio
import logging
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from .. import HIGH_WATER, LOW_WATER
from .limits import EARNED, Allowance

if TYPE_CHECKING:
    from hyperframe.frame import Frame, GoAwayFrame

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAM_WINDOW = 1024 * 1024  # unacknowledged bytes of one stream
SOCKET_WINDOW = 16 * 1024 * 1024  # and of all streams; a held stream must not delay the others
BEGINNING = 32 * 1024  # bytes of bodies that a socket sends in frames of at most this size:
FIRST_FRAMES = 512
MAX_HEADERS = 64 * 1024
MAX_STREAMS = 1024
MAX_UNREAD = 4 * 1024 * 1024  # waiting bytes above which the peer is given up; bodies wait elsewhere
MAX_UNHEARD = MAX_HEADERS + 64 * 1024  # bytes without a complete frame; no frame may be as large

logging.getLogger("hpack").setLevel(logging.INFO)  # it would log every header, credentials included


class LastingConnection(h2.connection.H2Connection):
    """Continues after GOAWAY: the peer accepts no new streams, but open ones may end (RFC 9113, 6.8).

    h2 takes it for the end of the connection: it drops unsent data, and fails at the next frame.
    """

    def _receive_goaway_frame(self, frame: "GoAwayFrame") -> "tuple[list[Frame], list[h2.events.Event]]":
        event = h2.events.ConnectionTerminated()
        event.last_stream_id = frame.last_stream_id
        return [], [event]


class Http2(asyncio.Protocol):
    """The common part of both sides."""

    transport: asyncio.Transport

    def __init__(self, *, is_client: bool) -> None:
        config = h2.config.H2Configuration(
            client_side=is_client, header_encoding=None
        )  # header bytes are kept as they were sent
        self._h2 = LastingConnection(config)
        self._h2.local_settings = h2.settings.Settings(
            client=is_client,
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADERS,
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
            },
        )
        self._loop = asyncio.get_running_loop()
        self._writable = asyncio.Event()
        self._writable.set()
        self._allowance = Allowance()
        self._unheard = 0  # bytes since the last event
        self._sent_size = 0  # bytes of bodies
        self._windows = asyncio.Event()  # set when a window has opened or a stream has closed
        self.is_gone = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER // 4, low=LOW_WATER // 4)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(SOCKET_WINDOW - 65535)
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._h2.receive_data(data)
            self._unheard = 0 if events else self._unheard + len(data)
            if self._unheard > MAX_UNHEARD:
                raise h2.exceptions.FrameTooLargeError("a frame without end")
        except h2.exceptions.ProtocolError as exc:
            self._flush()
            self.lose(ConnectionResetError(f"the peer broke the rules of HTTP/2: {exc}"))
            self.transport.close()
            return
        for event in events:
            if self.transport.is_closing():
                return
            if isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
                self._windows.set()
            self.handle(event)
        self._flush()

    def handle(self, event: h2.events.Event) -> None:
        """Handle an event of the peer; subclasses define the effect."""
        raise NotImplementedError

    def lose(self, exc: Exception) -> None:
        """Nothing more will arrive on any stream."""
        raise NotImplementedError

    def spend(self, weight: int = 1) -> None:
        """Count frames that cost only us; a peer that sends too many is disconnected."""
        if not self._allowance.spend(weight) and not self.transport.is_closing():
            self._h2.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
            self._flush()
            self.transport.close()

    def sent(self) -> None:
        """Note that a frame of a head or a body was sent; the peer may answer it with several frames."""
        self._allowance.earn(EARNED)

    async def send_data(self, stream: int, data: bytes, *, ends: bool) -> None:
        """Send part of a body as the peer has room; raises ConnectionResetError when the peer does not want it."""
        view, flushed = memoryview(data), 0
        while True:
            while not self._writable.is_set():
                self._flush()
                await self._writable.wait()
            if self.is_gone:
                raise ConnectionResetError("the peer is gone")
            try:
                room = min(self._h2.local_flow_control_window(stream), self._largest_frame())
                if view and room <= 0:
                    await self._wait_for_window()
                    continue
                part, view = view[:room], view[room:]
                self._sent_size += len(part)
                if part or ends:
                    self._h2.send_data(stream, bytes(part), end_stream=ends and not view)
                    self.sent()
            except h2.exceptions.ProtocolError as exc:
                raise ConnectionResetError("the peer no longer wants it") from exc
            if not view or len(data) - len(view) > flushed + LOW_WATER:
                self._flush()
                flushed = len(data) - len(view)
            if not view:
                return

    def _largest_frame(self) -> int:
        """The size of the next frame.  A partial frame is useless, so a socket that may be short-lived begins with
        small ones.
        """
        return FIRST_FRAMES if self._sent_size < BEGINNING else self._h2.max_outbound_frame_size

    async def _wait_for_window(self) -> None:
        self._flush()
        self._windows.clear()
        await self._windows.wait()

    def acknowledge(self, stream: int, size: int) -> None:
        """Let the peer send more, since `size` bytes of a stream were taken."""
        if size and not self.is_gone:
            try:
                self._h2.acknowledge_received_data(size, stream)
            except h2.exceptions.ProtocolError:
                return
            self._flush()

    def reset(self, stream: int) -> None:
        """End a stream, even while data is on its way."""
        if not self.is_gone:
            try:
                self._h2.reset_stream(stream, 8)  # CANCEL
            except h2.exceptions.ProtocolError:
                return
            self._flush()

    def _flush(self) -> None:
        if (data := self._h2.data_to_send()) and not self.transport.is_closing():
            self.transport.write(data)
            if self.transport.get_write_buffer_size() > MAX_UNREAD:
                self.transport.abort()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True
        self._writable.set()
        self._windows.set()
        self.lose(exc or ConnectionResetError("it hung up"))
