"""A whole task, over HTTP: read, edit two files, run the tests in a client's terminal, fix, end; in every mode."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import schema as s

from .desk import BareClient, DiskClient, asked, calls, said, snapshot, updates
from .model_servers import WIRES, Anthropic, ModelServer, Step, answer
from .talking import talking

pytestmark = pytest.mark.usefixtures("collected")

CALC = "def add(a, b):\n    return a - b\n"
WORDS = "def shout(text):\n    return text\n"
TESTS = """\
import unittest
from calc import add
from words import shout

class Works(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
    def test_shout(self):
        self.assertEqual(shout("hi"), "HI!")
"""
RUN = f"{sys.executable} -B -m unittest -q"
FIXED = {"calc.py": CALC.replace("a - b", "a + b"), "words.py": WORDS.replace("text\n", 'text.upper() + "!"\n')}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    for name, text in (("calc.py", CALC), ("words.py", WORDS), ("test_all.py", TESTS)):
        (root / name).write_text(text)
    return root


def steps() -> list[Step]:
    """The second edit is wrong at first, which the tests show."""
    right, wrong = 'return text.upper() + "!"', "return text.upper()"
    return [
        answer("Let me look.", ("read_file", {"path": "calc.py"}), ("read_file", {"path": "words.py"})),
        answer(
            "",
            ("edit_file", {"path": "calc.py", "old": "a - b", "new": "a + b"}),
            ("edit_file", {"path": "words.py", "old": "return text", "new": wrong}),
        ),
        answer("", ("run_command", {"command": RUN})),
        answer("", ("edit_file", {"path": "words.py", "old": wrong, "new": right})),
        answer("", ("run_command", {"command": RUN})),
        answer("Both work now."),
    ]


def texts(project: Path) -> dict[str, str]:
    return {name: (project / name).read_text() for name in ("calc.py", "words.py")}


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.__name__)
async def test_the_task_is_done_over_every_wire(
    wire: type[ModelServer], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(wire, project, monkeypatch, *steps()) as (session, client, server):
        await session.set_mode("code")
        response = await session.prompt("Make the tests pass.")
        assert client.terminals == []  # all released
    assert response.stop_reason == "end_turn"
    assert texts(project) == FIXED
    assert len(server.requests) == 6
    assert "FAILED" in server.told()[3] and "Exit code 0" in server.told()[5]
    shown = list(calls(client).values())
    states = ["completed"] * 4 + ["failed"] + ["completed"] * 2
    assert [call["status"] for call in shown] == states
    assert any(isinstance(block, s.Terminal) for block in shown[4]["content"])
    diffs = [block for call in shown for block in call["content"] if isinstance(block, s.Diff)]
    assert [Path(diff.path).name for diff in diffs] == ["calc.py", "words.py", "words.py"]
    assert [call["locations"][0].line for call in shown[2:4]] == [2, 2]
    assert said(updates(client)).endswith("Both work now.")
    # In this mode edits go by themselves, and each command is asked for with what it will run.
    assert [request.tool_call.title for request in asked(client)] == [RUN, RUN]


async def test_in_the_mode_ask_every_change_is_shown_before_it_is_made(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def allow(request: s.RequestPermissionRequest) -> str:
        seen.append((request.tool_call.kind, texts(project), list(request.tool_call.content or ())))
        return "allow"

    client = DiskClient(permissions=allow)
    async with talking(Anthropic, project, monkeypatch, *steps(), client=client) as (session, _, _server):
        assert session.modes is not None and session.modes.current_mode_id == "ask"
        assert (await session.prompt("Make the tests pass.")).stop_reason == "end_turn"
    assert [kind for kind, _, _ in seen] == ["edit", "edit", "execute", "edit", "execute"]
    for kind, before, content in seen:
        if kind == "edit":
            (diff,) = content
            assert before[Path(diff.path).name] == diff.old_text != diff.new_text
    assert texts(project) == FIXED


async def test_an_answer_for_the_session_is_asked_for_once_and_covers_what_it_says(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = DiskClient(permissions=lambda request: "allow_session")
    async with talking(Anthropic, project, monkeypatch, *steps(), client=client) as (session, _, _server):
        await session.prompt("Make the tests pass.")
    first, second = asked(client)
    assert [option.name for option in first.options][1] == "Allow all edits in the project for this session"
    assert RUN in [option.name for option in second.options][1]
    assert texts(project) == FIXED


async def test_what_the_user_refuses_is_not_done_and_told_to_the_model(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(project)
    client = DiskClient(permissions="reject")
    async with talking(Anthropic, project, monkeypatch, *steps(), client=client) as (session, _, server):
        assert (await session.prompt("Make the tests pass.")).stop_reason == "end_turn"
    assert snapshot(project) == before
    assert "The user did not allow this" in server.told()[2]
    assert client.terminals == []
    assert not [request for request in client.requests if isinstance(request, s.CreateTerminalRequest)]


@pytest.mark.parametrize("mode", ["architect", "plan"])
@pytest.mark.parametrize("client", [DiskClient, BareClient])
async def test_a_mode_that_changes_nothing_changes_nothing_and_asks_for_nothing(
    mode: str, client: Callable[[], DiskClient], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(project)
    async with talking(Anthropic, project, monkeypatch, *steps(), client=client()) as (session, there, server):
        await session.set_mode(mode)
        assert (await session.prompt("Make the tests pass.")).stop_reason == "end_turn"
    assert snapshot(project) == before
    assert asked(there) == []
    assert "Nothing can be changed or run" in server.told()[2]
    offered = {tool["name"] for tool in server.requests[0]["tools"]}
    assert not offered & {"edit_file", "write_file", "run_command"}
    assert ("exit_plan" in offered) == (mode == "plan")


async def test_a_plan_that_is_approved_is_carried_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def approve(request: s.RequestPermissionRequest) -> str:
        return "code" if request.tool_call.kind == "switch_mode" else "allow"

    plan = answer("", ("exit_plan", {"plan": "1. Fix `add`.\n2. Fix `shout`."}))
    client = DiskClient(permissions=approve)
    async with talking(Anthropic, project, monkeypatch, plan, *steps(), client=client) as (session, _, server):
        await session.set_mode("plan")
        assert (await session.prompt("Make the tests pass.")).stop_reason == "end_turn"
    assert texts(project) == FIXED
    first = asked(client)[0]
    assert [option.kind for option in first.options] == ["allow_always", "allow_once", "reject_once"]
    assert any("Fix `add`" in str(block) for block in first.tool_call.content or ())
    modes = [update.current_mode_id for update in updates(client) if isinstance(update, s.CurrentModeUpdate)]
    assert modes == ["code"]
    options = [u.config_options for u in updates(client) if isinstance(u, s.ConfigOptionUpdate)][-1]
    assert next(o.current_value for o in options if getattr(o, "id", "") == "mode") == "code"
    assert "edit_file" in {tool["name"] for tool in server.requests[1]["tools"]}


async def test_a_plan_that_is_not_approved_changes_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = snapshot(project)
    plan = answer("", ("exit_plan", {"plan": "Fix it."}))
    client = DiskClient(permissions="reject")
    async with talking(Anthropic, project, monkeypatch, plan, *steps(), client=client) as (session, _, server):
        await session.set_mode("plan")
        await session.prompt("Make the tests pass.")
    assert snapshot(project) == before
    assert "keep planning" in server.told()[1]


@pytest.mark.parametrize("mode", ["ask", "code"])
async def test_the_task_is_done_without_any_help_of_the_client(
    mode: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(Anthropic, project, monkeypatch, *steps(), client=BareClient()) as (session, client, server):
        await session.set_mode(mode)
        assert (await session.prompt("Make the tests pass.")).stop_reason == "end_turn"
    assert texts(project) == FIXED
    assert "Exit code 0" in server.told()[5]
    assert not [r for r in client.requests if isinstance(r, s.ReadTextFileRequest | s.CreateTerminalRequest)]
