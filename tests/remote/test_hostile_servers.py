"""A client of servers somebody else wrote: every prompt has its outcome, in bounded time and memory."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from . import measured_client
from .foreign import listening
from .hostile_forms import FORMS, cases
from .hostile_servers import MIB, POSTS, SOCKETS, STREAMS

pytestmark = pytest.mark.usefixtures("nothing_left")

LIMIT = 30  # seconds for an outcome, on a busy machine; less than a silent server is given
MOST = 64 * MIB  # bytes that any server may cost

HTTP = {name: case for name, *case in cases()}


@pytest.fixture(scope="module", autouse=True)
def client():
    """One process for all servers, as a client that lives long."""
    command = [sys.executable, str(Path(measured_client.__file__))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.stdin.close()
        assert process.wait(LIMIT) == 0


async def check(client, serve, scheme, expected, says):
    async with listening(serve, scheme) as url:
        client.stdin.write(json.dumps({"url": url, "cancel": expected == "cancelled"}).encode() + b"\n")
        client.stdin.flush()
        timer = asyncio.get_running_loop().call_later(LIMIT, client.kill)
        line = await asyncio.to_thread(client.stdout.readline)
        timer.cancel()
    assert line, f"no outcome in {LIMIT} s"
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


async def test_there_are_sixty_of_them():
    assert len(POSTS) + len(STREAMS) + len(SOCKETS) >= 60
    for form in FORMS:
        assert sum(name.startswith(f"{form}: ") for name in HTTP) >= 30
