"""A gateway's process is replaced by another, and nobody loses anything."""

import asyncio
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import connect
from dragoman.gateway.log.database import LAYOUT

from .handing_over import Street, replaced_under_load, street
from .test_commands import DRAGOMAN

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_sessions_stream_on_while_the_process_is_replaced_three_times(tmp_path: Path) -> None:
    async with asyncio.timeout(3 * PATIENCE):
        found = await replaced_under_load(tmp_path, clients=3, sessions=4, times=3)
    assert found.refused == 0
    assert len(found.processes) == 4 and found.prompts >= 48
    for number in range(4):
        log = (tmp_path / f"log-{number}").read_text()
        assert not re.search(r"^(ERROR|Traceback)", log, re.MULTILINE), log


async def test_a_process_that_cannot_start_leaves_the_one_before_as_it_was(tmp_path: Path) -> None:
    async with street(tmp_path) as found:
        before = await found.start()
        failed = await asyncio.create_subprocess_exec(
            *(*DRAGOMAN, "serve", "--agent", "testy", "--state", str(found.state), "--take-over"),
            *("--tls", "no", "such"),
            stderr=subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE):
            _, told = await failed.communicate()
        assert failed.returncode not in (0, None) and b"certificate" in told
        assert before.returncode is None
        found.is_over = True
        await found.stream(1)  # it still takes clients
        alone = await asyncio.create_subprocess_exec(
            *(*DRAGOMAN, "serve", "--agent", "testy", "--listen", "127.0.0.1:0", "--state", str(found.state)),
            stderr=subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE):
            _, told = await alone.communicate()
        assert b"--take-over" in told  # which a process that was not told to does not


async def test_a_version_with_another_layout_takes_nothing_over_and_is_started_after_the_old_one_stopped(
    tmp_path: Path,
) -> None:
    newer = [sys.executable, str(Path(__file__).with_name("newer_gateway.py"))]
    async with street(tmp_path) as found:
        found.is_over = True  # each client prompts once

        async def refused(program: list[str], *options: str) -> str:
            process = await asyncio.create_subprocess_exec(
                *(*program, "serve", "--agent", found.agent, "--state", str(found.state)),
                *("--listen", "127.0.0.1:0", "--workspace", str(found.work), *options),
                stderr=subprocess.PIPE,
            )
            async with asyncio.timeout(PATIENCE):
                _, told = await process.communicate()
            assert process.returncode not in (0, None)
            (line,) = told.decode().splitlines()
            return line

        before = await found.start()
        told = await refused(newer, "--take-over")
        assert f"layout {LAYOUT} and the new process writes layout {LAYOUT + 1}" in told
        await found.stream(1)  # the old one goes on
        assert before.returncode is None
        before.terminate()
        await before.wait()
        found.program = newer
        after = await found.start()
        await found.stream(1)
        assert await sessions_of(found) == 2  # with what was there before
        after.terminate()
        await after.wait()
        told = await refused(DRAGOMAN)
        assert f"has layout {LAYOUT + 1}, and this version knows layouts up to {LAYOUT}" in told


async def sessions_of(found: Street) -> int:
    headers = {"Authorization": f"Bearer {(found.state / 'local.token').read_text()}"}
    async with connect(found.url, headers=headers) as client:
        return len(await client.list_sessions())


async def test_systemd_keeps_the_socket_while_the_gateway_restarts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        script = (
            "import os, sys\n"
            "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1'}\n"
            f"os.dup2({listener.fileno()}, 3)\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'dragoman', *sys.argv[1:]])\n"
        )
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", script, "serve", "--agent", "testy", "--state", str(tmp_path / "state")),
            *("--listen", f"127.0.0.1:{port}", "--workspace", str(tmp_path)),
            pass_fds=[listener.fileno(), 3] if os.path.exists("/proc/self/fd/3") else [listener.fileno()],
            stdout=subprocess.PIPE,
        )
        assert process.stdout
        async with asyncio.timeout(PATIENCE):
            assert f":{port}/acp" in (await process.stdout.readline()).decode()
            process.terminate()
            await process.communicate()
        with socket.create_connection(("127.0.0.1", port), PATIENCE):
            pass  # it waits for the next process
