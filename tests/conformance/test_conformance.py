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

from . import both  # noqa: F401 - fills the table
from .kit import Kit, verdicts
from .version1 import KitOfVersion1
from .version2 import KitOfVersion2

SHORT = {"a_turn_is_cancelled", "every_kind_is_shown"}  # what an agent of few words has no time or words for
NOTHING_SAVED = {"a_history_is_told_before_the_answer", "a_resumed_session_tells_no_history", "sessions_are_listed"}
PLAIN = {
    "sessions_are_deleted",
    "further_directories_are_taken",
    "modes_and_options_are_set",
    "options_are_complete",
}
NO_PROVIDERS = {"providers_are_listed_without_secrets"}
NO_QUESTIONS = {"questions_are_whole_and_waited_for"}
# What each agent may leave unshown, because it has no such thing.
AGENTS: dict[str, tuple[Any, set[str]]] = {
    "testy": (lambda home: Exhibition, set()),
    "echo": (lambda home: Echo, SHORT | NOTHING_SAVED | PLAIN | NO_PROVIDERS | NO_QUESTIONS),
    "reviewer": (lambda home: durable(Reviewer, home), SHORT | PLAIN | NO_PROVIDERS | NO_QUESTIONS),
    "coder": (
        lambda home: partial(durable(Coder, home), model=ScriptedModel(*["Hello."] * 40)),
        SHORT | NO_PROVIDERS | NO_QUESTIONS,
    ),
}


@contextlib.asynccontextmanager
async def reached(app: Any, way: str, directory: Path) -> AsyncIterator[RawWire]:
    """A wire to an agent; what translates does so between its version 1 and whatever is spoken."""
    if way == "gateway":
        async with hosting(directory, app) as house:
            wire = RawWire(await dial(house.url(), headers=house.headers("ann")))
            try:
                yield wire
            finally:
                await wire.hang_up()
        return
    ours, theirs = pipe()
    tasks = []
    if way == "translated":
        outer, inner = theirs, pipe()
        theirs = inner[1]
        joined = relay(TranslatingTransport(outer, "client"), TranslatingTransport(inner[0], "agent", "v1"))
        tasks.append(asyncio.create_task(joined))
    tasks.append(asyncio.create_task(serve_on(app, theirs, dialect="v1" if way == "translated" else None)))
    wire = RawWire(ours)
    try:
        yield wire
    finally:
        await wire.hang_up()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("way", ["direct", "translated", "gateway"])
@pytest.mark.parametrize("kind", [KitOfVersion1, KitOfVersion2])
@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_meets_every_requirement(
    name: str, kind: type[Kit], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))
    for name_of in ("work", "gateway"):
        (tmp_path / name_of).mkdir()
    made, may_lack = AGENTS[name]
    async with reached(made(str(tmp_path / "store")), way, tmp_path / "gateway") as wire:
        kit = kind(wire, str(tmp_path / "work"))
        await kit.greet()  # type: ignore[attr-defined]
        failed, not_shown = await verdicts(kit)
    assert not failed, "\n".join(failed.values())
    assert not_shown - may_lack == set()
