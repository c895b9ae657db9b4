"""Whatever dies in the middle of a turn, the turn has exactly one outcome, and nothing that was told is lost."""

import asyncio
import json
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE
from remote.serving import WIRES, dial

from dragoman import connect
from dragoman.errors import InternalError
from dragoman.gateway.attachment import attached
from dragoman.gateway.log.logs import records
from dragoman.gateway.log.records import update_params
from dragoman.gateway.log.sqlite import SqliteEngine

from .house import Bare, Watcher, hosting, stepping
from .killing import check_outcomes, kill_in_the_middle, nursery

pytestmark = pytest.mark.usefixtures("nothing_left")

TESTY = [sys.executable, "-m", "dragoman", "agent", "testy"]


async def outcome(session: Any, text: str, key: str = "") -> Any:
    meta = {"dragoman.prompt": key} if key else None
    return await session.prompt(text, meta=meta)


async def test_a_gateway_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    figures = await kill_in_the_middle(tmp_path, cycles=100, seed=1)
    assert figures["cycles"] == 100
    assert figures["replayed"] > 0 and figures["interrupted"] > 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_an_agent_that_is_ended_in_the_middle_gives_its_turn_one_outcome(tmp_path: Path, number: int) -> None:
    async with hosting(tmp_path, TESTY) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        running = asyncio.ensure_future(outcome(session, "ask allow_once", key="k"))
        async with asyncio.timeout(PATIENCE):
            await ann.asked.get()
            ((_, _, upstream),) = house.gateway.processes.running.entries()
            os.kill(upstream.connection._transport._inner.process.pid, number)
            with pytest.raises(InternalError, match="interrupted") as caught:
                await running
        assert caught.value.data == {"kind": "turn_interrupted"}
        failed = [frame for frame in ann.told[session.id] if b'"failed"' in frame]
        assert len(failed) == 1  # the tool call that was under way
        with pytest.raises(InternalError, match="interrupted"):  # and never runs again
            await outcome(session, "ask allow_once", key="k")
        assert ann.asked.empty()
        response = await outcome(session, "meta")  # the agent was started again
        assert response.stop_reason == "end_turn"


async def test_an_agent_that_has_forgotten_is_told_what_was_said(tmp_path: Path) -> None:
    async with hosting(tmp_path, TESTY) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("the cat is called Otto")
        ((_, _, upstream),) = house.gateway.processes.running.entries()
        os.kill(upstream.connection._transport._inner.process.pid, signal.SIGKILL)
        assert upstream._running
        await asyncio.wait([upstream._running], timeout=PATIENCE)
        await session.prompt("what is it called?")
        said = [json.loads(frame)["params"]["update"]["content"]["text"] for frame in ann.told[session.id][-4:]]
        assert said == [
            "(The conversation so far, for you to go on with)",
            "user: the cat is called Otto",
            "agent: the cat is called Otto",
            "what is it called?",
        ]


async def test_a_prompt_that_is_sent_again_runs_once(tmp_path: Path) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent) as house:
        async with house.visit() as ann:
            session = await ann.new_session(tmp_path)
            first = asyncio.ensure_future(outcome(session, "one", key="k"))
            await ann.until(lambda: ann.notices("_dragoman/queue")[-1]["running"])
            second = asyncio.ensure_future(outcome(session, "one", key="k"))
            agent.allowed.release()
            async with asyncio.timeout(PATIENCE):
                assert (await first) == (await second)
            assert (await outcome(session, "one", key="k")).stop_reason == "end_turn"
            assert sum(b"one" in frame for frame in ann.told[session.id]) == 1
        async with house.visit() as again:
            loaded = await again.load_session(session.id, tmp_path)
            assert (await outcome(loaded, "one", key="k")).stop_reason == "end_turn"
            assert sum(b"agent_message_chunk" in frame for frame in again.told[session.id]) == 1


async def test_a_gateway_restarted_under_live_clients_is_hardly_noticed(tmp_path: Path) -> None:
    async with nursery(tmp_path) as house:
        await house.start()
        ann, bob = Watcher(), Watcher()
        async with (
            connect(attached(house.url, headers=house.headers), ann),
            connect(attached(house.url, headers=house.headers), bob),
        ):
            session = await ann.new_session(tmp_path)
            watched = await bob.load_session(session.id, tmp_path)
            assert (await outcome(session, "5")).stop_reason == "end_turn"
            running = asyncio.ensure_future(outcome(session, "1000000"))
            await ann.until(lambda: len(ann.told[session.id]) > 30)
            house.kill()
            async with asyncio.timeout(PATIENCE):
                await house.start()
                with pytest.raises(InternalError, match="interrupted"):
                    await running
                assert (await outcome(watched, "7")).stop_reason == "end_turn"
            await ann.until(lambda: b'"6 "' in ann.told[session.id][-1] or b"completed" in ann.told[session.id][-1])
            for watcher in (ann, bob):
                numbers = watcher.numbers(session.id)
                assert numbers == sorted(set(numbers))
            said = [[f for f in w.told[session.id] if b"user_message" not in f] for w in (ann, bob)]
            shortest = min(map(len, said))
            assert said[0][:shortest] == said[1][:shortest]
            assert sum(b'"failed"' in frame for frame in ann.told[session.id]) == 1


async def test_a_question_that_is_open_when_the_gateway_dies_is_answered_cancelled(tmp_path: Path) -> None:
    async with nursery(tmp_path, " ".join(TESTY)) as house:
        await house.start()
        ann = Watcher()
        async with connect(attached(house.url, headers=house.headers), ann):
            session = await ann.new_session(tmp_path)
            running = asyncio.ensure_future(outcome(session, "ask allow_once"))
            async with asyncio.timeout(PATIENCE):
                _, answer = await ann.asked.get()
                house.kill()
                await house.start()
                with pytest.raises(InternalError, match="interrupted"):
                    await running
                await asyncio.wait([answer])
            assert answer.cancelled()  # nobody is left wondering
            assert (await outcome(session, "hello")).stop_reason == "end_turn"


async def test_whatever_dies_everybody_is_told_the_log_without_a_gap(tmp_path: Path) -> None:
    async with nursery(tmp_path, " ".join(TESTY)) as house, AsyncExitStack() as stack:
        await house.start()
        ann, bob, slow = Watcher(), Watcher(), Watcher()
        for viewer in (ann, bob, slow):
            await stack.enter_async_context(connect(attached(house.url, headers=house.headers), viewer))
        async with asyncio.timeout(PATIENCE):
            session = await ann.new_session(tmp_path)
            theirs = await bob.load_session(session.id, tmp_path)
            await slow.load_session(session.id, tmp_path)
            slow.connection.hold()
            await outcome(session, "flood 300 8000")
            running = asyncio.ensure_future(outcome(session, "wait"))
            await bob.until(lambda: b'"text":"wait"' in b"".join(bob.told[session.id]))
            house.kill_agents()
            with pytest.raises(InternalError, match="interrupted"):
                await running
            running = asyncio.ensure_future(outcome(session, "ask allow_once"))
            await ann.asked.get()
            house.kill()
            await house.start()
            with pytest.raises(InternalError, match="interrupted"):
                await running
            await outcome(theirs, "echo omega")
            slow.connection.resume()
            for viewer in (ann, slow):
                await viewer.until(lambda viewer=viewer: b"omega" in viewer.told[session.id][-1])
        house.kill()
        await house.gone()
    engine = SqliteEngine(tmp_path)
    log = [record.entry.frame async for record in records(engine, session.id)]
    await engine.close()
    said = [frame for frame in log if update_params(frame) and b"user_message" not in frame]
    for viewer in (ann, bob, slow):
        assert [frame for frame in viewer.told[session.id] if b"user_message" not in frame] == said
        assert viewer.numbers(session.id) == sorted(set(viewer.numbers(session.id)))
    assert await check_outcomes(tmp_path) == 4


async def test_a_gateway_that_is_told_to_stop_writes_down_how_its_turns_ended(tmp_path: Path) -> None:
    async with nursery(tmp_path) as house:
        await house.start()
        ann = Watcher()
        async with connect(attached(house.url, headers=house.headers), ann):
            session = await ann.new_session(tmp_path)
            running = asyncio.ensure_future(outcome(session, "1000000"))
            await ann.until(lambda: len(ann.told.get(session.id, [])) > 5)
            house.kill(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE):
                await house.start()
                with pytest.raises(InternalError, match="the gateway stopped"):
                    await running


@pytest.mark.parametrize("wire", WIRES)
async def test_a_plain_client_is_told_how_its_turns_ended_before_the_gateway_goes(
    tmp_path: Path, wire: str
) -> None:
    async with nursery(tmp_path) as house:
        await house.start()
        plain = Bare(await dial(wire, house.url, headers=house.headers, patience=1))
        await plain.ask("initialize", {"protocolVersion": 1})
        opened = await plain.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        blocks = [{"type": "text", "text": "1000000"}]
        prompt = {"sessionId": opened["result"]["sessionId"], "prompt": blocks}
        for id in ("runs", "waits"):
            plain.send({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": prompt})
        await plain.ask("session/list", {})  # which the gateway reads after both prompts
        await plain.until(lambda: len(plain.frames) > 5)
        house.kill(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await plain.ended.wait()
            await house.gone()
        await plain.wire.close()
        answers = {id: frame for frame in plain.frames if (id := frame.get("id")) in ("runs", "waits")}
        assert sorted(answers) == ["runs", "waits"]
        for answer in answers.values():
            assert answer["error"]["data"] == {"kind": "turn_interrupted"}, answer
            assert "the gateway stopped" in answer["error"]["message"]
        before = plain.frames[: plain.frames.index(answers["runs"])]
        told = [frame["params"]["update"] for frame in before if frame.get("method") == "session/update"]
        assert told[-1].get("status") == "failed"  # the tool call that was under way


async def test_why_an_agent_does_not_start_is_for_the_log_and_not_for_the_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = [sys.executable, "-c", "import sys; sys.exit('no module of mine in /srv/secret')"]
    async with hosting(tmp_path, broken) as house:
        with pytest.raises(InternalError) as caught:
            async with house.visit():
                pass
    assert caught.value.message == "the agent could not be started; the gateway's log says why"
    assert caught.value.data == {"kind": "agent_start"}
    (told,) = [record.message for record in caplog.records if "does not start" in record.message]
    assert "exited with status 1 before it answered initialize" in told
    assert "no module of mine in /srv/secret" in told
