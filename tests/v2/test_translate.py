"""`dragoman translate` between the versions: an old agent in a new editor, and the reverse."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from patience import PATIENCE

import dragoman
from dragoman import Transcript
from dragoman.testing import RecordingClient

HERE = Path(__file__).parent
TRANSLATE = [sys.executable, "-m", "dragoman", "translate"]
TESTY = [sys.executable, "-c", "from dragoman import serve; from dragoman.testing import Testy; serve(Testy)"]


async def test_an_agent_of_version_2_serves_a_client_of_version_1(sdk_python: str):
    command = [*TRANSLATE, "--to", "v2", "--", sdk_python, str(HERE / "sdk_agent.py")]
    async with asyncio.timeout(30), dragoman.connect(command, RecordingClient(), dialect="v1") as client:
        session = await client.new_session("/home")
        events = [event async for event in session.prompt("talk")]
        assert [message.text for message in Transcript(events).messages] == ["Hm.", "Good day", "One more"]


def test_an_agent_of_version_1_serves_a_client_of_version_2(sdk_python: str):
    command = [sdk_python, str(HERE / "sdk_client.py"), *TRANSLATE, "--to", "v1", "--", *TESTY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert (seen["version"], seen["info"]) == (2, "testy")
    assert seen["cancelled"]["stopReason"] == "cancelled"
