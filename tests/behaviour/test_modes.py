"""Modes: which there are, which is on, and who may change it."""

import json

import pytest

from dragoman import InvalidParams, MethodNotFound
from dragoman import schema as s

from .cast import Modest
from .reading import open_session, play, tell


async def mode_of(session):
    return json.loads(await tell(session, "settings"))["mode"]


async def test_a_session_starts_in_the_first_mode(connect):
    async with connect() as client:
        session = await open_session(client)
        assert session.modes == s.SessionModeState(
            current_mode_id="code",
            available_modes=[
                s.SessionMode(id="code", name="Code", description="Does things"),
                s.SessionMode(id="plan", name="Plan", description="Only thinks"),
            ],
        )
        assert await mode_of(session) == "code"


async def test_a_client_can_change_the_mode(connect):
    async with connect() as client:
        session, other = await open_session(client), await open_session(client)
        await session.set_mode("plan")
        assert session.modes.current_mode_id == "plan"
        assert await mode_of(session) == "plan"
        assert await mode_of(other) == "code"


async def test_an_unknown_mode_is_refused_and_changes_nothing(connect):
    async with connect() as client:
        session = await open_session(client)
        with pytest.raises(InvalidParams):
            await session.set_mode("yolo")
        assert session.modes.current_mode_id == "code"
        assert await mode_of(session) == "code"


async def test_an_agent_can_change_the_mode_itself(connect):
    async with connect() as client:
        session = await open_session(client)
        update, _ = await play(session, "mode plan")
        assert update == s.CurrentModeUpdate(current_mode_id="plan")
        assert await mode_of(session) == "plan"


async def test_the_mode_can_be_changed_while_a_turn_runs(connect):
    async with connect() as client:
        session = await open_session(client)
        turn = session.prompt("wait")
        await session.set_mode("plan")
        session.cancel()
        await turn
        assert await mode_of(session) == "plan"


async def test_an_agent_without_modes_has_none_to_set(connect):
    async with connect(Modest) as client:
        session = await client.new_session()
        assert session.modes is None
        with pytest.raises(MethodNotFound):
            await session.set_mode("code")
