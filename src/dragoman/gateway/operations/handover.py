"""One process takes over from another: its listening socket, its lock on the state, then its clients.

The new process asks at the admin socket.  It gets the listening socket and the lock of the state, and reports when
it serves; only then does the old one stop accepting.  After a failure before that, the old one continues unchanged.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ...errors import Error
from ..log.database import LAYOUT
from .admin import REFUSAL, SOCKET, AdminRequest, GatewayNotRunning

START = 60.0  # seconds in which the new process has to serve
READY = b"ready\n"
MAX_LINE = 4096


class Handover(Struct):
    """What a process gives to its successor: descriptors, and a function to call once that serves."""

    descriptors: Callable[[], Sequence[int]]  # the listening socket, the lock
    leave: Callable[[], None]


class _Given(Struct):
    layout: int


async def hand_over(
    handover: Handover, request: AdminRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> str | None:
    """Hand over to another process, and leave once it serves; returns a sentence if that is impossible."""
    if request.layout != LAYOUT:
        return (
            f"the state has layout {LAYOUT} and the new process writes layout {request.layout}: "
            "stop this gateway, then start the new one"
        )
    with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as line:
        socket.send_fds(line, [msgspec.json.encode(_Given(LAYOUT)) + b"\n"], list(handover.descriptors()))
    async with asyncio.timeout(START):
        if await reader.readline() != READY:
            return None  # it did not start; this process continues
    handover.leave()
    return None


class Predecessor:
    """The previous process, for its successor; raises Error if there is none."""

    def __init__(self, directory: Path) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.settimeout(START)
        try:
            self._line.connect(str(directory / SOCKET))
            self._line.sendall(msgspec.json.encode(AdminRequest("handover", layout=LAYOUT)) + b"\n")
            data, descriptors, _, _ = socket.recv_fds(self._line, MAX_LINE, 2)
        except OSError as exc:
            self._line.close()
            why = exc.strerror or exc
            raise GatewayNotRunning(f"no gateway in {directory} can be taken over: {why}") from None
        if len(descriptors) != 2:
            self._line.close()
            told = msgspec.json.decode(data)["error"] if data.startswith(REFUSAL) else "it gave no sockets"
            raise Error(f"the gateway in {directory} cannot be taken over: {told}")
        self.listener = socket.socket(fileno=descriptors[0])
        self.lock = descriptors[1]

    def tell_ready(self) -> None:
        """Let the other process stop accepting, finish its turns and end."""
        self._line.sendall(READY)
        self._line.close()

    def close(self) -> None:
        """Let the other process continue, unless it was told to leave already."""
        self._line.close()
