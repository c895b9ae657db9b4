"""A session outlives the connection it was opened over."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman.errors import InvalidParams, Overloaded, ResourceNotFound, RpcError
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.log.engine import EngineFailure
from dragoman.gateway.log.records import raw
from dragoman.gateway.log.session_facts import SessionFacts

from .house import Watcher, hosting, stepping

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("wire", ["websocket", "http"])
async def test_a_prompt_goes_through_and_is_told_again_on_load(tmp_path: Path, wire: str) -> None:
    async with hosting(tmp_path) as house:
        async with house.visit(wire=wire) as ann:
            session = await ann.new_session(tmp_path)
            response = await session.prompt("hello")
            assert response.stop_reason == "end_turn"
            first = ann.told[session.id]
            assert b"hello" in b"".join(first)
        async with house.visit(wire=wire) as again:
            await again.load_session(session.id, tmp_path)
            told = again.told[session.id]
            assert set(first) < set(told)  # byte for byte, and the prompt besides
            assert [frame for frame in told if frame in first] == first
            assert again.numbers(session.id) == sorted(set(again.numbers(session.id)))
            assert sum(b"user_message_chunk" in frame for frame in told) == 1


async def test_the_session_used_last_is_listed_first_after_the_clock_went_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.time
    async with hosting(tmp_path) as house, house.visit() as ann:
        first = await ann.new_session(tmp_path)
        await first.prompt("hello")
        monkeypatch.setattr(time, "time", lambda: clock() - 3600)
        second = await ann.new_session(tmp_path)
        assert [one.session_id for one in await ann.list_sessions()] == [second.id, first.id]
    async with hosting(tmp_path, tokens=house.tokens) as again, again.visit() as ann:  # and in the next process
        third = await ann.new_session(tmp_path)
        listed = [one.session_id for one in await ann.list_sessions()]
        assert listed == [third.id, second.id, first.id]


async def test_to_hang_up_is_not_to_cancel(tmp_path: Path) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent) as house:
        async with house.visit() as ann:
            session = await ann.new_session(tmp_path)
            prompt = session.prompt("one two three")
            agent.allowed.release()
            await ann.until(lambda: b"one" in b"".join(ann.told.get(session.id, [])))
            seen = ann.told[session.id]
            del prompt
        agent.allowed.release()
        async with house.visit() as again, asyncio.timeout(PATIENCE):
            await again.load_session(session.id, tmp_path)
            agent.allowed.release()
            await again.until(lambda: b"three" in b"".join(again.told[session.id]))
            told = again.told[session.id]
            assert [frame for frame in told if frame in seen] == seen
            assert again.numbers(session.id) == sorted(set(again.numbers(session.id)))


@pytest.mark.parametrize(
    "policy", [{"cancelAfter": 0}, {"cancelAfter": 0.05}, {"cancelAfter": 0, "unlessAsking": True}]
)
async def test_a_turn_nobody_watches_is_cancelled_if_that_was_asked_for(tmp_path: Path, policy: Any) -> None:
    async with hosting(tmp_path) as house:
        async with house.visit() as ann:
            session = await ann.new_session(tmp_path, meta={"dragoman.detached": policy})
            session.prompt("wait")
            session.prompt("never")
            await ann.until(lambda: ann.told.get(session.id) and ann.notices("_dragoman/queue")[-1]["waiting"])
        async with asyncio.timeout(PATIENCE):
            await house.gateway.live[session.id].turns.finished()
        async with house.visit() as again:
            loaded = await again.load_session(session.id, tmp_path)
            assert b"never" not in b"".join(again.told[session.id])
            await outcome(loaded)


async def test_a_turn_that_asks_waits_for_somebody_to_come(tmp_path: Path) -> None:
    policy = {"cancelAfter": 0, "unlessAsking": True}
    async with hosting(tmp_path) as house:
        async with house.visit() as ann, asyncio.timeout(PATIENCE):
            session = await ann.new_session(tmp_path, meta={"dragoman.detached": policy})
            session.prompt("ask allow_once reject_once")
            await ann.asked.get()
        async with house.visit() as again, asyncio.timeout(PATIENCE):
            await again.load_session(session.id, tmp_path)
            request, answer = await again.asked.get()
            answer.set_result(request.options[0].option_id)
            await house.gateway.live[session.id].turns.finished()
            await again.until(lambda: request.options[0].option_id.encode() in again.told[session.id][-1])


async def test_what_is_to_become_of_a_detached_session_has_to_be_said_properly(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        for wrong in ("keep", {"cancelAfter": "soon"}, {"whenever": 1}):
            with pytest.raises(InvalidParams, match=r"dragoman\.detached"):
                await ann.new_session(tmp_path, meta={"dragoman.detached": wrong})


async def test_each_session_may_have_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "agent", "testy"]
    limits = Limits(processes_each=2)  # the one that answered before there was a session makes room
    hosted = {"process_per": "session"}
    async with hosting(tmp_path, command, hosted=hosted, limits=limits) as house, house.visit() as ann:
        async with asyncio.timeout(PATIENCE):
            first, second = await ann.new_session(tmp_path), await ann.new_session(tmp_path)
            await asyncio.gather(*(outcome(session) for session in (first, second)))
            refused = await asyncio.gather(*(ann.new_session(tmp_path) for _ in range(3)), return_exceptions=True)
            assert all(isinstance(error, Overloaded) and "processes" in str(error) for error in refused)
            links = [house.gateway.live[session.id].link for session in (first, second)]
            assert links[0].upstream is not links[1].upstream
            ended = links[0].upstream
            await ann.close_session(first.id)
            await asyncio.wait([ended._running])
            await outcome(second)
            opened = await asyncio.gather(*(ann.new_session(tmp_path) for _ in range(3)), return_exceptions=True)
            assert [type(found) is Overloaded for found in opened].count(True) == 2  # there was room for one


async def outcome(session: Any) -> None:
    assert (await session.prompt("hello")).stop_reason == "end_turn"


async def test_a_resumed_session_is_told_only_what_was_missed(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        async with house.visit() as ann:
            session = await ann.new_session(tmp_path)
            await session.prompt("first")
            last = ann.numbers(session.id)[-1]
        async with house.visit() as bystander:
            other = await bystander.resume_session(session.id, tmp_path)
            await other.prompt("second")
            assert b"first" not in b"".join(bystander.told[session.id])
        async with house.visit() as again:
            await again.resume_session(session.id, tmp_path, meta={"dragoman.after": last})
            await again.until(lambda: b"second" in b"".join(again.told.get(session.id, [])))
            assert min(again.numbers(session.id)) > last


async def test_a_session_of_somebody_else_is_not_there(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit("ann") as ann, house.visit("bob") as bob:
        session = await ann.new_session(tmp_path)
        errors = []
        for id in (session.id, "sess_" + "x" * 32):
            with pytest.raises(ResourceNotFound) as caught:
                await bob.load_session(id, tmp_path)
            errors.append(str(caught.value).replace(id, "ID"))
        assert errors[0] == errors[1]
        assert await bob.list_sessions() == []
        assert [found.session_id for found in await ann.list_sessions()] == [session.id]


async def test_a_deleted_session_is_gone(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("hello")
        await ann.delete_session(session.id)
        with pytest.raises(ResourceNotFound):
            await ann.load_session(session.id, tmp_path)
        assert await ann.list_sessions() == []
        assert await house.gateway.engine.last(session.id) == 0


async def test_a_closed_session_can_be_loaded_again(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("hello")
        await ann.close_session(session.id)
        again = Watcher()
        async with house.visit(client=again):
            loaded = await again.load_session(session.id, tmp_path)
            assert b"hello" in b"".join(again.told[session.id])
            assert (await loaded.prompt("more")).stop_reason == "end_turn"


async def test_an_old_session_is_opened_without_reading_all_of_its_log(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("flood 3000 10", meta={"dragoman.prompt": "k"})
        await ann.close_session(session.id)
        read, looked_at = house.gateway.engine.read, []

        async def reading(*arguments: Any) -> Any:
            records = await read(*arguments)
            looked_at.extend(record.number for record in records)
            return records

        house.gateway.engine.read = reading  # type: ignore[method-assign]
        last = ann.numbers(session.id)[-1]
        again = await ann.resume_session(session.id, tmp_path, meta={"dragoman.after": last})
        assert len(looked_at) < 10
        await again.prompt("flood 3000 10", meta={"dragoman.prompt": "k"})  # and what ended is still known
        assert ann.numbers(session.id)[-1] == last


async def test_what_is_large_is_kept_beside_the_log_and_told_like_anything_else(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        async with house.visit() as ann:
            session = await ann.new_session(tmp_path)
            await session.prompt("flood 3 2000000")
            told = ann.told[session.id]
            assert len([frame for frame in told if len(frame) > 900_000]) == 6  # long texts go in pieces
            stored = await house.gateway.engine.read(session.id)
            assert max(len(record.entry.frame) for record in stored) < 10_000
            size = house.gateway.live[session.id].summary.size
            await ann.close_session(session.id)
            await house.gateway.engine.drop_fact("summary", session.id)
        async with house.visit() as again:
            await again.load_session(session.id, tmp_path)
            assert [frame for frame in again.told[session.id] if b"user_message" not in frame] == told
            assert size > 6_000_000 and house.gateway.live[session.id].summary.size == size


async def test_a_summary_that_is_lost_or_damaged_is_made_again_from_the_log(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("hello", meta={"dragoman.prompt": "k"})
        before = house.gateway.live[session.id].summary
        for damaged in (b"{", b'{"at": 1000000}', None):
            await ann.close_session(session.id)
            if damaged is None:
                await house.gateway.engine.drop_fact("summary", session.id)
            else:
                await house.gateway.engine.put_fact("summary", session.id, value=damaged)
            await ann.resume_session(session.id, tmp_path)
            assert house.gateway.live[session.id].summary == before


async def test_a_refused_summary_of_a_long_session_costs_no_more_than_its_latest_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.log.summary.CHECKPOINT", 500)
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        for _ in range(6):
            await session.prompt("flood 600 10")
            await house.gateway.upkeep()
        before = house.gateway.live[session.id].summary
        for refused in (b"{", b'{"at": 1000000}'):
            await ann.close_session(session.id)
            await house.gateway.engine.put_fact("summary", session.id, value=refused)
            read, looked_at = house.gateway.engine.read, []

            async def reading(*arguments: Any, read: Any = read, looked_at: Any = looked_at) -> Any:
                found = await read(*arguments)
                looked_at.extend(record.number for record in found)
                return found

            with monkeypatch.context() as patch:
                patch.setattr(house.gateway.engine, "read", reading)
                await ann.resume_session(session.id, tmp_path)
            assert house.gateway.live[session.id].summary == before
            assert len(looked_at) < 1000 < before.at


async def test_a_page_of_a_list_takes_few_reads_and_none_is_skipped_when_others_move(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as bare:
        engine, cwd = house.gateway.engine, str(tmp_path)
        opened = await bare.ask("session/new", {"cwd": cwd, "mcpServers": []})
        ids = [f"sess_{number:04}" for number in range(350)]
        for number, id in enumerate(ids):
            facts = SessionFacts("testy", "ann", cwd, raw({}), updated=number // 7)
            await asyncio.gather(engine.put_fact("seat", "ann", id, value=b""), house.gateway.save_facts(id, facts))
        run, reads = engine._reader.run, []  # type: ignore[attr-defined]

        def counting(*arguments: Any, **options: Any) -> Any:
            reads.append(arguments)
            return run(*arguments, **options)

        engine._reader.run = counting  # type: ignore[attr-defined]
        seen, cursor = [], {}
        while True:
            page = (await bare.ask("session/list", cursor))["result"]
            seen += [session["sessionId"] for session in page["sessions"]]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
            moved = SessionFacts("testy", "ann", cwd, raw({}), updated=1000)
            await house.gateway.save_facts(seen[0], moved)
        assert sorted(seen) == sorted([*ids, opened["result"]["sessionId"]])
        assert len(reads) <= 3 * 4
        assert (await bare.ask("session/list", {"cursor": "elsewhere"}))["error"]["code"] == -32602


async def test_an_id_of_somebody_else_s_is_as_unknown_to_every_method_as_any(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit("ann") as ann, house.bare("bob") as bob:
        session = await ann.new_session(tmp_path)
        await session.prompt("hello")
        rest = {
            "cwd": str(tmp_path),
            "mcpServers": [],
            "prompt": [],
            "modeId": "plan",
            "principal": "bob",
            "title": "x",
        }
        for method in (
            *("session/load", "session/resume", "session/close", "session/prompt", "session/fork"),
            *("session/archive", "session/unarchive", "session/status", "session/set_title"),
            *("session/set_mode", "session/set_config_option", "_dragoman/session/share"),
            *("session/attach", "session/detach", "_dragoman/queue/cancel"),
        ):
            answers = []
            for id in (session.id, "sess_" + "x" * 32):
                answer = await bob.ask(method, {"sessionId": id, **rest})
                answers.append(str({**answer, "id": 0}).replace(id, "ID"))
            assert answers[0] == answers[1] and "Session not found" in answers[0], method
        assert (await bob.ask("session/delete", {"sessionId": session.id}))["result"] == {}  # as of any he has not
        assert (await session.prompt("still mine")).stop_reason == "end_turn"


async def test_a_request_that_is_cancelled_is_answered_once_with_how_the_turn_ended(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as bare:
        opened = await bare.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        prompt = {"sessionId": opened["result"]["sessionId"], "prompt": [{"type": "text", "text": "wait"}]}
        answer = asyncio.ensure_future(bare.ask("session/prompt", prompt, id="p"))
        await bare.hear("session/update")
        bare.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p"}})
        assert (await answer)["result"]["stopReason"] == "cancelled"


async def test_a_prompt_that_is_cancelled_at_once_never_runs(tmp_path: Path) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent) as house, house.bare() as bare:
        opened = await bare.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        session = opened["result"]["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "one"}]}
        answer = asyncio.ensure_future(bare.ask("session/prompt", prompt, id="p"))
        await asyncio.sleep(0)
        bare.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
        assert (await answer)["result"]["stopReason"] == "cancelled"


async def test_a_log_that_cannot_be_written_tells_nobody_anything_that_is_not_in_it(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("kept")
        append = house.gateway.engine.append

        async def fail(*_: object) -> None:
            raise EngineFailure("the disk is full")

        house.gateway.engine.append = fail  # type: ignore[method-assign]
        with pytest.raises(RpcError):
            await session.prompt("lost")
        assert b"lost" not in b"".join(ann.told[session.id])
        house.gateway.engine.append = append  # type: ignore[method-assign]
        again = await ann.load_session(session.id, tmp_path)
        assert (await again.prompt("back")).stop_reason == "end_turn"
        assert house.gateway.live[session.id].history.broken is None


async def test_what_the_agent_says_of_modes_is_told_to_who_loads(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        async with house.visit() as ann:
            session = await ann.new_session(tmp_path)
            await session.set_mode("plan")
        async with house.visit() as again:
            loaded = await again.load_session(session.id, tmp_path)
            assert loaded.modes and loaded.modes.current_mode_id == "plan"
