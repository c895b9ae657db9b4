"""Several people at one session: who hears what, who may do what, who is asked."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import Session
from dragoman.errors import InvalidParams, InvalidRequest, Overloaded, ResourceNotFound
from dragoman.gateway.access.limits import Limits

from .house import House, Watcher, hosting, stepping

pytestmark = pytest.mark.usefixtures("nothing_left")


async def share(ann: Watcher, session: str, role: str | None, who: str = "bob") -> None:
    await ann.agent.request("_dragoman/session/share", {"sessionId": session, "principal": who, "role": role})


async def test_everybody_hears_the_same_in_the_same_order(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit("ann") as ann, house.visit("bob") as bob:
        session = await ann.new_session(tmp_path)
        await session.prompt("before bob came")
        await share(ann, session.id, "viewer")
        await bob.load_session(session.id, tmp_path)
        await session.prompt("echo one\necho two\necho three")
        await bob.until(lambda: bob.numbers(session.id)[-1] == ann.numbers(session.id)[-1])
        told = [frame for frame in bob.told[session.id] if b"user_message_chunk" not in frame]
        assert told == ann.told[session.id]
        prompts = [frame for frame in bob.told[session.id] if b"user_message_chunk" in frame]
        assert len(prompts) == 2  # which ann, who wrote them, is not told
        assert bob.numbers(session.id) == sorted(bob.numbers(session.id))


async def test_a_viewer_may_watch_and_nothing_more(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit("ann") as ann, house.visit("bob") as bob:
        session = await ann.new_session(tmp_path)
        await share(ann, session.id, "viewer")
        watched = await bob.load_session(session.id, tmp_path)
        with pytest.raises(InvalidRequest, match="editor"):
            await watched.prompt("let me")
        with pytest.raises(InvalidRequest, match="editor"):
            await watched.set_mode("brief")
        with pytest.raises(InvalidRequest, match="admin"):
            await bob.delete_session(session.id)
        with pytest.raises(InvalidRequest, match="admin"):
            await share(bob, session.id, "viewer", "carol")
        await share(ann, session.id, "editor")
        assert (await watched.prompt("let me now")).stop_reason == "end_turn"
        await share(ann, session.id, None)
        with pytest.raises(ResourceNotFound):
            await watched.prompt("and now")
        assert bob.notices("_dragoman/session/detached")


async def test_presence_and_queue_are_shown_and_are_no_part_of_the_conversation(tmp_path: Path) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent) as house, house.visit("ann") as ann, house.visit("bob") as bob:
        session = await ann.new_session(tmp_path)
        await share(ann, session.id, "editor")
        theirs = await bob.load_session(session.id, tmp_path)
        await ann.until(lambda: len(ann.notices("_dragoman/presence")[-1]["people"]) == 2)
        assert {p["principal"]: p["role"] for p in ann.notices("_dragoman/presence")[-1]["people"]} == {
            "ann": "admin",
            "bob": "editor",
        }
        first = asyncio.ensure_future(_answer(session, "one"))
        await ann.until(lambda: ann.notices("_dragoman/queue")[-1]["running"])
        second = asyncio.ensure_future(_answer(theirs, "two"))
        third = asyncio.ensure_future(_answer(theirs, "three"))
        await ann.until(lambda: len(ann.notices("_dragoman/queue")[-1]["waiting"]) == 2)
        waiting = ann.notices("_dragoman/queue")[-1]["waiting"]
        assert [turn["principal"] for turn in waiting] == ["bob", "bob"]
        await ann.agent.request("_dragoman/queue/cancel", {"sessionId": session.id, "prompt": waiting[1]["prompt"]})
        async with asyncio.timeout(PATIENCE):
            assert await third == "cancelled"
            agent.allowed.release()
            agent.allowed.release()
            assert [await first, await second] == ["end_turn", "end_turn"]
        assert b"_dragoman" not in b"".join(ann.told[session.id])


async def _answer(session: Any, text: str) -> str:
    return str((await session.prompt(text)).stop_reason)


async def test_turns_run_one_at_a_time_in_the_order_they_came(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        words = [f"word-{number}" for number in range(8)]
        await asyncio.gather(*(_answer(session, word) for word in words))
        said = [word for frame in ann.told[session.id] for word in words if word.encode() in frame]
        assert said == words


async def test_a_queue_that_is_full_says_so(tmp_path: Path) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent, limits=Limits(queue=1)) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        first = asyncio.ensure_future(_answer(session, "one"))
        await ann.until(lambda: ann.notices("_dragoman/queue")[-1]["running"])
        second = asyncio.ensure_future(_answer(session, "two"))
        await ann.until(lambda: ann.notices("_dragoman/queue")[-1]["waiting"])
        with pytest.raises(Overloaded) as caught:
            await session.prompt("three")
        assert caught.value.data["limit"] == "queue" and caught.value.data["retryAfter"]
        agent.allowed.release()
        agent.allowed.release()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(first, second)


async def test_the_first_answer_to_a_permission_request_wins(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit("ann") as ann, house.visit("bob") as bob:
        session = await ann.new_session(tmp_path)
        await share(ann, session.id, "editor")
        await bob.load_session(session.id, tmp_path)
        running = asyncio.ensure_future(_answer(session, "ask allow_once reject_once"))
        async with asyncio.timeout(PATIENCE):
            request, to_ann = await ann.asked.get()
            same, to_bob = await bob.asked.get()
            assert same.tool_call == request.tool_call
            to_bob.set_result(same.options[0].option_id)
            assert await running == "end_turn"
        await ann.until(lambda: ann.notices("_dragoman/permission_resolved"))
        resolved = ann.notices("_dragoman/permission_resolved")[0]
        assert resolved["by"] == "bob" and resolved["ask"] == request.meta["dragoman.ask"]
        assert to_ann.cancelled()


async def test_a_late_answer_is_told_that_it_is_late(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit("ann") as ann, house.bare("bob", knows_us=True) as bob:
        session = await ann.new_session(tmp_path)
        await share(ann, session.id, "editor")
        await bob.ask("session/load", {"sessionId": session.id, "cwd": str(tmp_path), "mcpServers": []})
        running = asyncio.ensure_future(_answer(session, "ask allow_once reject_once"))
        async with asyncio.timeout(PATIENCE):
            request, to_ann = await ann.asked.get()
            asked = await bob.hear("session/request_permission")
            to_ann.set_result(request.options[0].option_id)
            await running
            assert (await bob.hear("$/cancel_request"))["params"] == {"requestId": asked["id"]}
            assert (await bob.hear("_dragoman/permission_resolved"))["params"]["by"] == "ann"
            outcome = {"outcome": "selected", "optionId": request.options[1].option_id}
            bob.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": outcome}})
            assert (await bob.hear("_dragoman/permission_resolved"))["params"]["late"]


async def test_a_question_is_put_to_whoever_comes_later(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        async with house.visit("ann") as ann:
            session = await ann.new_session(tmp_path)
            session.prompt("ask allow_once reject_once")
            async with asyncio.timeout(PATIENCE):
                await ann.asked.get()
        async with house.visit("ann") as again:
            loaded = await again.load_session(session.id, tmp_path)
            async with asyncio.timeout(PATIENCE):
                request, answer = await again.asked.get()
                answer.set_result(request.options[0].option_id)
                await again.until(lambda: request.options[0].option_id.encode() in again.told[session.id][-1])
                assert (await loaded.prompt("still there")).stop_reason == "end_turn"


async def test_an_answer_nobody_offered_permits_nothing(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        running = asyncio.ensure_future(_answer(session, "ask reject_once"))
        async with asyncio.timeout(PATIENCE):
            _, answer = await ann.asked.get()
            answer.set_result("allow_everything")
            await running
        assert b"Not allowed: nothing." in b"".join(ann.told[session.id])


async def test_an_attached_client_is_told_as_much_and_may_do_as_much_as_it_wants(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit("ann") as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        await session.prompt("before")
        running = asyncio.ensure_future(_answer(session, "ask allow_once"))
        request, answer = await ann.asked.get()

        async def attached(**wants: str) -> tuple[Watcher, dict[str, Any]]:
            client = Watcher()
            await stack.enter_async_context(house.visit("ann", client))
            result = await client.agent.request("session/attach", {"sessionId": session.id, **wants})
            await client.until(lambda: client.notices("_dragoman/presence"))
            return client, result

        async with AsyncExitStack() as stack:
            full, as_full = await attached()
            pending, as_pending = await attached(role="editor", historyPolicy="pending_only")
            nothing, _ = await attached(historyPolicy="none")
            observer, as_observer = await attached(role="observer")
            assert [as_full["role"], as_pending["role"], as_observer["role"]] == ["admin", "editor", "viewer"]
            assert b"before" in b"".join(full.told[session.id])
            assert full.told[session.id] == observer.told[session.id]
            assert not pending.told and not nothing.told
            assert (await pending.asked.get())[0].tool_call == request.tool_call
            assert nothing.asked.empty() and observer.asked.empty()
            blocks = [{"type": "text", "text": "let me"}]
            with pytest.raises(InvalidRequest, match="editor"):
                await observer.agent.request("session/prompt", {"sessionId": session.id, "prompt": blocks})
            for wrong in ({"role": "king"}, {"historyPolicy": "some"}):
                with pytest.raises(InvalidParams):
                    await full.agent.request("session/attach", {"sessionId": session.id, **wrong})
            await full.agent.request("session/detach", {"sessionId": session.id})
            with pytest.raises(ResourceNotFound):
                await full.agent.request("session/detach", {"sessionId": session.id})
            answer.set_result(request.options[0].option_id)
            assert await running == "end_turn"


async def test_to_cancel_answers_what_is_asked(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        running = asyncio.ensure_future(_answer(session, "ask allow_once"))
        async with asyncio.timeout(PATIENCE):
            await ann.asked.get()
            session.cancel()
            assert await running == "cancelled"
        session = house.gateway.live[session.id]
        assert not session.questions


async def test_a_slow_viewer_holds_up_nobody_and_is_sent_away_and_may_come_back(tmp_path: Path) -> None:
    limits = Limits(warn_lag=50, evict_lag=400, lag_seconds=0.2)
    async with hosting(tmp_path, limits=limits) as house, house.visit("ann") as ann:
        session = await ann.new_session(tmp_path)
        await share(ann, session.id, "viewer")
        async with house.visit("bob") as slow:
            await slow.load_session(session.id, tmp_path)
            slow.connection.hold()
            async with asyncio.timeout(PATIENCE):
                while house.gateway.metrics.evictions.lines("x") == ["x 0"]:
                    await session.prompt("flood 300 8000")  # of which ann misses nothing
            slow.connection.resume()
        seen = list(slow.told[session.id])
        async with house.visit("bob") as back:
            last = slow.numbers(session.id)[-1]
            await back.resume_session(session.id, tmp_path, meta={"dragoman.after": last})
            total = house.gateway.live[session.id].history.durable
            await back.until(lambda: back.numbers(session.id) and back.numbers(session.id)[-1] >= total - 1)
            told = [frame for frame in seen + back.told[session.id] if b"user_message" not in frame]
            assert told == ann.told[session.id]


async def fallen_behind(house: House, ann: Watcher, slow: Watcher, session: Session) -> None:
    """Flood a session until the viewer that does not read is warned, then let it read all of it."""
    (viewer,) = (viewer for viewer in house.gateway.live[session.id].viewers if viewer.client.name == "bob")
    warned = viewer._warned
    slow.connection.hold()
    while viewer._warned == warned:
        await session.prompt("flood 300 8000")
    slow.connection.resume()
    await slow.until(lambda: slow.numbers(session.id)[-1:] == ann.numbers(session.id)[-1:])


async def test_a_viewer_that_falls_behind_is_warned_once_and_stays_if_it_catches_up(tmp_path: Path) -> None:
    limits = Limits(warn_lag=50, evict_lag=1_000_000, lag_seconds=3600)
    async with hosting(tmp_path, limits=limits) as house, house.visit("ann") as ann:
        session = await ann.new_session(tmp_path)
        await share(ann, session.id, "viewer")
        async with house.visit("bob") as slow, asyncio.timeout(PATIENCE):
            await slow.load_session(session.id, tmp_path)
            await fallen_behind(house, ann, slow, session)
            (warning,) = slow.notices("_dragoman/lagging")
            assert warning["behind"] >= 50 and warning["most"] == 1_000_000
            told = [frame for frame in slow.told[session.id] if b"user_message" not in frame]
            assert told == ann.told[session.id]


async def test_a_viewer_that_falls_behind_again_is_warned_again(tmp_path: Path) -> None:
    limits = Limits(warn_lag=50, evict_lag=1_000_000, lag_seconds=0)
    async with hosting(tmp_path, limits=limits) as house, house.visit("ann") as ann:
        session = await ann.new_session(tmp_path)
        await share(ann, session.id, "viewer")
        async with house.visit("bob") as slow, asyncio.timeout(PATIENCE):
            await slow.load_session(session.id, tmp_path)
            await fallen_behind(house, ann, slow, session)
            before = len(slow.notices("_dragoman/lagging"))
            await fallen_behind(house, ann, slow, session)
            assert len(slow.notices("_dragoman/lagging")) > before
