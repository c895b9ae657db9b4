"""The examples for reverse proxies and for systemd's sockets, run by the programs that they are for."""

import asyncio
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from patience import PATIENCE

from dragoman import Agent, connect

from .house import House, Watcher, hosting, until
from .test_deployment import DEPLOY, unit_command

pytestmark = pytest.mark.usefixtures("nothing_left")

GUIDE = DEPLOY.parents[1] / "docs" / "guide" / "hosting.md"
OURS = "127.0.0.1:8765"  # where the gateway is in the examples
LARGE = 6 * 1024 * 1024  # bytes of a prompt, more than most proxies let through unasked


class Waiting(Agent):
    """Says how long a prompt is, and waits until it may end."""

    may_end: asyncio.Event

    async def answer(self, turn: Any) -> None:
        await turn.say(f"{len(turn.text)} bytes")
        await self.may_end.wait()


def nginx(directory: Path, port: int, gateway: str) -> list[str]:
    (location,) = re.findall(r"^```nginx\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    places = "\n".join(
        f"{kind}_temp_path {directory / kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""  # the tests' directories are for nobody else
    file, location = directory / "nginx.conf", location.replace(OURS, gateway)
    file.write_text(
        f"daemon off; {user} pid {directory / 'pid'}; error_log stderr; events {{}}\n"
        f"http {{ access_log off; {places} server {{ listen 127.0.0.1:{port};\n{location}}} }}\n"
    )
    return ["nginx", "-c", str(file), "-p", str(directory)]


def caddy(directory: Path, port: int, gateway: str) -> list[str]:
    example = (DEPLOY / "Caddyfile").read_text().replace(OURS, gateway)
    file = directory / "Caddyfile"
    # Its own listener instead of the one with a certificate.
    options = "{\n\tadmin off\n\tauto_https off\n}\n"
    file.write_text(options + example.replace("agents.example.com {", f"http://127.0.0.1:{port} {{"))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(file)]


PROXIES: dict[str, Callable[[Path, int, str], list[str]]] = {"nginx": nginx, "caddy": caddy}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@asynccontextmanager
async def behind(name: str, house: House, directory: Path) -> AsyncIterator[int]:
    """A proxy in front of a gateway; gives its port."""
    port = free_port()
    house.web.guard.hosts |= {"127.0.0.1", f"127.0.0.1:{port}"}
    argv = PROXIES[name](directory, port, f"127.0.0.1:{house.server.port}")
    with (directory / "proxy.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*argv, stdout=log, stderr=log)
    try:
        await until(lambda: listens(port) or process.returncode is not None)
        assert process.returncode is None, (directory / "proxy.log").read_text()
        yield port
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.mark.parametrize("wire", ["ws", "http"])
@pytest.mark.parametrize("name", PROXIES)
async def test_the_example_lets_large_prompts_through_and_updates_as_they_come(
    tmp_path: Path, name: str, wire: str
) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    agent = type("WaitingHere", (Waiting,), {"may_end": asyncio.Event()})
    async with hosting(tmp_path, agent) as house, behind(name, house, tmp_path) as port:
        ann = Watcher()
        url = f"{wire}://127.0.0.1:{port}/acp"
        async with connect(url, ann, headers=house.headers("ann")), asyncio.timeout(PATIENCE):
            session = await ann.new_session(tmp_path)
            running = asyncio.ensure_future(session.prompt("x" * LARGE))
            await ann.until(lambda: f"{LARGE} bytes".encode() in b"".join(ann.told.get(session.id, [])))
            assert not running.done()  # the proxy did not wait for the end
            agent.may_end.set()  # type: ignore[attr-defined]
            assert (await running).stop_reason == "end_turn"


def test_the_file_for_traefik_leads_to_where_the_gateway_is_and_holds_nothing_back() -> None:
    file = yaml.safe_load((DEPLOY / "traefik.yml").read_text())["http"]
    (router,) = file["routers"].values()
    balancer = file["services"][router["service"]]["loadBalancer"]
    assert balancer["servers"] == [{"url": f"http://{OURS}"}]
    assert balancer["responseForwarding"]["flushInterval"].startswith("-")
    assert balancer.get("passHostHeader", True)


@pytest.mark.skipif(shutil.which("systemd-socket-activate") is None, reason="systemd is not installed")
async def test_the_socket_unit_holds_the_address_at_which_the_unit_s_command_listens(tmp_path: Path) -> None:
    (address,) = re.findall(r"^ListenStream=(.*)$", (DEPLOY / "dragoman-gateway.socket").read_text(), re.MULTILINE)
    here = f"127.0.0.1:{free_port()}"
    command = unit_command()
    assert address in command
    for place, instead in {"/var/lib/dragoman": str(tmp_path), address: here, "coder": "testy"}.items():
        command = [word.replace(place, instead) for word in command]
    (tmp_path / "work" / "local").mkdir(parents=True)
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *("systemd-socket-activate", "-l", here, sys.executable, "-m", "dragoman", *command),
            stdout=subprocess.DEVNULL,
            stderr=log,
        )
    try:
        port = int(here.rpartition(":")[2])
        await until(lambda: listens(port) or process.returncode is not None)  # which starts the gateway
        token = tmp_path / "gateway" / "local.token"
        await until(lambda: (token.exists() and token.read_text()) or process.returncode is not None)
        client = Watcher()
        headers = {"Authorization": f"Bearer {token.read_text()}"}
        async with connect(f"ws://{here}/acp", client, headers=headers), asyncio.timeout(PATIENCE):
            session = await client.new_session(tmp_path / "work" / "local")
            assert (await session.prompt("hello")).stop_reason == "end_turn"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    assert process.returncode == 0, (tmp_path / "log").read_text()
