"""Who may no longer decide, or is no longer there, decides and is told nothing; who never reads is sent away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import Agent

from .house import House, Watcher, hosting, until
from .test_company import share

pytestmark = pytest.mark.usefixtures("nothing_left")


class Noting(Agent):
    """`flood` says much; `note N` says a word, and N times something that is no update."""

    async def answer(self, turn: Any) -> None:
        verb, _, count = turn.text.splitlines()[-1].partition(" ")
        if verb == "flood":
            for _ in range(300):
                await turn.say("x" * 8000)
            return
        await turn.say("noting")
        for number in range(int(count)):
            turn.client.notify("_noting/note", {"sessionId": turn.session.id, "number": number})


async def test_an_answer_of_somebody_who_may_no_longer_decide_decides_nothing(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann, house.bare("bob") as bob:
        session = await ann.new_session(tmp_path)
        await share(ann, session.id, "editor")
        await bob.ask("session/load", {"sessionId": session.id, "cwd": str(tmp_path), "mcpServers": []})
        async with asyncio.timeout(PATIENCE):
            running = asyncio.ensure_future(session.prompt("ask allow_once reject_once"))
            request, to_ann = await ann.asked.get()
            to_bob = await bob.hear("session/request_permission")
            await share(ann, session.id, "viewer")
            outcome = {"outcome": "selected", "optionId": request.options[0].option_id}
            bob.send({"jsonrpc": "2.0", "id": to_bob["id"], "result": {"outcome": outcome}})
            await bob.ask("session/list", {})  # by then his answer was heard
            assert len(house.gateway.live[session.id].questions) == 1
            to_ann.set_result(request.options[1].option_id)
            await running
        assert b"reject_once" in b"".join(ann.told[session.id])


@asynccontextmanager
async def behind(house: House, directory: Path) -> AsyncIterator[tuple[Any, Watcher, Watcher]]:
    """Ann's session, and Bob at it, who does not read."""
    async with house.visit("ann") as ann, house.visit("bob") as slow, asyncio.timeout(PATIENCE):
        session = await ann.new_session(directory)
        await share(ann, session.id, "viewer")
        await slow.load_session(session.id, directory)
        hosted = house.gateway.live[session.id]
        (viewer,) = (viewer for viewer in hosted.viewers if viewer.client.name == "bob")
        slow.connection.hold()
        while viewer.cursor >= hosted.history.durable - 100:
            await session.prompt("flood")
        try:
            yield session, ann, slow
        finally:
            slow.connection.resume()


async def test_somebody_who_is_sent_away_is_not_told_what_was_still_owed(tmp_path: Path) -> None:
    async with hosting(tmp_path, Noting) as house, behind(house, tmp_path) as (session, ann, slow):
        await session.prompt("note 3")
        await ann.until(lambda: len(ann.notices("_noting/note")) == 3)
        await share(ann, session.id, None)
        slow.connection.resume()
        await slow.until(lambda: slow.notices("_dragoman/session/detached"))
        await slow.list_sessions()  # whose answer comes behind everything
        assert slow.notices("_noting/note") == []


async def test_somebody_who_is_owed_too_much_that_no_log_keeps_is_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.sessions.viewer.MAX_WAITERS", 10)
    async with hosting(tmp_path, Noting) as house, behind(house, tmp_path) as (session, ann, _):
        hosted = house.gateway.live[session.id]
        await session.prompt("note 10")
        await ann.until(lambda: len(ann.notices("_noting/note")) == 10)
        assert len(hosted.viewers) == 2  # which is not yet too much
        await session.prompt("note 1")
        await until(lambda: len(hosted.viewers) == 1)
        assert house.gateway.metrics.evictions.lines("x") == ["x 1"]
