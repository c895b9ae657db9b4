"""An endpoint on a real uvicorn, alone and in a larger application: one address reaches it, one signal stops it."""

import asyncio
import contextlib
import itertools
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import ConnectionClosed, connect

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytestmark = pytest.mark.usefixtures("nothing_left")

# `larger` is as docs/guide/remote.md has it.
MODULE = """
from dragoman.testing import Testy
from dragoman.transports.remote.server.asgi import endpoint
from starlette.applications import Starlette
from starlette.routing import Route, WebSocketRoute

agents = endpoint(Testy)
routes = [route(path, agents) for route in (Route, WebSocketRoute) for path in ("/acp", "/acp/")]
larger = Starlette(routes=routes)
"""


@contextlib.contextmanager
def uvicorn(directory: Path, app: str) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """A server on a socket that listens already, so that nobody has to wait for it; gives it and its port."""
    (directory / "served.py").write_text(MODULE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fd = listener.fileno()
        command = [sys.executable, "-m", "uvicorn", f"served:{app}", "--fd", str(fd), "--log-level", "error"]
        with subprocess.Popen(command, cwd=directory, pass_fds=[fd]) as process:
            port = listener.getsockname()[1]
            listener.close()  # or whoever comes back after the stop waits at a door that nobody opens
            try:
                yield process, port
            finally:
                process.kill()


@pytest.mark.parametrize("app", ["agents", "larger"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_that_is_told_to_stop_ends_its_clients_and_exits(
    tmp_path: Path, app: str, number: signal.Signals
) -> None:
    async with asyncio.timeout(90), contextlib.AsyncExitStack() as stack:
        process, port = stack.enter_context(uvicorn(tmp_path, app))
        turns = []
        for scheme, path in itertools.product(("http", "ws"), ("/acp", "/acp/")):
            client = await stack.enter_async_context(connect(f"{scheme}://127.0.0.1:{port}{path}"))
            session = await client.new_session()
            assert (await session.prompt("echo hello")).stop_reason == "end_turn"
            turns.append(session.prompt("wait"))
            await anext(turns[-1])
        process.send_signal(number)
        for turn in turns:
            with pytest.raises(ConnectionClosed) as closed:
                await turn
            assert "could not be restored" not in str(closed.value)  # nobody tried to come back
        await asyncio.to_thread(process.wait, 60)
