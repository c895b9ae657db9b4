"""Sessions that an agent begins itself, and suggestions of edits, are reached through a gateway."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import connect
from dragoman import schema as s
from dragoman.gateway.attachment import attached
from dragoman.testing import RecordingClient

from .house import hosting
from .test_transparency import RICH, heard, opened, prompted, words
from .versatile import Versatile

pytestmark = pytest.mark.usefixtures("nothing_left")

BEGUN = {"sessionId": "child-1"}


async def test_who_may_only_look_asks_nothing_of_a_session_that_the_agent_began(tmp_path: Path) -> None:
    async with (
        hosting(tmp_path, Versatile) as house,
        house.bare(capabilities=RICH) as ann,
        house.bare("bob", capabilities=RICH) as bob,
        house.bare(capabilities=RICH) as elsewhere,
    ):
        session = await opened(ann, tmp_path)
        await ann.ask("_dragoman/session/share", {"sessionId": session, "principal": "bob", "role": "viewer"})
        await bob.ask("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        await prompted(ann, session, "begin")
        assert (await ann.ask("_versatile/which", BEGUN))["result"] == {"isBegun": True}
        assert (await bob.ask("_versatile/which", BEGUN))["error"]["data"]["needed"] == "editor"
        assert (await elsewhere.ask("_versatile/which", BEGUN))["error"]["code"] == -32002
        running = asyncio.ensure_future(prompted(ann, "child-1", "work"))
        await ann.until(lambda: "I wait" in str(ann.frames))
        bob.send({"jsonrpc": "2.0", "method": "session/cancel", "params": BEGUN})
        assert (await bob.ask("session/set_mode", {**BEGUN, "modeId": "any"}))["error"]["data"][
            "needed"
        ] == "editor"
        assert (await ann.ask("_versatile/which", BEGUN))["result"] == {"isBegun": True}
        assert not running.done()
        ann.send({"jsonrpc": "2.0", "method": "session/cancel", "params": BEGUN})
        assert (await running)["result"] == {"stopReason": "cancelled"}
        for _, _, upstream in house.gateway.processes.running.entries():
            await upstream.close()
        assert (await ann.ask("_versatile/which", BEGUN))["error"]["code"] == -32002


async def test_a_client_that_knows_no_such_sessions_is_told_nothing_of_them(tmp_path: Path) -> None:
    async with hosting(tmp_path, Versatile) as house, house.bare(capabilities=RICH) as rich, house.bare() as poor:
        session = await opened(rich, tmp_path)
        await poor.ask("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        await prompted(rich, session, "begin")
        assert "I am new" in words(heard(rich))
        await prompted(poor, session, "after that")
        named = [frame["params"]["sessionId"] for frame in poor.frames if frame.get("method") == "session/update"]
        assert set(named) == {session}


async def test_a_session_that_the_agent_began_is_told_through_the_shim(tmp_path: Path) -> None:
    async with hosting(tmp_path, Versatile) as house, asyncio.timeout(PATIENCE):
        told: dict[str, list[Any]] = {}

        class Keeping(RecordingClient):
            def update(self, params: s.SessionNotification) -> None:
                told.setdefault(params.session_id, []).append(params.update)
                super().update(params)

        async with connect(attached(house.url(), headers=house.headers("ann")), Keeping()) as client:
            session = await client.new_session(tmp_path)
            await session.prompt("begin")
            await session.prompt("after that")
        assert [update.content.text for update in told["child-1"]] == ["I am new"]


async def test_suggestions_end_with_the_client_that_wanted_them(tmp_path: Path) -> None:
    async with hosting(tmp_path, Versatile) as house, house.bare() as stays:
        async with house.bare() as goes:
            assert goes.greeting["result"]["agentCapabilities"]["nes"] == {}
            for bare in (goes, goes, stays):
                await bare.ask("nes/start", {})
            assert (await stays.ask("_versatile/suggesting", {}))["result"] == 3
            (upstream,) = [upstream for _, _, upstream in house.gateway.processes.running.entries()]
            assert not upstream.is_idle
        async with asyncio.timeout(PATIENCE):
            while (await stays.ask("_versatile/suggesting", {}))["result"] != 1:
                pass
        assert len(upstream.suggesting) == 1
