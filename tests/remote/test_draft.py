"""The draft as it is, without resumption: several streams, whose order among each other nobody promises.

What belongs to one session comes in order, and in front of all that follows from it; what belongs to none may come
sooner or later than a session's messages around it.
"""

import asyncio

import pytest

from dragoman import connect
from dragoman import schema as s
from dragoman.testing import Testy

from .serving import dial, served

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.parametrize("wire", ["http/1.1", "http/2"])]

EARLY = [s.CurrentModeUpdate(current_mode_id="plan"), s.SessionInfoUpdate(title="Early")]


class Forward(Testy):
    """Speaks of a session before it says that it is open."""

    async def opened(self, session):
        await super().opened(session)
        for update in EARLY:
            await session.update(update)


async def test_what_is_said_of_a_session_before_it_is_open_is_heard_before(wire):
    async with served(Forward) as server, connect(await dial(wire, server.url(), resumes=False)) as client:
        for _ in range(5):
            session = await client.new_session("/")
            early = [update for _, update in zip(range(2), session.backlog(), strict=False)]
            assert early == EARLY
            assert (await session.prompt("echo hello")).stop_reason == "end_turn"


async def test_every_update_of_a_turn_is_heard_before_its_end(wire):
    async with served(Testy) as server, connect(await dial(wire, server.url(), resumes=False)) as client:
        sessions = [await client.new_session("/") for _ in range(3)]
        for turn in [session.prompt("flood 200 50") for session in sessions]:
            events = [event async for event in turn]
            assert sum(isinstance(event, s.AgentMessageChunk) for event in events) == 200
            assert isinstance(events[-1], s.PromptResponse)


async def test_a_client_with_many_sessions_leaves_and_its_agent_ends(wire):
    ended = asyncio.Event()

    class Leaving(Testy):
        async def __aexit__(self, *_):
            ended.set()

    async with asyncio.timeout(30), served(Leaving) as server:
        async with connect(await dial(wire, server.url(), resumes=False)) as client:
            for _ in range(150):
                await client.new_session("/")
        await ended.wait()
