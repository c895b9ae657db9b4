"""An agent of the official Python SDK repeats whatever version it is asked for, and speaks version 1."""

import asyncio
import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.testing import RecordingClient

AGENT = Path(__file__).parent / "sdk_echoing_agent.py"


@pytest.mark.parametrize("dialect", ["v2", None])
async def test_an_agent_that_repeats_version_2_in_an_answer_of_version_1_is_spoken_to_in_version_1(
    dialect: str | None,
):
    pytest.importorskip("acp")
    command = [sys.executable, str(AGENT)]
    async with asyncio.timeout(60), dragoman.connect(command, RecordingClient(), dialect=dialect) as client:
        session = await client.new_session("/")
        assert (await session.prompt("hello")).stop_reason == "end_turn"
        assert session.dialect == "v1"
