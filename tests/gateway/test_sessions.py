"""A session outlives the connection it was opened over."""

import asyncio
from pathlib import Path

import pytest

from dragoman.errors import ResourceNotFound

from .house import PATIENCE, Watcher, hosting, stepping

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
