"""Every agent that comes along meets every requirement of both versions: directly, translated, at the gateway."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from gateway.house import hosting

from dragoman.agent.serving import serve_on
from dragoman.coder import Coder, ScriptedModel
from dragoman.reviewer import Reviewer
from dragoman.store import durable
from dragoman.testing import Echo, Exhibition, RawWire
from dragoman.transports.memory import pipe
from dragoman.transports.relay import relay
from dragoman.transports.remote.dialling import dial
from dragoman.transports.translating import TranslatingTransport

from . import asking, envelope, lifecycle, optional, turns, updates, version2_updates  # noqa: F401 - they fill the table
from .kit import LIFECYCLE, OPTIONAL, REQUIREMENTS, SERVICES, TURN, Dial, Kit, verdicts
from .version1 import KitOfVersion1
from .version2 import KitOfVersion2

# What public kits know of each part, for each version.
KNOWN = {
    1: {LIFECYCLE: 21, TURN: 19, SERVICES: 12, OPTIONAL: 4},
    2: {LIFECYCLE: 19, TURN: 51, SERVICES: 20, OPTIONAL: 16},
}
LENDER = {"gateway": "client", "gateway with files": "host"}  # who lends an agent files and terminals there
LENT_BY_THE_HOST = {
    row.id for row in REQUIREMENTS if row.section in (asking.FILES, asking.TERMINALS) and 1 in row.versions
}


class Brisk(Exhibition):
    """Shows everything without a pause: what is cancelled here is a command that waits for that."""

    pause = 0.0


AGENTS: dict[str, Any] = {
    "testy": lambda home: Brisk,
    "echo": lambda home: Echo,
    "reviewer": lambda home: durable(Reviewer, home),
    "coder": lambda home: partial(durable(Coder, home), model=ScriptedModel(*["Hello."] * 200)),
}


@contextlib.asynccontextmanager
async def reached(app: Any, way: str, directory: Path) -> AsyncIterator[Dial]:
    """Wires to an agent; what translates does so between its version 1 and whatever is spoken."""
    async with contextlib.AsyncExitStack() as stack:
        if way in LENDER:
            house = await stack.enter_async_context(hosting(directory, app, hosted={"workspace": LENDER[way]}))

        async def dialled() -> RawWire:
            if way in LENDER:
                wire = RawWire(await dial(house.url(), headers=house.headers("ann")))
                stack.push_async_callback(wire.hang_up)
                return wire
            ours, theirs = pipe()
            tasks = []
            if way == "translated":
                outer, inner = theirs, pipe()
                theirs = inner[1]
                joined = relay(TranslatingTransport(outer, "client"), TranslatingTransport(inner[0], "agent", "v1"))
                tasks.append(asyncio.create_task(joined))
            tasks.append(asyncio.create_task(serve_on(app, theirs, dialect="v1" if way == "translated" else None)))
            stack.push_async_callback(asyncio.gather, *tasks)
            wire = RawWire(ours)
            stack.push_async_callback(wire.hang_up)
            return wire

        yield dialled


@pytest.mark.parametrize("way", ["direct", "translated", *LENDER])
@pytest.mark.parametrize("kind", [KitOfVersion1, KitOfVersion2])
@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_meets_every_requirement(
    name: str, kind: type[Kit], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    for name_of in ("work", "gateway"):
        (tmp_path / name_of).mkdir()
    failed: dict[str, str] = {}
    not_shown: set[str] = set()
    async with reached(AGENTS[name](str(tmp_path / "store")), way, tmp_path / "gateway") as dialled:
        for client in ("bare", "rich"):
            kit = kind(await dialled(), str(tmp_path / "work"), dialled, client)
            if name == "testy":
                kit.quick = {"type": "text", "text": "echo hello"}
                kit.slow = {"type": "text", "text": "wait"}
            await kit.greet()
            fails, lacks = await verdicts(kit)
            failed |= fails
            not_shown |= lacks
    assert not failed, "\n".join(failed.values())
    if name == "testy":
        assert not_shown == (LENT_BY_THE_HOST if LENDER.get(way) == "host" and kit.version == 1 else set())


@pytest.mark.parametrize("version", [1, 2])
def test_the_table_has_no_fewer_requirements_than_public_kits_know(version: int) -> None:
    rows = [row for row in REQUIREMENTS if version in row.versions]
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.says.endswith(".") and row.section for row in rows)
    for part, count in KNOWN[version].items():
        assert len([row for row in rows if row.part == part]) >= count, part
