"""Gateways that share an engine, and what goes through the engine where there is only one."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import connect
from dragoman.errors import Overloaded
from dragoman.gateway.access.tokens import add_token
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.log.sqlite import SqliteEngine
from dragoman.gateway.serving import ServeOptions, serving

from .house import Watcher, hosting, stepping, until
from .nats_server import nats_server

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_viewers_are_told_of_what_is_durable_when_the_engine_says_that_the_log_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Callable[[], None]] | None = None
    listen = SqliteEngine.listen

    def listening(self: SqliteEngine, session: str, wake: Callable[[], None]) -> Callable[[], None]:
        return listen(self, session, lambda: wake() if held is None else held.append(wake))

    monkeypatch.setattr(SqliteEngine, "listen", listening)
    async with hosting(tmp_path) as house, house.visit() as ann, house.visit() as also:
        session = await ann.new_session(tmp_path)
        await also.load_session(session.id, tmp_path)
        engine = house.gateway.engine
        last, told = await engine.last(session.id), len(also.told[session.id])
        held = waking = []
        try:
            prompt = asyncio.ensure_future(session.prompt("echo hello"))
            await until(lambda: waking)
            assert await engine.last(session.id) > last
            assert not prompt.done() and len(also.told[session.id]) == told
        finally:
            held = None
            for wake in waking:
                wake()
        async with asyncio.timeout(PATIENCE):
            assert (await prompt).stop_reason == "end_turn"
        await also.until(lambda: b"hello" in b"".join(also.told.get(session.id, [])))


async def test_a_session_nobody_needs_at_one_gateway_is_opened_at_another_at_once(tmp_path: Path) -> None:
    agent = stepping()

    def options(name: str, url: str) -> ServeOptions:
        state = tmp_path / name
        state.mkdir()
        tokens[name] = add_token(state / "tokens.json", "ann", "ann")
        return ServeOptions(agents={"a": Hosted(target=agent)}, state=state, engine=url, workspace=str(tmp_path))

    tokens: dict[str, str] = {}

    def visit(name: str, url: str, client: Watcher) -> Any:
        return connect(url, client, headers={"Authorization": f"Bearer {tokens[name]}"})

    (tmp_path / "nats").mkdir()
    async with (
        nats_server(tmp_path / "nats") as nats,
        serving(options("one", nats), lambda: None) as (_, first),
        serving(options("two", nats), lambda: None) as (_, second),
        asyncio.timeout(PATIENCE),
    ):
        here, there = Watcher(), Watcher()
        async with visit("one", first, here), visit("two", second, there):
            session = await here.new_session(tmp_path)
            running = asyncio.ensure_future(session.prompt("one two"))
            agent.allowed.release()
            await here.until(lambda: b"one" in b"".join(here.told.get(session.id, [])))
            with pytest.raises(Overloaded, match="another gateway"):
                await there.load_session(session.id, tmp_path)  # it is needed where it is
            agent.allowed.release()
            await running
        again = Watcher()
        async with visit("two", second, again):
            await loaded_at_last(again, session.id, tmp_path)
            heard = here.told[session.id]
            assert [frame for frame in again.told[session.id] if frame in heard] == heard
            with pytest.raises(Overloaded, match="another gateway"):
                async with visit("one", first, Watcher()) as client:
                    await client.load_session(session.id, tmp_path)


async def loaded_at_last(client: Watcher, session: str, cwd: Path) -> None:
    """Load a session as soon as the gateway that has it knows that its client has gone."""
    while True:
        try:
            await client.load_session(session, cwd)
            return
        except Overloaded:
            await asyncio.sleep(0.01)
