"""Every test here runs over every transport there is: `connect` reaches an agent with a client, `speak` by hand."""

import asyncio
import contextlib
import functools
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import dragoman
from dragoman.agent import serve_on
from dragoman.testing import RecordingClient, Testy, raw
from dragoman.transports.asgi import endpoint
from dragoman.transports.http import dial_http
from dragoman.transports.memory import pipe
from dragoman.transports.server import listening
from dragoman.transports.translating import TranslatingTransport

TESTS = str(Path(__file__).parent.parent)
LIMIT = 10  # seconds for all that a test does with one connection


@asynccontextmanager
async def in_memory(app):
    yield app


@asynccontextmanager
async def over_stdio(app):
    module, name = app.__module__, app.__qualname__
    code = f"import sys; sys.path.append({TESTS!r}); from {module} import {name} as app"
    yield [sys.executable, "-c", f"{code}; from dragoman import serve; serve(app)"]


@asynccontextmanager
async def served(app):
    """A server of our own for an agent class, in this process but over real sockets."""
    agents = endpoint(app)
    async with listening(agents) as server:
        try:
            yield server
        finally:
            await agents.close()


@asynccontextmanager
async def over_websocket(app):
    async with served(app) as server:
        yield server.url(websocket=True)


@asynccontextmanager
async def over_http(app, version):
    async with served(app) as server:
        yield await dial_http(server.url(), version=version)


@asynccontextmanager
async def over_v2(app):
    """Client and agent are what they always are, and what goes over the wire between them is version 2."""
    ours, theirs = pipe()
    serving = asyncio.create_task(serve_on(app, theirs, dialect="v2"), name="agent")
    try:
        yield TranslatingTransport(ours, "agent", "v2")
    finally:
        await asyncio.gather(serving, return_exceptions=True)


# What makes an app reachable: given an agent class, a context manager that yields what `dragoman.connect` takes.
TRANSPORTS = {
    "memory": in_memory,
    "v2": over_v2,
    "stdio": over_stdio,
    "websocket": over_websocket,
    "http/1.1": functools.partial(over_http, version="1.1"),
    "http/2": functools.partial(over_http, version="2"),
}


@pytest.fixture(params=TRANSPORTS)
def transport(request):
    return request.param


@pytest.fixture
def reachable(transport):
    return TRANSPORTS[transport]


@pytest.fixture
def connect(reachable):
    """`async with connect(Agent, client) as client:`, over the transport under test, within the time limit."""

    @asynccontextmanager
    async def connecting(app=Testy, client=None):
        async with (
            asyncio.timeout(LIMIT),
            reachable(app) as target,
            dragoman.connect(target, client or RecordingClient()) as connected,
        ):
            yield connected

    return connecting


@pytest.fixture
def speak(reachable):
    """`async with speak(Agent) as wire:`, to speak by hand over the transport under test."""

    @asynccontextmanager
    async def speaking(app=Testy):
        async with asyncio.timeout(LIMIT), reachable(app) as target, raw(target) as wire:
            yield wire

    return speaking


@pytest.fixture(autouse=True)
async def nothing_is_left_behind():
    """No task, no file descriptor and no process outlives a test."""
    await asyncio.to_thread(int)  # so that the thread pool is there before we count
    descriptors = _descriptors()
    yield
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others, f"tasks left: {others}"
    left = {fd: target for fd, target in _descriptors().items() if fd not in descriptors}
    assert not left, f"descriptors left: {left}"
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)  # noqa: ASYNC222


def _descriptors():
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists them is gone by now
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return found
