"""What an agent of `dragoman serve` sees of the gateway that hosts it, told by an agent that tries."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from ordinary import run_as_ordinary_user
from patience import PATIENCE

from dragoman import connect
from dragoman.gateway.access.tokens import add_token

from .house import Watcher

pytestmark = pytest.mark.usefixtures("nothing_left")
bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
THIEF = Path(__file__).with_name("thief.py")
AGENT = f"thief=/usr/bin/python3 {THIEF}"
DRAGOMAN = [sys.executable, "-m", "dragoman"]
SECRETS = {  # of the gateway's environment
    "DRAGOMAN_TOKEN": "dgm_canary",
    "NOTIFY_SOCKET": "@canary",
    "CREDENTIALS_DIRECTORY": "/canary",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=canary",
    "DRAGOMAN_OF_SOME_DAY": "canary",
    "LISTEN_FDNAMES": "canary",
    "MEMORY_PRESSURE_WATCH": "/canary",
    "FOR_CLIENTS": "Bearer dgm_of_canary",  # a token, whatever the variable is called
}
OF_GATEWAY = ("tokens.json", "local.token", "gateway.db", "admin.sock")


class Site:
    """A gateway started by its command, for Ann, whose agent tries to read what is Bob's and the gateway's."""

    def __init__(self, top: Path) -> None:
        self.state, self.work, self.log = top / "state", top / "work", top / "log"
        self.note = top / "note.txt"
        self.note.write_text("of nobody")
        for name in ("ann", "bob"):
            (self.work / name).mkdir(parents=True)
            (self.work / name / "note.txt").write_text(f"of {name}")
        self.state.mkdir(mode=0o700)
        (self.state / "local.token").write_text("dgm_canary")
        self._token = add_token(self.state / "tokens.json", "ann", "ann")

    @asynccontextmanager
    async def serving(self, *options: str, path: str = "", agent: str = AGENT) -> AsyncIterator[Watcher]:
        environ = {**os.environ, **SECRETS, "KEY": "of the agent", "WHERE": str(self.state)}
        environ |= {"PATH": path} if path else {}
        with self.log.open("wb") as log:
            gateway = await asyncio.create_subprocess_exec(
                *(*DRAGOMAN, "serve", "--agent", agent, "--listen", "127.0.0.1:0", "--state", str(self.state)),
                *("--workspace", f"{self.work}/{{principal}}", "--permissions", "allow-all", *options),
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.note.parent,
                env=environ,
            )
        assert gateway.stdout
        try:
            async with asyncio.timeout(2 * PATIENCE):
                url = (await gateway.stdout.readline()).decode().strip()
                assert url, self.log.read_text()
                ann = Watcher()
                async with connect(url, ann, headers={"Authorization": f"Bearer {self._token}"}):
                    yield ann
        finally:
            gateway.terminate()
            await gateway.communicate()


async def told(ann: Watcher, cwd: Path, command: str) -> str:
    """What a shell command gives, run by the agent itself and then by the gateway for the agent."""
    session = await ann.new_session(cwd)
    await session.prompt(json.dumps([["sh", command], ["call", "terminal/create", {"command": command}]]))
    (frame,) = ann.told[session.id]
    own, lent = json.loads(json.loads(frame)["params"]["update"]["content"]["text"])
    return f"{own}\n{lent.get('output', lent)}"


def reading(*paths: Path) -> str:
    return "; ".join(f"cat {path} 2>&1 || [ -S {path} ] && echo there" for path in paths)


@bubblewrap
async def test_an_agent_sees_nothing_of_its_gateway_by_default_and_its_own_world_as_it_is(tmp_path: Path) -> None:
    site = Site(tmp_path)
    async with site.serving() as ann:
        mine = site.work / "ann"
        hidden = [*(site.state / name for name in OF_GATEWAY), site.work / "bob" / "note.txt"]
        assert all(path.exists() for path in hidden)
        seen = await told(ann, mine, reading(*hidden))
        assert seen.count("No such file") == 2 * len(hidden), seen
        assert "of bob" not in seen and "there" not in seen
        assert "serve" not in await told(ann, mine, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        ours = f"cat {mine}/note.txt {site.note}; echo $KEY; echo new > {mine}/new; cat {mine}/new"
        its_own = await told(ann, mine, ours)
        for thing in ("of ann", "of nobody", "new"):
            assert its_own.count(thing) == 2, its_own
        assert "of the agent" in its_own  # what is set for agents reaches them
        assert (mine / "new").read_text() == "new\n"
        for place in (site.state, site.work):
            await told(ann, mine, f"umount {place}; umount -l {place}; unshare -rm umount -l {place}")
        again = await told(ann, mine, reading(*hidden))
        assert again.count("No such file") == 2 * len(hidden), again
    assert "WARNING" not in site.log.read_text()


CONNECT = "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{}'); print('let in')\" 2>&1"


@bubblewrap
@pytest.mark.parametrize("level", ["gateway", "off"])
async def test_an_agent_does_not_reach_the_unix_socket_at_which_it_would_be_the_gateway_s_own_user(
    tmp_path: Path, level: str
) -> None:
    site = Site(tmp_path)
    with tempfile.TemporaryDirectory(prefix="dragoman-") as top:  # a socket's path has to be short
        path = Path(top) / "acp.sock"
        async with site.serving(f"--isolate={level}", "--listen", f"unix:{path}") as ann:
            seen = await told(ann, site.work / "ann", CONNECT.format(path))
            assert path.is_socket()
    assert seen.count("let in") == (0 if level == "gateway" else 2), seen
    assert (f"can use {path} as the gateway's own user" in site.log.read_text()) == (level == "off")


@pytest.mark.parametrize("options", [("--isolate=gateway",), ("--isolate=off", "--pass-env", "NOTIFY_*")])
async def test_no_variable_of_the_gateway_reaches_an_agent(tmp_path: Path, options: tuple[str, ...]) -> None:
    site = Site(tmp_path)
    async with site.serving(*options) as ann:
        seen = await told(ann, site.work / "ann", "env")
    assert "PATH=" in seen
    assert "canary" not in seen and not any(f"{name}=" in seen for name in (*SECRETS, "WHERE"))
    assert ("KEY=of the agent" in seen) == (len(options) == 1)  # of the others those that are named


@pytest.mark.parametrize(("level", "why"), [("off", "--isolate=off"), ("gateway", "bubblewrap is not installed")])
async def test_where_agents_are_not_isolated_the_log_says_in_one_line_what_they_can_read(
    tmp_path: Path, level: str, why: str
) -> None:
    site, programs = Site(tmp_path), tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "cat"):
        (programs / name).symlink_to(f"/bin/{name}")
    of_others = (site.state / "tokens.json", site.work / "bob" / "note.txt")
    async with site.serving(f"--isolate={level}", path=str(programs)) as ann:
        seen = await told(ann, site.work / "ann", reading(*of_others))
    assert seen.count("of bob") == 2 and seen.count("principal") >= 2
    (line,) = [line for line in site.log.read_text().splitlines() if "WARNING" in line]
    assert why in line
    for thing in ("tokens", "database", "admin socket", str(site.state), "workspaces of all principals"):
        assert thing in line


STUBBORN = """#!/bin/sh
exec 3<&0
trap 'echo asked > "$1"; exit' TERM
/usr/bin/python3 "$2" <&3 &
wait
while :; do sleep 0.1; done
"""


@bubblewrap
async def test_an_agent_kept_from_its_gateway_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    site, ended, script = Site(tmp_path), tmp_path / "ended", tmp_path / "stubborn"
    script.write_text(STUBBORN)
    script.chmod(0o755)
    async with site.serving(agent=f"thief={script} {ended} {THIEF}") as ann:
        assert "asked" not in await told(ann, site.work / "ann", reading(ended))
    assert ended.read_text() == "asked\n"


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="this is run as an ordinary user")
def test_an_ordinary_user_s_gateway_hides_as_much() -> None:
    run_as_ordinary_user(__file__, "-k", "sees_nothing or no_variable")
