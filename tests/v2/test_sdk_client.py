"""A client of version 2 written with the official SDK's pre-release drives our agent, over real processes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LIMIT = 60  # seconds: two interpreters start first


@pytest.fixture(scope="module")
def seen(sdk_python: str) -> dict[str, Any]:
    """What a client of theirs saw of an agent of ours that nobody wrote a line for."""
    agent = [sys.executable, "-c", "from dragoman import serve; from dragoman.testing import Testy; serve(Testy)"]
    command = [sdk_python, str(HERE / "sdk_client.py"), *agent]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def states(updates: list[dict[str, Any]]) -> list[str]:
    return [update["state"] for update in updates if update["sessionUpdate"] == "state_update"]


def test_a_client_that_speaks_version_2_is_answered_in_version_2(seen: dict[str, Any]):
    assert (seen["version"], seen["info"]) == (2, "testy")


def test_their_prompt_is_answered_with_the_id_of_the_message_that_is_echoed(seen: dict[str, Any]):
    id, updates = seen["echo hello"]
    (echo,) = [update for update in updates if update["sessionUpdate"] == "user_message"]
    assert (echo["messageId"], echo["content"][0]["text"]) == (id, "echo hello")
    assert states(updates) == ["running", "idle"]
    assert updates[-1] == {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
    said = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    assert said[0]["content"]["text"] == "hello"
    assert said[0]["messageId"]


def test_they_see_how_a_turn_ends(seen: dict[str, Any]):
    assert seen["refuse"][1][-1]["stopReason"] == "refusal"
    assert seen["fail"][1][-1]["stopReason"] == "error"
    assert seen["cancelled"]["stopReason"] == "cancelled"


def test_they_see_a_diff_as_a_patch(seen: dict[str, Any]):
    contents = [
        item for update in seen["tool"][1] for item in update.get("content") or () if isinstance(item, dict)
    ]
    diff = next(item for item in contents if item["type"] == "diff")
    assert diff["changes"] == [{"operation": "modify", "path": "/a.py", "fileType": "text"}]
    assert "-a = 1\n+a = 2\n" in diff["patch"]["text"]


def test_they_are_asked_and_told_that_the_turn_waits_for_them(seen: dict[str, Any]):
    assert len(seen["questions"]) == 1
    assert states(seen["ask"][1]) == ["running", "requires_action", "running", "idle"]


def test_they_see_a_plan_with_an_id_and_modes_as_an_option(seen: dict[str, Any]):
    plans = [update["plan"] for update in seen["plan"][1] if update["sessionUpdate"] == "plan_update"]
    assert plans and all(plan["planId"] and plan["type"] == "items" for plan in plans)
    assert seen["options"] == ["dragoman:mode", "model", "voice", "verbose"]
    assert seen["set"] == "plan"


def test_they_find_the_session_again_with_its_history(seen: dict[str, Any]):
    assert seen["listed"] == [True]
    assert "user_message_chunk" in [update["sessionUpdate"] for update in seen["replayed"]]
    assert states(seen["replayed"]) == ["idle"]
