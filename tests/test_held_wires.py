"""A wire that is held is not read from, and still sees its peer go; what the peer said before is heard first."""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable

import pytest

from dragoman.framing import Oversize
from dragoman.transports import Transport
from dragoman.transports.process import spawn
from dragoman.transports.stdio import StdioTransport
from dragoman.transports.streams import streams

PATIENCE = 60
SAID = [b'{"n":%d,"text":"%s"}' % (n, b"y" * 8192) for n in range(16)]
LINES = b"".join(line + b"\n" for line in SAID)  # more than asyncio reads at once from a stream that is held

HangUp = Callable[[], None]


async def over_streams() -> tuple[Transport, HangUp]:
    ours, theirs = socket.socketpair()
    wire = streams(*await asyncio.open_connection(sock=ours, limit=1024))
    return wire, lambda: (theirs.sendall(LINES), theirs.close())[1]


async def over_half_a_socket() -> tuple[Transport, HangUp]:
    """The peer says that it will send no more, and goes on listening."""
    ours, theirs = socket.socketpair()
    wire = streams(*await asyncio.open_connection(sock=ours, limit=1024))
    wire.theirs = theirs  # type: ignore[attr-defined]
    return wire, lambda: (theirs.sendall(LINES), theirs.shutdown(socket.SHUT_WR))[1]


async def over_a_socket_as_stdio() -> tuple[Transport, HangUp]:
    ours, theirs = socket.socketpair()
    wire = StdioTransport()
    fd = ours.detach()
    await wire.open(fd, os.dup(fd))
    return wire, lambda: (theirs.sendall(LINES), theirs.close())[1]


async def over_pipes() -> tuple[Transport, HangUp]:
    """Only our stdin is closed, as editors do that wait for the agent to go."""
    (read, said), (kept, write) = os.pipe(), os.pipe()
    wire = StdioTransport()
    await wire.open(read, write)
    wire.kept = kept  # type: ignore[attr-defined]

    def hang_up() -> None:
        with open(said, "wb") as end:
            end.write(LINES)

    return wire, hang_up


async def over_a_process() -> tuple[Transport, HangUp]:
    program = "import sys; sys.stdin.readline(); sys.stdout.buffer.write(bytes.fromhex(sys.argv[1]))"
    wire = await spawn([sys.executable, "-c", program, LINES.hex()[: 2 * len(SAID[0] + b"\n") * 7]])
    return wire, lambda: wire.send([b"go"])


@pytest.mark.parametrize(
    "opened", [over_streams, over_half_a_socket, over_a_socket_as_stdio, over_pipes, over_a_process]
)
async def test_a_wire_that_is_held_hears_its_peer_to_the_end_and_sees_it_go(
    opened: Callable[[], Awaitable[tuple[Transport, HangUp]]],
) -> None:
    wire, hang_up = await opened()
    heard: list[bytes | Oversize] = []
    ended = asyncio.Event()
    try:
        wire.listen(heard.extend, ended.set)
        wire.hold()
        hang_up()
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
    finally:
        await wire.close()
        if theirs := getattr(wire, "theirs", None):
            theirs.close()
        if kept := getattr(wire, "kept", None):
            os.close(kept)
    assert heard == SAID[: 7 if opened is over_a_process else None]
