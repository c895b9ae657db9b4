"""The examples to deploy a gateway with work as they stand; what fails to start leaves nothing, and says why."""

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import connect
from dragoman.errors import Error
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.serving import ServeOptions, serving
from dragoman.testing import Testy

from .certificates import Authority
from .house import Watcher
from .test_commands import DRAGOMAN, served

pytestmark = pytest.mark.usefixtures("nothing_left")

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
UNIT = DEPLOY / "dragoman-gateway.service"


def unit_command() -> list[str]:
    joined = UNIT.read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.*)$", joined, re.MULTILINE)
    return shlex.split(line)[1:]


def container_command() -> list[str]:
    joined = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    lines = [re.findall(rf"^{word} (\[.*\])$", joined, re.MULTILINE)[0] for word in ("ENTRYPOINT", "CMD")]
    return [word for line in lines for word in json.loads(line)][1:]


@contextlib.asynccontextmanager
async def started(command: list[str], **variables: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    process = await asyncio.create_subprocess_exec(
        *DRAGOMAN, *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, **variables}
    )
    assert process.stdout
    try:
        async with asyncio.timeout(PATIENCE):
            yield (await process.stdout.readline()).decode().strip(), process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


class Supervisor:
    """Hears what a service tells, as systemd does: at once, since a socket keeps few datagrams."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "notify")
        self._wire = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._wire.bind(self.path)
        self._wire.setblocking(False)
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._wire, self._read)

    def _read(self) -> None:
        self._heard.put_nowait(self._wire.recv(4096).decode())

    async def hear(self, wanted: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self._heard.get() != wanted:
                pass

    def close(self) -> None:
        self._loop.remove_reader(self._wire)
        self._wire.close()


async def test_the_unit_starts_a_gateway_that_tells_systemd_how_it_is_and_outlives_a_hangup(tmp_path: Path) -> None:
    places = {"/var/lib/dragoman": str(tmp_path), "127.0.0.1:8765": "127.0.0.1:0", "coder": "testy"}
    command = unit_command()
    for place, here in places.items():
        command = [word.replace(place, here) for word in command]
    with contextlib.closing(Supervisor(tmp_path)) as supervisor:
        async with started(command, NOTIFY_SOCKET=supervisor.path, WATCHDOG_USEC="200000") as (url, process):
            await supervisor.hear("READY=1")
            process.send_signal(signal.SIGHUP)
            await supervisor.hear("WATCHDOG=1")
            await supervisor.hear("WATCHDOG=1")
            token = (tmp_path / "gateway" / "local.token").read_text()
            async with connect(url, Watcher(), headers={"Authorization": f"Bearer {token}"}) as client:
                (tmp_path / "work" / "local").mkdir(parents=True, exist_ok=True)
                session = await client.new_session(tmp_path / "work" / "local")
                assert (await session.prompt("hello")).stop_reason == "end_turn"
            process.send_signal(signal.SIGTERM)
            await supervisor.hear("STOPPING=1")
            assert await process.wait() == 0


async def test_the_container_starts_with_an_empty_volume_and_makes_a_token(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    places = {"/state": f"{tmp_path}/state", "/work": f"{tmp_path}/work", "0.0.0.0:8765": "0.0.0.0:0"}
    files = dict(zip(("/tls/fullchain.pem", "/tls/privkey.pem"), authority.server, strict=True))
    (tmp_path / "state").mkdir()
    command = container_command()
    for place, here in {**places, **files}.items():
        command = [word.replace(place, here, 1) if word.startswith(place) else word for word in command]
    async with started(command) as (url, _):
        assert url.startswith("wss://")
        assert (tmp_path / "state" / "local.token").read_text().startswith("dgm_")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_is_little_exposed_and_has_limits() -> None:
    told = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)], capture_output=True, text=True
    )
    (level,) = re.findall(r"exposure level .*: ([0-9.]+)", told.stdout)
    assert float(level) <= 2
    assert "\nKillMode=mixed\n" in UNIT.read_text()  # SIGTERM to all would end the agents whose turns may finish
    for limit in ("MemoryMax", "TasksMax", "LimitNOFILE", "TimeoutStopSec", "WatchdogSec"):
        assert re.search(rf"^{limit}=.", UNIT.read_text(), re.MULTILINE), limit


def taken(tmp_path: Path, order: ServeOptions) -> Callable[[], None]:
    wire = socket.create_server(("127.0.0.1", 0))
    order.port = wire.getsockname()[1]
    return wire.close


def no_certificate(tmp_path: Path, order: ServeOptions) -> None:
    order.tls = ("no", "such")


def no_tokens(tmp_path: Path, order: ServeOptions) -> None:
    order.tokens = tmp_path / "missing.json"


def no_engine(tmp_path: Path, order: ServeOptions) -> None:
    order.host = "192.0.2.1"
    order.tls = Authority(tmp_path).server


@pytest.mark.parametrize("spoil", [taken, no_certificate, no_tokens, no_engine])
async def test_a_gateway_that_cannot_start_leaves_the_disk_as_it_was(
    spoil: Callable[..., object], tmp_path: Path
) -> None:
    for state, before in ((tmp_path / "a" / "b" / "state", None), (tmp_path / "there", {"notes"})):
        if before:
            state.mkdir()
            (state / "notes").write_text("mine")
        order = ServeOptions(agents={"testy": Hosted(target=Testy)}, state=state)
        undo = spoil(tmp_path, order)
        with pytest.raises(Error):
            async with serving(order, lambda: None):
                pass
        if callable(undo):
            undo()
        assert not (tmp_path / "a").exists()
        if before is not None:
            assert set(os.listdir(state)) == before


async def test_who_attaches_to_a_session_that_is_not_there_or_goes_is_told(tmp_path: Path) -> None:
    state = tmp_path / "state"

    async def attach(id: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(*DRAGOMAN, "gateway", "attach", id, "--state", str(state)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    async with served(state) as (url, _), asyncio.timeout(PATIENCE):
        unknown = await attach("sess_nobody")
        out, told = await unknown.communicate()
        assert (out, told.decode()) == (b"", "dragoman: there is no session 'sess_nobody'\n")
        assert unknown.returncode == 1
        headers = {"Authorization": f"Bearer {(state / 'local.token').read_text()}"}
        watcher = Watcher()
        async with connect(url, watcher, headers=headers):
            session = await watcher.new_session(tmp_path)
            await session.prompt("hello")
            follower = await attach(session.id)
            assert follower.stdout
            await follower.stdout.readline()
            await watcher.delete_session(session.id)
            _, told = await follower.communicate()
        assert "there is no session" in told.decode()
        assert follower.returncode == 1


async def test_a_gateway_that_stops_while_somebody_is_attached_logs_no_error(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with asyncio.timeout(PATIENCE):
        async with served(state) as (url, _):  # this looks at the log
            headers = {"Authorization": f"Bearer {(state / 'local.token').read_text()}"}
            watcher = Watcher()
            async with connect(url, watcher, headers=headers):
                session = await watcher.new_session(tmp_path)
                await session.prompt("hello")
                follower = await asyncio.create_subprocess_exec(
                    *(*DRAGOMAN, "gateway", "attach", session.id, "--state", str(state)), stdout=subprocess.PIPE
                )
                assert follower.stdout
                assert json.loads(await follower.stdout.readline())["sessionId"] == session.id
        await follower.communicate()
    assert follower.returncode == 0
