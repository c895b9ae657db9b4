"""Many sessions, many prompts, many connections at once: nobody gets what is another's."""

import asyncio

from dragoman import schema as s

from .reading import open_session, play, said, tell


async def test_many_sessions_stream_at_once_and_none_gets_what_is_anothers(connect):
    async with connect() as client:
        sessions = [await open_session(client) for _ in range(20)]

        async def talk(number, session):
            lines = "\n".join(f"echo {number}.{line}," for line in range(50))
            return await tell(session, lines)

        heard = await asyncio.gather(*(talk(number, session) for number, session in enumerate(sessions)))
        assert heard == ["".join(f"{number}.{line}," for line in range(50)) for number in range(20)]


async def test_many_prompts_of_many_sessions_are_each_answered(connect):
    async with connect() as client:
        sessions = [await open_session(client) for _ in range(8)]
        turns = [
            (session, number, session.prompt(f"echo {number}")) for number in range(20) for session in sessions
        ]
        heard = {session.id: [] for session in sessions}
        for session, _, turn in turns:
            heard[session.id].append(said([event async for event in turn]))
        assert all(words == [str(number) for number in range(20)] for words in heard.values())


async def test_hundreds_of_requests_in_flight_find_their_answers(connect):
    async with connect() as client:
        answers = await asyncio.gather(*(client.agent.request("_testy/ping", {"n": n}) for n in range(500)))
        assert answers == [{"pong": {"n": n}} for n in range(500)]


async def test_requests_cross_each_other_in_both_directions(connect):
    async with connect() as client:
        sessions = [await open_session(client) for _ in range(5)]
        answers = await asyncio.gather(*(tell(session, "nested 10\nrequest") for session in sessions))
        assert answers == ['10{"pong": {}}'] * 5


async def test_sessions_are_opened_all_at_once(connect):
    async with connect() as client:
        sessions = await asyncio.gather(*(client.new_session(f"/{n}") for n in range(50)))
        assert len({session.id for session in sessions}) == 50
        where = await asyncio.gather(*(tell(session, "where") for session in sessions))
        assert where == [f'["/{n}"]' for n in range(50)]


async def test_some_finish_some_fail_and_some_are_cancelled(connect):
    async with connect() as client:
        sessions = [await open_session(client) for _ in range(9)]
        verbs = ["echo ok", "fail", "wait"] * 3
        turns = [session.prompt(verb) for session, verb in zip(sessions, verbs, strict=True)]
        await client.agent.request("_testy/ping")
        for session in sessions[2::3]:
            session.cancel()
        results = await asyncio.gather(*turns, return_exceptions=True)
        assert [result.stop_reason for result in results[0::3]] == ["end_turn"] * 3
        assert [result.code for result in results[1::3]] == [-32603] * 3
        assert [result.stop_reason for result in results[2::3]] == ["cancelled"] * 3


async def test_connections_know_nothing_of_each_other(connect):
    async with connect() as one, connect() as other:
        session = await open_session(one)
        await session.prompt("echo mine")
        assert await other.list_sessions() == []
        events = await play(await open_session(other), "echo theirs")
        assert said(events) == "theirs"
        assert not [update for update in other.updates if update.session_id == session.id]
        assert isinstance(one.updates[0].update, s.AvailableCommandsUpdate)
