"""The common part of both ends of a WebSocket: join frames into messages, and send frames."""

import asyncio
from collections.abc import Callable, Iterable

from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import SEND_EOF, Protocol


class Messages:
    """The messages on one socket; `hear_binary` is called with each binary message."""

    def __init__(self, protocol: Protocol, hear_binary: Callable[[bytes], None]) -> None:
        self._protocol, self._hear_binary = protocol, hear_binary
        self._begun: Opcode | None = None  # the kind of the incomplete message
        self._parts = bytearray()

    @property
    def held(self) -> int:
        """Bytes of the incomplete message."""
        return len(self._parts) + len(self._protocol.reader.buffer)

    def take(self, frames: Iterable[Frame]) -> list[bytes]:
        """The texts that frames complete; one that is not UTF-8 ends the connection."""
        texts: list[bytes] = []
        for frame in frames:
            if (whole := self._whole(frame)) is None:
                continue
            kind, data = whole
            if kind is Opcode.BINARY:
                self._hear_binary(data)
            elif _is_text(data):
                texts.append(data)
            else:
                self._protocol.fail(CloseCode.INVALID_DATA, "a text has to be UTF-8")
                break
        return texts

    def _whole(self, frame: Frame) -> tuple[Opcode, bytes] | None:
        if frame.opcode is Opcode.TEXT or frame.opcode is Opcode.BINARY:
            if frame.fin:
                return frame.opcode, bytes(frame.data)
            self._begun = frame.opcode
        elif frame.opcode is not Opcode.CONT:
            return None
        self._parts += frame.data
        if not frame.fin or self._begun is None:
            return None
        whole, self._parts = (self._begun, bytes(self._parts)), bytearray()
        return whole


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def write_out(protocol: Protocol, transport: asyncio.Transport) -> None:
    """Write the queued frames."""
    data = protocol.data_to_send()
    if data and not transport.is_closing():
        transport.write(b"".join(data))
        if data[-1] == SEND_EOF:
            transport.close()
