"""`dragoman serve`, `dragoman connect` and `dragoman gateway`, as somebody types them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import connect

from .house import Watcher

pytestmark = pytest.mark.usefixtures("nothing_left")

DRAGOMAN = [sys.executable, "-m", "dragoman"]


@asynccontextmanager
async def served(state: Path, *options: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    process = await asyncio.create_subprocess_exec(
        *DRAGOMAN,
        *("serve", "--agent", "testy", "--listen", "127.0.0.1:0", "--state", str(state), "--log", "json"),
        *("--workspace", str(state.parent), *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout and process.stderr
    try:
        async with asyncio.timeout(PATIENCE):
            url = (await process.stdout.readline()).decode().strip()
        yield url, process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        _, log = await process.communicate()
        for line in log.splitlines():
            assert line.startswith(b"{"), log.decode()  # not a line of the log: a traceback, say
            assert json.loads(line)["level"] != "error", line


async def said(*arguments: str) -> str:
    """What a command prints; it has to succeed."""
    process = await asyncio.create_subprocess_exec(*DRAGOMAN, *arguments, stdout=subprocess.PIPE)
    async with asyncio.timeout(PATIENCE):
        output, _ = await process.communicate()
    assert process.returncode == 0, output
    return output.decode()


async def test_an_editor_reaches_a_remote_agent_through_stdio(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with served(state) as (url, process):
        watcher = Watcher()
        shim = [*DRAGOMAN, "connect", url, "--token-file", str(state / "local.token")]
        async with connect(shim, watcher), asyncio.timeout(PATIENCE):
            session = await watcher.new_session(tmp_path)
            assert (await session.prompt("hello from afar")).stop_reason == "end_turn"
            (line,) = (await said("gateway", "sessions", "--state", str(state))).splitlines()
            assert json.loads(line)["session"] == session.id
        assert "dragoman_turns_total" in await said("gateway", "metrics", "--state", str(state))
        await said("gateway", "drain", "--state", str(state))
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0


async def test_a_session_can_be_followed_from_its_gateway(tmp_path: Path) -> None:
    state = tmp_path / "state"
    further = ("--process-per", "session", "--detached", "60", "--drain", "1")
    async with served(state, *further) as (url, _):
        headers = {"Authorization": f"Bearer {(state / 'local.token').read_text()}"}
        watcher = Watcher()
        async with connect(url, watcher, headers=headers), asyncio.timeout(PATIENCE):
            session = await watcher.new_session(tmp_path)
            follower = await asyncio.create_subprocess_exec(
                *(*DRAGOMAN, "gateway", "attach", session.id, "--state", str(state)), stdout=subprocess.PIPE
            )
            assert follower.stdout
            await session.prompt("hello")
            while b"hello" not in (line := await follower.stdout.readline()):
                assert line
            follower.terminate()
            await follower.communicate()


async def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    where = ("--state", str(tmp_path))
    token = (await said("gateway", "tokens", "add", *where, "ann", "--days", "1")).strip()
    assert token.startswith("dgm_")
    assert token not in (tmp_path / "tokens.json").read_text()
    assert "ann\tann\tuse" in await said("gateway", "tokens", "list", *where)
    await said("gateway", "tokens", "revoke", *where, "ann")
    assert await said("gateway", "tokens", "list", *where) == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("serve", "--agent", "testy", "--listen", "0.0.0.0:0"), "--tls"),
        (("serve", "--agent", "testy", "--listen", "0.0.0.0:0", "--no-auth"), "only for this machine"),
        (("serve", "--agent", "x=", "--listen", "127.0.0.1:0"), "NAME=CMD"),
        (("serve", "--agent", "nobody-knows-it"), "no program 'nobody-knows-it' for the agent 'nobody-knows-it'"),
        (("serve", "--listen", "nowhere"), "HOST:PORT"),
        (("serve", "--workspace", "/no/such/place"), "'/no/such/place' is not a directory"),
        (("serve", "--host", ""), "'' is not a name"),
        (("serve", "--origin", "example.com"), "'example.com' is not an origin"),
        (("serve", "--mcp-command", "npx"), "'npx' is not a SHA-256"),
        (("serve", "--max-sessions", "0"), "'0' is not a whole number above 0"),
        (("serve", "--max-turn", "nan"), "'nan' is not a number of seconds"),
        (("serve", "--drain", "-1"), "'-1' is not a number of seconds"),
        (("serve", "--agent", "testy", "--listen", "127.0.0.1:0", "--tls", "no", "such"), "certificate"),
        (("connect", "ftp://example.com"), "no transport"),
        (("gateway", "sessions"), "is `dragoman serve` running?"),
        (("gateway", "tokens", "add", ""), "a token needs a name"),
        (("gateway", "tokens", "revoke", "nobody"), "no token file"),
    ],
)
async def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        *DRAGOMAN, *arguments, stderr=subprocess.PIPE, env={**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    )
    async with asyncio.timeout(PATIENCE):
        _, words = await process.communicate()
    assert process.returncode not in (0, None)
    assert complaint in words.decode() and len(words.splitlines()) == 1, words


async def test_no_token_of_ours_reaches_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_TOKEN", "dgm_of_somebody")
    from dragoman.gateway.agents.environment import environment
    from dragoman.host.processes import find_agent

    assert "dgm_of_somebody" not in environment(find_agent("echo")).values()
