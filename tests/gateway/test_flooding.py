"""What is let in, written down and waited for stays within bounds, whatever comes: of a gateway as a process."""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import connect

from .house import Watcher
from .test_commands import DRAGOMAN

pytestmark = pytest.mark.usefixtures("nothing_left")

NOISY = """
import sys, json
def say(message): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n"); sys.stdout.flush()
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        say({"id": asked["id"], "result": {"protocolVersion": 1}})
    elif asked["method"] == "session/new":
        for number in range(30_000):
            sys.stdout.write(f"noise {number} " + "x" * 1000 + "\\n")
        say({"id": asked["id"], "result": {"sessionId": "s"}})
"""


async def started(state: Path, agent: str, *options: str) -> asyncio.subprocess.Process:
    command = [*DRAGOMAN, "serve", "--agent", agent, "--listen", "127.0.0.1:0", "--state", str(state)]
    return await asyncio.create_subprocess_exec(
        *command,
        *("--workspace", str(state.parent), "--log", "json", *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )


async def said_by(process: asyncio.subprocess.Process) -> str:
    assert process.stdout
    async with asyncio.timeout(PATIENCE):
        return (await process.stdout.readline()).decode().strip()


def token_of(state: Path) -> dict[str, str]:
    return {"Authorization": f"Bearer {(state / 'local.token').read_text()}"}


async def test_an_agent_that_floods_its_stdout_fills_no_log(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    state = tmp_path / "state"
    process = await started(state, f"noisy={sys.executable} {tmp_path / 'noisy.py'}")
    ending = asyncio.ensure_future(read_all(process))
    url = await said_by(process)
    async with connect(url, Watcher(), headers=token_of(state)) as client:
        await client.new_session(tmp_path)
    process.send_signal(signal.SIGTERM)
    log = await asyncio.wait_for(ending, PATIENCE)
    lines = [json.loads(line) for line in log.splitlines()]
    assert len(log) < 200_000  # of 30 MB
    assert any("more lines like this within a minute" in line["message"] for line in lines)


async def read_all(process: asyncio.subprocess.Process) -> bytes:
    assert process.stderr
    found = await process.stderr.read()
    await process.wait()
    return found


async def test_the_second_signal_ends_a_gateway_that_drains(tmp_path: Path) -> None:
    state = tmp_path / "state"
    process = await started(state, "testy", "--drain", "600")
    url = await said_by(process)
    async with connect(url, Watcher(), headers=token_of(state)) as client:
        session = await client.new_session(tmp_path)
        asking = asyncio.create_task(session.prompt("wait"))
        await client.until(lambda: client.told.get(session.id))
        process.send_signal(signal.SIGTERM)
        assert process.stderr
        async with asyncio.timeout(PATIENCE):
            while b"nothing new is taken" not in await process.stderr.readline():
                pass
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 128 + signal.SIGINT
        await process.communicate()
        asking.cancel()
        await asyncio.wait([asking])


@pytest.mark.skipif(os.getuid() != 0, reason="to be process 1 of a namespace takes root")
async def test_as_process_1_it_waits_for_what_agents_leave_behind(tmp_path: Path) -> None:
    (tmp_path / "littering.py").write_text(LITTERING)
    state = tmp_path / "state"
    agent = f"littering={sys.executable} {tmp_path / 'littering.py'}"
    command = [*DRAGOMAN, "serve", "--agent", agent, "--listen", "127.0.0.1:0", "--state", str(state)]
    process = await asyncio.create_subprocess_exec(
        *("unshare", "--fork", "--pid", "--mount-proc", "--kill-child", *command, "--workspace", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    url = await said_by(process)
    async with connect(url, Watcher(), headers=token_of(state)) as client:
        session = await client.new_session(tmp_path)
        async with asyncio.timeout(PATIENCE):
            await session.prompt("count")
        assert b"zombies: 0" in b"".join(client.told[session.id])
    process.kill()  # which unshare passes on; it heeds nothing else
    await process.communicate()


LITTERING = """
import os, subprocess, time
from dragoman import Agent, serve

def zombies():
    found = 0
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                found += file.read().rsplit(")", 1)[1].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found

class Littering(Agent):
    async def answer(self, turn):
        for _ in range(20):
            subprocess.run(["sh", "-c", "sleep 0.01 &"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        ends = time.monotonic() + 30
        while zombies() and time.monotonic() < ends:
            time.sleep(0.05)
        await turn.say(f"zombies: {zombies()}")

serve(Littering)
"""


async def test_sockets_without_a_token_take_no_descriptor_that_others_need(tmp_path: Path) -> None:
    state = tmp_path / "state"
    command = [*DRAGOMAN, "serve", "--agent", "testy", "--listen", "127.0.0.1:0", "--state", str(state)]
    words = shlex.join([*command, "--workspace", str(tmp_path), "--log", "json"])
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f"ulimit -n 128; exec {words}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    ending = asyncio.ensure_future(read_all(process))
    url = await said_by(process)
    port = int(url.rpartition(":")[2].partition("/")[0])
    async with connect(url, Watcher(), headers=token_of(state)) as client, contextlib.AsyncExitStack() as stack:
        session = await client.new_session(tmp_path)
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        async with asyncio.timeout(PATIENCE):
            assert (await session.prompt("hello")).stop_reason == "end_turn"
            assert (await client.new_session(tmp_path)).id
    process.send_signal(signal.SIGTERM)
    log = await asyncio.wait_for(ending, PATIENCE)
    lines = [json.loads(line) for line in log.splitlines()]
    assert len(log) < 20_000
    assert any("the limit descriptors is reached" in line["message"] for line in lines)
