"""A client of servers somebody else wrote: every prompt has its outcome, in bounded time and memory."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from skipped_time import skipped_time

from . import measured_client
from .foreign import listening
from .hostile_forms import FORMS, cases
from .hostile_servers import MIB, POSTS, SOCKETS, STREAMS

pytestmark = pytest.mark.usefixtures("nothing_left")

LIMIT = 10  # seconds for an outcome: those that client and server wait, and those that they compute
GUARD = 300  # seconds after which a process that has no outcome is ended, however busy the machine is
MOST = 64 * MIB  # bytes that any server may cost

HTTP = {name: case for name, *case in cases()}
ALL = {name: ("http", *case) for name, case in HTTP.items()}
ALL |= {f"WebSocket: {name}": ("ws", *case) for name, case in SOCKETS.items()}


@pytest.fixture(scope="module", autouse=True)
def client():
    """One process for all servers, as a client that lives long."""
    command = [sys.executable, str(Path(measured_client.__file__))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.stdin.close()
        assert process.wait(GUARD) == 0


async def check(client, serve, scheme, expected, says):
    async with listening(serve, scheme) as url:
        client.stdin.write(json.dumps({"url": url, "cancel": expected == "cancelled"}).encode() + b"\n")
        client.stdin.flush()
        timer = asyncio.get_running_loop().call_later(GUARD, client.kill)
        line = await asyncio.to_thread(client.stdout.readline)
        timer.cancel()
    assert line, f"no outcome in {GUARD} s"
    result = json.loads(line)
    assert (result["outcome"], result["said"]) == (expected, ["hello"] if says else [])
    assert result["bytes"] < MOST
    assert result["left"] == []


@pytest.mark.parametrize("name", HTTP)
async def test_a_prompt_has_an_outcome_whatever_a_server_of_http_does(client, name):
    make, expected, says = HTTP[name]
    await check(client, make(), "http", expected, says)


@pytest.mark.parametrize("name", SOCKETS)
async def test_a_prompt_has_an_outcome_whatever_a_websocket_does(client, name):
    make, expected, says = SOCKETS[name]
    await check(client, make(), "ws", expected, says)


@pytest.mark.parametrize("name", ALL)
async def test_a_prompt_has_its_outcome_within_ten_seconds(name):
    """By a clock that stands still while the machine is busy, and skips what client and server wait."""
    scheme, make, expected, says = ALL[name]
    computed = time.process_time()
    with skipped_time() as clock:
        began = clock.now
        async with listening(make(), scheme) as url:
            outcome = await measured_client.outcome_of_a_prompt(url, wants_cancel=expected == "cancelled")
        waited = clock.now - began
    assert outcome == (expected, ["hello"] if says else [])
    assert waited + time.process_time() - computed < LIMIT


async def test_there_are_sixty_of_them():
    assert len(POSTS) + len(STREAMS) + len(SOCKETS) >= 60
    for form in FORMS:
        assert sum(name.startswith(f"{form}: ") for name in HTTP) >= 30
