"""A wire that is held is not read from, and still sees its peer go; what the peer said before is heard first."""

import asyncio
import fcntl
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager

import pytest
from behaviour.loops import LOOPS
from patience import PATIENCE

from dragoman.framing import Oversize
from dragoman.transports import Transport
from dragoman.transports.process import spawn
from dragoman.transports.stdio import PIPE_SIZE, StdioTransport
from dragoman.transports.streams import streams

SAID = [b'{"n":%d,"text":"%s"}' % (n, b"y" * 8192) for n in range(16)]
LINES = b"".join(line + b"\n" for line in SAID)  # more than asyncio reads at once from a stream that is held
A_PIPEFUL = SAID[:7]  # what a process can say before anybody reads
SAYING = """
import os, sys
sys.stdin.readline()
os.write(1, b"".join(b'{"n":%d,"text":"%s"}\\n' % (n, b"y" * 8192) for n in range(7)))
"""

Opened = AbstractAsyncContextManager[tuple[Transport, Callable[[], object]]]  # a wire, and what makes its peer go


@asynccontextmanager
async def over_streams() -> AsyncIterator[tuple[Transport, Callable[[], object]]]:
    ours, theirs = socket.socketpair()
    yield (
        streams(*await asyncio.open_connection(sock=ours, limit=1024)),
        lambda: (theirs.sendall(LINES), theirs.close()),
    )


@asynccontextmanager
async def over_half_a_socket() -> AsyncIterator[tuple[Transport, Callable[[], object]]]:
    """The peer says that it will send no more, and goes on listening."""
    ours, theirs = socket.socketpair()
    with theirs:
        yield (
            streams(*await asyncio.open_connection(sock=ours, limit=1024)),
            lambda: (theirs.sendall(LINES), theirs.shutdown(socket.SHUT_WR)),
        )


@asynccontextmanager
async def over_a_socket_as_stdio() -> AsyncIterator[tuple[Transport, Callable[[], object]]]:
    ours, theirs = socket.socketpair()
    wire, fd = StdioTransport(), ours.detach()
    await wire.open(fd, os.dup(fd))
    yield wire, lambda: (theirs.sendall(LINES), theirs.close())


@asynccontextmanager
async def over_pipes() -> AsyncIterator[tuple[Transport, Callable[[], object]]]:
    """Only our stdin is closed, as editors do that wait for the agent to go."""
    (read, said), (kept, write) = os.pipe(), os.pipe()
    wire = StdioTransport()
    await wire.open(read, write)
    with os.fdopen(kept), os.fdopen(said, "wb") as saying:
        yield wire, lambda: (saying.write(LINES), saying.close())


@asynccontextmanager
async def piped() -> AsyncIterator[tuple[Transport, ExitStack, ExitStack]]:
    """Streams over two pipes, and what closes the end that the peer writes to, and the one that it reads from.

    The protocol for writing is that of most recipes, which does not know when its pipe is gone.
    """
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=1024)
    (read, said), (kept, write) = os.pipe(), os.pipe()
    fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    source, sink = os.fdopen(read, "rb", 0), os.fdopen(write, "wb", 0)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    writing = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sink)
    with ExitStack() as speaking, ExitStack() as listening:
        os.write(said, LINES)
        speaking.callback(os.close, said)
        listening.callback(os.close, kept)
        yield streams(reader, asyncio.StreamWriter(*writing, reader, loop)), speaking, listening
    reading.close()


@asynccontextmanager
async def over_piped_streams() -> AsyncIterator[tuple[Transport, Callable[[], object]]]:
    async with piped() as (wire, speaking, listening):
        yield wire, lambda: (speaking.close(), listening.close())


@asynccontextmanager
async def over_piped_streams_that_say_no_more() -> AsyncIterator[tuple[Transport, Callable[[], object]]]:
    async with piped() as (wire, speaking, _):
        yield wire, speaking.close


@asynccontextmanager
async def over_piped_streams_that_listen_no_more() -> AsyncIterator[tuple[Transport, Callable[[], object]]]:
    async with piped() as (wire, _, listening):
        yield wire, listening.close


@asynccontextmanager
async def over_a_process() -> AsyncIterator[tuple[Transport, Callable[[], object]]]:
    wire = await spawn([sys.executable, "-c", SAYING])
    yield wire, lambda: wire.send([b"go"])


@asynccontextmanager
async def over_the_streams_of_a_process() -> AsyncIterator[tuple[Transport, Callable[[], object]]]:
    """As `create_subprocess_exec` gives them; the process closes its input, and lives on.

    With uvloop nobody sees that: it keeps the other ends of these pipes open until the process has ended.
    """
    program = f"{SAYING}os.close(0)\nimport signal\nsignal.pause()"
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, **pipes)
    assert process.stdout and process.stdin
    wire = streams(process.stdout, process.stdin)
    try:
        yield wire, lambda: wire.send([b"go"])
    finally:
        process.kill()
        await process.wait()


OVER_PIPES = [
    over_piped_streams,
    over_piped_streams_that_say_no_more,
    over_piped_streams_that_listen_no_more,
]
OVER_THE_REST = [over_streams, over_half_a_socket, over_a_socket_as_stdio, over_pipes, over_a_process]


async def heard_by(opened: Callable[[], Opened], *, is_held: bool) -> list[bytes | Oversize]:
    """All that is heard of a peer until its end is told."""
    heard: list[bytes | Oversize] = []
    ended = asyncio.Event()
    async with opened() as (wire, go):
        try:
            wire.listen(heard.extend, ended.set)
            if is_held:
                wire.hold()
            go()
            async with asyncio.timeout(PATIENCE):
                await ended.wait()
        finally:
            await wire.close()
    return heard


def said(opened: Callable[[], Opened]) -> list[bytes]:
    return A_PIPEFUL if opened in (over_a_process, over_the_streams_of_a_process) else SAID


@pytest.mark.parametrize("opened", OVER_THE_REST)
async def test_a_wire_that_is_held_hears_its_peer_to_the_end_and_sees_it_go(opened: Callable[[], Opened]) -> None:
    assert await heard_by(opened, is_held=True) == said(opened)


@pytest.mark.parametrize(
    ("loop", "opened"),
    [
        *[(loop, opened) for loop in ("asyncio", "uvloop") for opened in OVER_PIPES],
        ("asyncio", over_the_streams_of_a_process),
    ],
)
@pytest.mark.parametrize("is_held", [True, False], ids=["held", "idle"])
def test_streams_over_two_pipes_see_either_of_them_end(
    is_held: bool, loop: str, opened: Callable[[], Opened]
) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        assert runner.run(heard_by(opened, is_held=is_held)) == said(opened)
