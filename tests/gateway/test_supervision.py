"""Agents that do not do what they should are ended, and replaced after a pause that grows."""

import asyncio
import contextlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import Agent, connect
from dragoman.bridges.claude.agent import ClaudeAgent
from dragoman.errors import Error, InternalError, Overloaded
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.access.principals import PrincipalName
from dragoman.gateway.agents.failures import AgentFailures

from .ageing import Clock
from .house import Watcher, hosting
from .test_commands import said, served

pytestmark = pytest.mark.usefixtures("nothing_left")

DEAF = """
import json, os, sys, time
def say(id, result): os.write(1, (json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\\n").encode())
is_first = not os.path.exists("was-here")
open("was-here", "w").close()
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        say(asked["id"], {"protocolVersion": 1})
    elif asked["method"] == "session/new":
        say(asked["id"], {"sessionId": f"s{os.getpid()}-{asked['id']}"})
        if is_first:
            time.sleep(100000)
    elif asked["method"] == "session/prompt":
        say(asked["id"], {"stopReason": "end_turn"})
"""
DYING = """
open("starts", "a").write("x")
raise SystemExit(3)
"""


async def test_an_agent_that_stops_reading_is_ended_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.gateway.RENEW_EVERY", 0.02)
    command, limits = [sys.executable, "-c", DEAF], Limits(stuck_seconds=0.1)
    async with (
        hosting(tmp_path, command, hosted={"cwd": str(tmp_path)}, limits=limits) as house,
        house.visit() as ann,
        asyncio.timeout(PATIENCE),
    ):
        session = await ann.new_session(tmp_path)
        with pytest.raises(InternalError, match="the turn was interrupted"):
            await session.prompt("x" * 1_000_000)  # more than a pipe holds
        assert (await session.prompt("again")).stop_reason == "end_turn"
        again = await ann.new_session(tmp_path)
        assert (await again.prompt("hello")).stop_reason == "end_turn"


async def test_an_agent_that_dies_again_and_again_is_not_started_for_each_client(tmp_path: Path) -> None:
    command, limits = [sys.executable, "-c", DYING], Limits(agent_failures=2)
    outcomes: Counter[type] = Counter()

    async def come(who: str) -> None:
        try:
            async with house.visit(who):
                pass
        except Error as exc:
            outcomes[type(exc)] += 1
            if isinstance(exc, Overloaded):
                assert exc.data["kind"] == "agent_start" and exc.data["retryAfter"] >= 1

    async with hosting(tmp_path, command, hosted={"cwd": str(tmp_path)}, limits=limits) as house:
        await asyncio.gather(*(come("ann") for _ in range(20)))
        starts = len((tmp_path / "starts").read_text())
        assert 3 <= starts < 10 and outcomes[Overloaded] == 20 - starts
        await come("bob")  # whose agent has not failed yet
        assert len((tmp_path / "starts").read_text()) == starts + 1


def test_the_pause_before_a_start_doubles_and_is_forgotten() -> None:
    clock, ann = Clock(), PrincipalName("ann")
    failures = AgentFailures(lambda: 2, clock)
    waits = []
    for _ in range(12):
        failures.add(ann, "testy")
        waits.append(failures.wait(ann, "testy"))
    assert waits == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    clock.now += 60
    failures.check(ann, "testy")
    clock.now += 300
    failures.tidy()
    assert failures.count(ann, "testy") == 0


async def test_agents_are_listed_restarted_and_stopped_from_the_command_line(tmp_path: Path) -> None:
    state = tmp_path / "state"
    async with served(state) as (url, _):
        headers = {"Authorization": f"Bearer {(state / 'local.token').read_text()}"}
        async with connect(url, Watcher(), headers=headers) as client:
            session = await client.new_session(tmp_path)
            (line,) = map(json.loads, (await said("gateway", "agents", "list", "--state", str(state))).splitlines())
            assert (line["agent"], line["state"], line["sessions"]) == ("testy", "running", 1)
            order = await said("gateway", "agents", "restart", "testy", "--state", str(state))
            assert json.loads(order) == {"agent": "testy", "ended": 1}
            assert (await session.prompt("hello")).stop_reason == "end_turn"
            await said("gateway", "agents", "stop", "testy", "--state", str(state))
            (line,) = map(json.loads, (await said("gateway", "agents", "list", "--state", str(state))).splitlines())
            assert line["state"] == "stopped"
            with pytest.raises(Error, match="the agent testy is stopped"):
                await session.prompt("hello")
            await said("gateway", "agents", "restart", "testy", "--state", str(state))
            assert (await session.prompt("hello")).stop_reason == "end_turn"


SILENT_CLOSE = """
import json, os, sys
def say(id, result): os.write(1, (json.dumps({"jsonrpc": "2.0", "id": id, "result": result}) + "\\n").encode())
count = 0
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        say(asked["id"], {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}})
    elif asked["method"] == "session/new":
        count += 1
        say(asked["id"], {"sessionId": f"s{count}"})
"""


async def test_a_new_session_does_not_wait_for_the_close_of_an_idle_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.agents.upstream.CLOSE_TIMEOUT", 1_000_000.0)  # it would never end
    command, limits = [sys.executable, "-c", SILENT_CLOSE], Limits(sessions_each=1)
    second: dict[str, Any] = {}
    with contextlib.suppress(asyncio.CancelledError):
        async with hosting(tmp_path, command, limits=limits) as house, house.bare() as ann:
            first = await ann.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
            await ann.ask("session/detach", {"sessionId": first["result"]["sessionId"]})
            second = await ann.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
            for *_, upstream in house.gateway.processes.running.entries():
                await upstream.close()
    assert "result" in second, second


class Thorough(Agent):
    """Takes its time to clean up, and says that it will."""

    cancel_patience = PATIENCE

    async def answer(self, turn: Any) -> None:
        await turn.say("begun")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.3)  # longer than an agent that says nothing of it may take here
            await turn.say("cleaned up")


async def test_an_agent_that_says_how_long_it_takes_to_cancel_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.agent.agent.CANCEL_PATIENCE", 0.01)
    async with hosting(tmp_path, Thorough) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        running = asyncio.ensure_future(session.prompt("go"))
        await ann.until(lambda: ann.told.get(session.id))
        session.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        assert b"cleaned up" in b"".join(ann.told[session.id])
    assert Limits().cancel_seconds > ClaudeAgent.cancel_patience  # of the agent that takes longest
