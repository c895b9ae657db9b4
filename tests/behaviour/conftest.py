"""Every test here runs over every transport there is: `connect` reaches an agent with a client, `speak` by hand."""

import asyncio
import contextlib
import functools
import os
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from gateway.house import hosting

import dragoman
from dragoman.agent.serving import serve_on
from dragoman.testing import RecordingClient, Testy, raw
from dragoman.transports.memory import pipe
from dragoman.transports.remote.client.http import dial_http
from dragoman.transports.remote.dialling import dial
from dragoman.transports.remote.server.asgi import endpoint
from dragoman.transports.remote.server.server import listening
from dragoman.transports.translating import TranslatingTransport

from .loops import LOOPS

TESTS = str(Path(__file__).parent.parent)
LIMIT = 60  # seconds for all that a test does with one connection


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
async def over_unix_socket(app):
    with tempfile.TemporaryDirectory() as directory:
        path, serving = f"{directory}/socket", []

        def serve_one(reader, writer):
            serving.append(asyncio.create_task(serve_on(app, dragoman.streams(reader, writer)), name="agent"))

        async with await asyncio.start_unix_server(serve_one, path):
            yield dragoman.streams(*await asyncio.open_unix_connection(path))
            await asyncio.gather(*serving)


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


@asynccontextmanager
async def through_gateway(app, wire, version=None):
    """The same agent, hosted by a gateway that has the client's own workspace lent to it."""
    with tempfile.TemporaryDirectory() as directory:
        async with hosting(Path(directory), app, hosted={"workspace": "client"}) as house:
            options = {"headers": house.headers("ann")}
            if wire == "websocket":
                yield await dial(house.url(), **options)
            else:
                yield await dial_http(house.url(wire="http"), version=version, **options)


# What makes an app reachable: given an agent class, a context manager that yields what `dragoman.connect` takes.
TRANSPORTS = {
    "memory": in_memory,
    "v2": over_v2,
    "stdio": over_stdio,
    "unix socket": over_unix_socket,
    "websocket": over_websocket,
    "http/1.1": functools.partial(over_http, version="1.1"),
    "http/2": functools.partial(over_http, version="2"),
    "gateway": functools.partial(through_gateway, wire="websocket"),
    "gateway http/1.1": functools.partial(through_gateway, wire="http", version="1.1"),
    "gateway http/2": functools.partial(through_gateway, wire="http", version="2"),
}


# What a gateway does in another way than the agent behind it, because its sessions are kept and shared.
NOT_THE_AGENTS_OWN = {
    "test_an_agent_that_only_answers_prompts_offers_nothing_else": "it adds load, list, resume, close and delete",
    "test_capabilities_are_markers_on_the_wire": "it adds load, list, resume, close and delete",
    "test_an_agent_answers_method_not_found_for_what_it_has_not": "it adds load and list",
    "test_a_session_is_given_its_directories_and_servers": "whoever runs it says which MCP servers may be started",
    "test_a_loaded_session_goes_on": "a session keeps the directory it was opened with",
    "test_prompts_do_not_pile_up_without_end": "its limits have an error of their own",
    "test_the_list_comes_in_pages_with_cursors": "its pages are larger",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Through a gateway: every test on one wire and one loop; on every other at full size."""
    items[:] = [item for item in items if not _is_hosted(item) or item.originalname not in NOT_THE_AGENTS_OWN]
    for item in items:
        if _is_hosted(item) and "asyncio-gateway]" not in item.name and "asyncio-gateway-" not in item.name:
            item.add_marker(pytest.mark.torture)


def _is_hosted(item):
    return "behaviour" in item.nodeid and getattr(item, "callspec", None) and "-gateway" in item.name


def pytest_asyncio_loop_factories(config, item):
    """Every test here runs on every kind of event loop."""
    return LOOPS


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
    await asyncio.to_thread(int)  # so that the thread pool is there before we count,
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0):
        pass  # and what uvloop keeps from its first server on
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
