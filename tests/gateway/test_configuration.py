"""`gateway.toml`: what a gateway takes from it, what it refuses, and what a hangup puts into force."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from patience import PATIENCE

from .test_commands import DRAGOMAN, said

pytestmark = pytest.mark.usefixtures("nothing_left")

FILE = """
agent = ["testy"]
listen = "127.0.0.1:0"
state = "{state}"
workspace = "{work}"
log_format = "json"
host = ["agents.example.com"]

[limits]
sessions_each = 7
"""


def written(directory: Path) -> Path:
    file = directory / "gateway.toml"
    file.write_text(FILE.format(state=directory / "state", work=directory))
    return file


def status(url: str, host: str) -> int:
    """What a request without a token gets under a name: 401, or 421 where the gateway does not know the name."""
    address = urlsplit(url)
    line = http.client.HTTPConnection(str(address.hostname), address.port, timeout=PATIENCE)
    try:
        line.request("GET", "/metrics", headers={"Host": host})
        return line.getresponse().status
    finally:
        line.close()


async def test_flags_override_the_file_and_a_shown_configuration_is_one(tmp_path: Path) -> None:
    file = written(tmp_path)
    shown = await said(
        "gateway", "config", "show", "--config", str(file), "--max-sessions", "9", "--limit", "queue=3"
    )
    assert f'listen = "127.0.0.1:0"  # {file}:3' in shown.splitlines()
    assert "sessions_each = 9  # --max-sessions" in shown.splitlines()
    assert "queue = 3  # --limit" in shown.splitlines()
    assert 'durability = "power"  # default' in shown.splitlines()
    again = tmp_path / "again.toml"
    again.write_text(shown)
    assert tomllib.loads(await said("gateway", "config", "show", "--config", str(again))) == tomllib.loads(shown)
    assert "good" in await said("gateway", "config", "check", str(again))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('workspce = "."', "gateway.toml:1: unknown key 'workspce'; did you mean 'workspace'?"),
        (
            "[limits]\n\nsesions = 4",
            "gateway.toml:3: unknown key 'limits.sesions'; did you mean 'limits.sessions'?",
        ),
        ("[limits]\nqueue = 0", "gateway.toml:2: limits.queue: '0' is not a whole number of at least 1"),
        ('access_log = "yes"', "gateway.toml:1: access_log: 'yes' is not true or false"),
        ('isolate = "yes"', "gateway.toml:1: isolate: there is no 'yes'; choose from: gateway, full, off"),
        ('durability = "powr"', "gateway.toml:1: durability: there is no 'powr'; did you mean 'power'?"),
        ('tls = ["cert.pem"]', "gateway.toml:1: tls: ['cert.pem'] is not a list: CERT, KEY"),
        ("agent = 4", "gateway.toml:1: agent: 4 is not a list of texts"),
        ("agent = [", "gateway.toml: "),
        ('agent = ["nobody-knows-it"]', "there is no program 'nobody-knows-it'"),
    ],
)
async def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, line: str, complaint: str) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(line + "\n")
    for command in (
        ("serve", "--listen", "127.0.0.1:0", "--config", "gateway.toml"),
        ("gateway", "config", "check", "gateway.toml"),
    ):
        process = await asyncio.create_subprocess_exec(
            *DRAGOMAN,
            *command,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        )
        async with asyncio.timeout(PATIENCE):
            _, words = await process.communicate()
        assert process.returncode not in (0, None)
        assert complaint in words.decode() and len(words.splitlines()) == 1, words


async def test_a_check_tells_everything_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text('lisen = "127.0.0.1:0"\ndrain = -1\n')
    process = await asyncio.create_subprocess_exec(
        *DRAGOMAN, "gateway", "config", "check", str(file), stderr=subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE):
        _, words = await process.communicate()
    assert [line.split(":")[2] for line in words.decode().splitlines()] == ["1", "2"]


async def test_a_hangup_reloads_what_can_be_and_names_what_needs_a_restart(tmp_path: Path) -> None:
    file = written(tmp_path)
    process = await asyncio.create_subprocess_exec(
        *DRAGOMAN, "serve", "--config", str(file), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr

    async def logged(words: str) -> dict[str, str]:
        assert process.stderr
        while words not in (line := await process.stderr.readline()).decode():
            assert line
        return dict(json.loads(line))

    try:
        async with asyncio.timeout(PATIENCE):
            url = (await process.stdout.readline()).decode().strip()
            assert await asyncio.to_thread(status, url, "agents.example.com") == 401
            changed = file.read_text().replace("agents.example.com", "new.example.com").replace("= 7", "= 8")
            file.write_text(changed.replace("[limits]", 'lend = "client"\n[limits]'))
            process.send_signal(signal.SIGHUP)
            assert "host, limits.sessions_each" in (await logged("configuration read again"))["message"]
            told = await logged("need a restart")
            assert told["message"].endswith(": lend") and told["level"] == "warning"
            assert await asyncio.to_thread(status, url, "agents.example.com") == 421
            assert await asyncio.to_thread(status, url, "new.example.com") == 401
            file.write_text("nonsense = 1\n")
            process.send_signal(signal.SIGHUP)
            assert "gateway.toml:1: unknown key 'nonsense'" in (await logged("nothing was reloaded"))["message"]
            assert await asyncio.to_thread(status, url, "new.example.com") == 401
            process.send_signal(signal.SIGTERM)
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
