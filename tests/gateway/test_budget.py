"""One budget: whatever runs out has a limit in all and for each principal, and a refusal names it."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman.errors import Error, Overloaded
from dragoman.gateway.access.budget import GatewayBudget, raise_descriptor_limit
from dragoman.gateway.access.limits import Limits, limit_rows

from .house import hosting, stepping, until

KIB = 1024


async def test_prompts_that_wait_have_a_limit_in_bytes_for_each_principal_and_in_all(tmp_path: Path) -> None:
    agent = stepping()
    limits = Limits(queued_bytes_each=100 * KIB, queued_bytes=150 * KIB)
    async with hosting(tmp_path, agent, limits=limits) as house, house.visit() as ann, house.visit("bob") as bob:
        annas = [await ann.new_session(tmp_path) for _ in range(2)]
        bobs = await bob.new_session(tmp_path)
        asked = asyncio.create_task(annas[0].prompt("x" * 80 * KIB))
        await until(lambda: house.gateway.budget.used("queued_bytes", "ann") > 80 * KIB)
        with pytest.raises(Overloaded, match="the limit queued_bytes_each is reached") as caught:
            await annas[1].prompt("y" * 30 * KIB)
        assert caught.value.data["limit"] == "queued_bytes_each"
        with pytest.raises(Overloaded, match="the limit queued_bytes is reached"):
            await bobs.prompt("z" * 80 * KIB)  # within what is his, beyond what there is
        agent.allowed.release()
        async with asyncio.timeout(PATIENCE):
            await asked
        assert house.gateway.budget.used("queued_bytes") == 0
        agent.allowed.release()
        async with asyncio.timeout(PATIENCE):
            await bobs.prompt("z" * 80 * KIB)
        text = house.gateway.metrics.text()
        assert 'dragoman_refusals_total{reason="queued_bytes_each"} 1' in text


async def test_a_prompt_that_outlives_its_client_stays_in_the_budget_until_it_ends(tmp_path: Path) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent) as house:
        async with house.visit() as ann:
            session = await ann.new_session(tmp_path)
            asking = asyncio.create_task(session.prompt("x" * KIB))
            await until(lambda: house.gateway.budget.used("queued_bytes", "ann") > 0)
        await asyncio.wait([asking])
        await until(lambda: house.gateway.budget.used("connections") == 0)
        assert house.gateway.budget.used("queued_bytes", "ann") > KIB
        assert house.gateway.budget.used("requests") == 0
        agent.allowed.release()
        await until(lambda: house.gateway.budget.used("queued_bytes", "ann") == 0)


async def test_processes_and_sessions_have_a_limit_in_all(tmp_path: Path) -> None:
    people = ("ann", "bob", "cid")
    limits = Limits(processes=2, sessions=2)
    async with (
        hosting(tmp_path, limits=limits, people=people) as house,
        house.visit() as ann,
        house.visit("bob") as bob,
    ):
        first = await ann.new_session(tmp_path)
        await bob.new_session(tmp_path)
        with pytest.raises(Overloaded, match="the limit processes is reached: 2 agent processes of all"):
            async with house.visit("cid"):
                pass
        with pytest.raises(Overloaded, match="the limit sessions is reached: 2 open sessions of all"):
            await ann.new_session(tmp_path)
        await ann.close_session(first.id)
        async with house.visit("cid") as cid:  # in the place of a process without sessions
            await cid.new_session(tmp_path)


async def test_a_process_whose_sessions_are_all_idle_makes_room_and_they_go_on_later(tmp_path: Path) -> None:
    async with hosting(tmp_path, limits=Limits(processes=1)) as house, asyncio.timeout(PATIENCE):
        async with house.visit() as ann:
            session = await ann.new_session(tmp_path)
            await session.prompt("hello")
        await until(lambda: house.gateway.live[session.id].is_idle)
        async with house.visit("bob") as bob:
            theirs = await bob.new_session(tmp_path)
            assert (await theirs.prompt("hello")).stop_reason == "end_turn"
            with pytest.raises(Error, match="the limit processes is reached"):
                async with house.visit():  # bob is there, so nothing is idle
                    pass
        await until(lambda: house.gateway.live[theirs.id].is_idle)
        async with house.visit() as again:
            same = await again.load_session(session.id, tmp_path)
            assert (await same.prompt("echo back")).stop_reason == "end_turn"
        assert "dragoman_restarts_total 0" in house.gateway.metrics.text()


async def test_a_client_may_have_so_many_requests_unanswered(tmp_path: Path) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent, limits=Limits(requests_each=3)) as house, house.bare() as ann:
        params = {"cwd": str(tmp_path), "mcpServers": []}
        session = (await ann.ask("session/new", params))["result"]["sessionId"]
        text = [{"type": "text", "text": "word"}]
        for id in range(100, 104):
            message = {"jsonrpc": "2.0", "id": id, "method": "session/prompt"}
            ann.send({**message, "params": {"sessionId": session, "prompt": text}})
        await ann.until(lambda: any(frame.get("id") == 103 for frame in ann.frames))
        (refused,) = [frame for frame in ann.frames if "error" in frame]
        assert refused["error"]["data"]["limit"] == "requests_each"
        for _ in range(3):
            agent.allowed.release()
        await ann.until(lambda: sum("result" in frame for frame in ann.frames) == 3)


async def test_of_sockets_only_so_many_are_taken(tmp_path: Path) -> None:
    async with hosting(tmp_path, limits=Limits(sockets=2)) as house:
        taken = [await asyncio.open_connection("127.0.0.1", house.server.port) for _ in range(2)]
        await until(lambda: house.gateway.budget.used("sockets") == 2)
        reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port)
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""  # closed at once
        writer.close()
        assert house.gateway.budget.refusals == {"sockets": 1}
        for _, one in taken:
            one.close()
        await until(lambda: house.gateway.budget.used("sockets") == 0)
        async with house.visit() as ann:
            await ann.new_session(tmp_path)


def test_descriptors_are_kept_free_for_what_runs() -> None:
    enough = raise_descriptor_limit()
    GatewayBudget(Limits(descriptors=8)).check_descriptors(2)
    scarce = GatewayBudget(Limits(descriptors=enough))
    with pytest.raises(Overloaded, match="the limit descriptors is reached"):
        scarce.check_descriptors(2)
    assert scarce.refusals == {"descriptors": 1}


def test_every_figure_has_a_limit_and_every_limit_a_description() -> None:
    figures = GatewayBudget(Limits()).figures()
    rows = {row.name: row for row in limit_rows()}
    assert figures.keys() <= rows.keys()
    assert all(figure.used <= figure.limit for figure in figures.values())
    assert all(row.words and row.default >= row.least for row in rows.values())
