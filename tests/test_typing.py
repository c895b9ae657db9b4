"""A type checker knows what users of the public API get, and sees what they misspell."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

pytest.importorskip("mypy")

# Each line that ends with `# ->` reveals that type; each that ends with `# !` is an error with that word.
USES = """
import msgspec

from dragoman import Agent, Client, Turn, connect
from dragoman.host import Host
from dragoman.testing import Echo, RecordingClient
from dragoman.transports.remote.server.asgi import endpoint


class Pong(msgspec.Struct):
    n: int


class Mine(Agent):
    async def answer(self, turn: Turn) -> None:
        reveal_type(turn.client.offers)  # -> ClientCapabilities
        reveal_type(turn.client.offers.fs.read_text_file)  # -> bool
        reveal_type(await turn.client.request("_x", {"n": 1}, Pong))  # -> Pong
        turn.client.offers.load_session  # ! load_session


async def main() -> None:
    async with connect(Echo, Host(audit=False), start_timeout=5.0) as host:
        reveal_type(host)  # -> Host
    async with connect("an-agent", cwd="/") as plain:
        reveal_type(plain)  # -> Client
    connect(Echo, Host(), start_timout=5.0)  # ! No overload
    connect(Echo, Host)  # ! No overload
    client = RecordingClient()
    async with connect(Echo, client):
        reveal_type(client.agent.offers)  # -> AgentCapabilities
        reveal_type(await client.agent.request("_x", {"n": 1}, Pong))  # -> Pong
        reveal_type(await client.agent.request("_x", result=list[int]))  # -> list[int]
        reveal_type(await client.agent.request("_x", None, Pong | None))  # -> Any
        reveal_type(await client.agent.request("_x"))  # -> Any
        (await client.agent.request("_x", {}, Pong)).m  # ! "m"
        client.agent.offers.fs  # ! fs
        client.requests[0].pth  # ! pth


reveal_type(endpoint(Mine, origins=["https://example.com"], grace=5.0))  # -> Endpoint
endpoint(Mine, admitt=None)  # ! admitt
endpoint(Mine, grace="long")  # ! grace
"""


def test_a_strict_type_checker_knows_the_types_of_the_public_api(tmp_path: Path) -> None:
    (tmp_path / "uses.py").write_text(USES)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "uses.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    told: dict[int, str] = {}
    for number, what in re.findall(
        r"^uses\.py:(\d+): ((?:note: Revealed|error: ).*)$", checked.stdout, re.MULTILINE
    ):
        told[int(number)] = told.get(int(number), "") + what.replace("builtins.", "")
    expected = dict(enumerate(USES.splitlines(), 1))
    marked = {number: line for number, line in expected.items() if "# ->" in line or "# !" in line}
    assert told.keys() == marked.keys(), checked.stdout
    for number, line in marked.items():
        if "# ->" in line:
            assert re.search(rf'"([\w.]+\.)?{re.escape(line.partition("# -> ")[2])}"$', told[number]), told[number]
        else:
            assert told[number].startswith("error: ") and line.partition("# ! ")[2] in told[number], told[number]
