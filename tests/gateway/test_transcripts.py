"""Direct and hosted, the same conversation is the same transcript, up to ids: design rule of the gateway."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from .transcripts import AGENTS, ATOMS, WIRES, transcript

pytestmark = pytest.mark.usefixtures("nothing_left")

NONE, ALL = (), tuple(ATOMS)
EDGES = [NONE, ALL, *((atom,) for atom in ATOMS), *(tuple(a for a in ATOMS if a != atom) for atom in ATOMS)]
SUBSETS = [subset for size in range(len(ATOMS) + 1) for subset in itertools.combinations(ATOMS, size)]


async def alike(agent: str, atoms: Sequence[str], directory: Path, wire: str) -> None:
    direct = await transcript(agent, atoms, directory / "direct")
    through = await transcript(agent, atoms, directory / "hosted", wire)
    assert through == direct


@pytest.fixture(autouse=True)
def a_home_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


@pytest.mark.parametrize("atoms", EDGES, ids="+".join)
async def test_a_client_is_sent_the_same_through_a_gateway(tmp_path: Path, atoms: Sequence[str]) -> None:
    await alike("testy", atoms, tmp_path, "websocket")


@pytest.mark.parametrize("atoms", [NONE, ALL, ("read", "write"), ("terminal",)], ids="+".join)
@pytest.mark.parametrize("agent", [name for name in AGENTS if name != "testy"])
async def test_ready_agents_say_the_same_through_a_gateway(tmp_path: Path, agent: str, atoms: Any) -> None:
    await alike(agent, atoms, tmp_path, "websocket")


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("wire", WIRES[1:])
async def test_every_wire_of_a_gateway_carries_the_same(tmp_path: Path, agent: str, wire: str) -> None:
    await alike(agent, ALL, tmp_path, wire)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("agent", AGENTS)
async def test_every_subset_of_capabilities_is_sent_the_same(tmp_path: Path, agent: str, wire: str) -> None:
    for number, atoms in enumerate(SUBSETS if agent == "testy" else SUBSETS[::16]):
        await alike(agent, atoms, tmp_path / str(number), wire)
