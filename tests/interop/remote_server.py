"""A server in a process of its own, on a foreign ASGI server, for a module's tests to share."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SERVER = Path(__file__).parent / "peers" / "asgi_server.py"
START = 90.0  # seconds; on a busy machine two servers took 26

pytest.importorskip("hypercorn")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")


@contextmanager
def asgi_server(kind: str, server: str) -> Iterator[int]:
    """Start it; gives its port on 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen([sys.executable, str(SERVER), kind, server, str(port)]) as process:
        try:
            _wait_for(port, process)
            yield port
        finally:
            process.kill()


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert process.poll() is None and time.monotonic() < deadline, "the server does not start"
        time.sleep(0.02)  # a port tells nobody when it opens
