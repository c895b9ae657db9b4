"""What commands and agents in sandboxes, and an agent outside, can do; docs/concepts/security.md has the table."""

import asyncio
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from ordinary import run_as_ordinary_user
from patience import PATIENCE

from dragoman.gateway.access.checks import Checks
from dragoman.gateway.agents.environment import environment
from dragoman.host.processes import Launch
from dragoman.host.terminals import Sandbox, Terminals, execution

from .house import Watcher, hosting
from .test_isolation import OWNER, PROBE, run

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="the system has no Python"),
]
PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "security.md"
COLUMNS = ("a command in a sandbox", "an isolated agent", "an agent in a sandbox", "an agent outside")
# Each attempt is an expression of a program that runs in each of these places; it succeeds, or raises.
ATTEMPTS = {
    "read its workspace": 'open("file").read()',
    "read another person's workspace": 'open(told["other"] + "/file").read()',
    "read files of the host's user": 'open(told["secret"]).read()',
    "see the host's processes": 'open("/proc/%d/cmdline" % told["host"]).read()',
    "see the gateway's variables": 'os.environ["DRAGOMAN_TEST_SECRET"]',
    "write its workspace": 'open("new", "w").write("x")',
    "write `.git/config`": 'open(".git/config", "a").write("\\n")',
    "write another person's workspace": 'open(told["other"] + "/new", "w").write("x")',
    "write files of the host's user": 'open(told["secret"], "r+").write("x")',
    "run programs of the system": 'subprocess.run(["/usr/bin/env", "true"], check=True)',
    "signal the host's processes": 'os.kill(told["host"], 0)',
    "trace another process": "1 / (libc.ptrace(0, 0, 0, 0) == 0)",
    "reach the host's loopback": "connect(socket.AF_INET, tuple(told['address']))",
    "reach the host's abstract sockets": "connect(socket.AF_UNIX, chr(0) + told['name'])",
}
PROGRAM = f"""
import ctypes, json, os, socket, subprocess, sys
libc = ctypes.CDLL(None)
told = json.loads(sys.argv[1])
def connect(family, address):
    with socket.socket(family) as wire:
        wire.settimeout(10)
        wire.connect(address)
done = dict()
for name, attempt in json.loads({json.dumps(json.dumps(ATTEMPTS))}).items():
    child = os.fork()
    if child == 0:
        try:
            eval(attempt)
        except BaseException:
            os._exit(1)
        os._exit(0)
    done[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
if os.fork() == 0:
    os.setsid()
    alive = os.open("alive", os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.write(alive, str(os.getpid()).encode())
    import time
    time.sleep(1000)
print("<<" + json.dumps(done) + ">>")
"""


class Scene:
    """A workspace with everything to try for around it."""

    def __init__(self, directory: Path, name: str) -> None:
        self.workspace = directory / name
        self.other, self.secret = directory / "other", directory / "secret"
        for place in (self.workspace, self.other):
            (place / ".git").mkdir(parents=True)
            (place / ".git" / "config").touch()
            (place / "file").write_text("content")
        os.mkfifo(self.workspace / "alive", 0o666)
        (self.workspace / "try.py").write_text(PROGRAM)
        self.secret.write_text("secret")
        for path in (self.workspace, *self.workspace.rglob("*")):
            if os.geteuid() == 0:
                os.chown(path, *OWNER)
        self._alive = os.open(self.workspace / "alive", os.O_RDONLY | os.O_NONBLOCK)

    @asynccontextmanager
    async def command(self) -> AsyncIterator[str]:
        name = f"dragoman-{secrets.token_hex(8)}"
        with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_UNIX) as abstract:
            abstract.bind(f"\0{name}")
            abstract.listen()
            told = {"other": str(self.other), "secret": str(self.secret), "host": os.getpid(), "name": name}
            told |= {"address": listening.getsockname()}
            yield f"/usr/bin/python3 try.py '{json.dumps(told)}'"

    async def outlived(self) -> bool:
        """Whether what it left behind still runs; that is ended."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    said = os.read(self._alive, 100)
                except BlockingIOError:
                    said = None
                if said:
                    pid = int(said)
                    continue
                if said == b"":
                    os.close(self._alive)
                    return False
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    await asyncio.sleep(0.01)
                    continue
                os.close(self._alive)
                return True


def done(printed: str) -> dict[str, bool]:
    found: dict[str, bool] = json.loads(printed.replace('\\"', '"').split("<<")[1].split(">>")[0])
    return found


async def in_a_sandbox(directory: Path) -> dict[str, bool]:
    scene = Scene(directory, "sandboxed")
    async with Terminals(sandbox=Sandbox()) as terminals, scene.command() as command:
        terminal = await terminals.create("s", execution(command, cwd=str(scene.workspace)))
        async with asyncio.timeout(PATIENCE):
            await terminal.wait()
        told = done(terminal.output().output)
    return told | {"outlive its end": await scene.outlived()}


async def in_isolation(directory: Path) -> dict[str, bool]:
    scene = Scene(directory, "work/ann")
    checks = Checks(workspace=str(directory / "work" / "{principal}"))
    agent = ["/usr/bin/python3", "-c", PROBE]
    hosted = {"isolated": True, "env": environment(Launch(command=agent[0], args=agent[1:]))}
    async with (
        scene.command() as command,
        hosting(directory / "state", agent, hosted=hosted, checks=checks) as house,
        house.visit("ann", Watcher()) as ann,
    ):
        told = done(await run(ann, await ann.new_session(scene.workspace), command))
    return told | {"outlive its end": await scene.outlived()}


async def in_an_agent_s_sandbox(directory: Path) -> dict[str, bool]:
    scene = Scene(directory, "walled")
    async with scene.command() as command:
        agent = shlex.join(["/usr/bin/python3", "-c", PROBE])
        ran = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "dragoman", "run", "--sandbox=agent", "--agent", agent, command],
            cwd=scene.workspace,
            capture_output=True,
            text=True,
            check=True,
        )
    return done(ran.stdout) | {"outlive its end": await scene.outlived()}


async def outside(directory: Path) -> dict[str, bool]:
    """An agent's process as `dragoman run` starts it: a child that has all rights of its user."""
    scene = Scene(directory, "outside")
    async with scene.command() as command:
        ran = await asyncio.to_thread(
            subprocess.run, ["sh", "-c", command], cwd=scene.workspace, capture_output=True, text=True, check=True
        )
    return done(ran.stdout) | {"outlive its end": await scene.outlived()}


def table(*columns: dict[str, bool]) -> str:
    rows = [f"| it can | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(columns)}"]
    names = [*ATTEMPTS, "outlive its end"]
    rows += [f"| {name} | {' | '.join('yes' if each[name] else 'no' for each in columns)} |" for name in names]
    return "\n".join(rows)


async def test_the_table_of_the_security_page_is_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_TEST_SECRET", "secret")
    ways = (in_a_sandbox, in_isolation, in_an_agent_s_sandbox, outside)
    columns = [await way(tmp_path / str(number)) for number, way in enumerate(ways)]
    found = table(*columns)
    assert found in PAGE.read_text(), f"docs/concepts/security.md has to have this table:\n{found}"


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests above were an ordinary user's")
def test_the_table_is_what_happens_to_an_ordinary_user_too() -> None:
    run_as_ordinary_user(__file__, "-k", "security_page")
