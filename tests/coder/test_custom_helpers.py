"""Helpers from `.agents/agents`: a prompt, tools and a model of their own, and no more rights than anybody."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.coder import ScriptedModel, call
from dragoman.coder.context.instructions import find_assistants

from .desk import DiskClient, asked, desk, results

pytestmark = pytest.mark.usefixtures("nothing_left")

SCRIBE = """---
name: Scribe
description: >
  Writes notes
  for others
tools: [read_file, write_file]
---
You are a scribe.
"""


def helper(root: Path, text: str, name: str = "scribe") -> Path:
    path = root / ".agents" / "agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def test_a_helper_has_its_own_prompt_and_tools_and_reports(tmp_path: Path) -> None:
    helper(tmp_path, SCRIBE)
    steps = [
        call("ask_helper", helper="scribe", task="Note it."),
        call("write_file", path="note", content="noted\n"),  # the helper's
        "I wrote note.",
        "Done.",
    ]
    async with desk(tmp_path, *steps, mode="code") as (session, _, model):
        await session.prompt("Go")
        assert (tmp_path / "note").read_text() == "noted\n"
        await session.prompt("/undo")
    first, second = model.requests[:2]
    assert "- scribe: Writes notes for others" in first.instructions
    assert second.instructions.startswith("You are a scribe.")
    assert [tool.name for tool in second.tools] == ["read_file", "write_file"]
    assert [message.text for message in second.history] == ["Note it."]
    assert ("ask_helper", "success", "I wrote note.") in results(model)
    assert not (tmp_path / "note").exists()  # what a helper did is undone with the turn


async def test_what_a_helper_does_asks_as_everything_does(tmp_path: Path) -> None:
    helper(tmp_path, SCRIBE)
    steps = [
        call("ask_helper", helper="scribe", task="Note it."),
        [call("write_file", path="note", content="x"), call("run_command", command="touch note")],
        "I could not.",
        "Done.",
    ]
    client = DiskClient(permissions="reject")
    async with desk(tmp_path, *steps, mode="ask", client=client) as (session, _, model):
        await session.prompt("Go")
    assert len(asked(client)) == 1 and not (tmp_path / "note").exists()
    assert [outcome for name, outcome, _ in results(model) if name != "ask_helper"] == ["denied", "failed"]


async def test_without_helpers_there_is_no_such_tool(tmp_path: Path) -> None:
    async with desk(tmp_path, "Done.") as (session, _, model):
        await session.prompt("Go")
    assert "ask_helper" not in {tool.name for tool in model.requests[0].tools}


@pytest.mark.parametrize(
    ("file", "asks", "why"),
    [
        (SCRIBE.replace("write_file", "launch_rocket"), "scribe", "wants the tools launch_rocket"),
        (SCRIBE, "nobody", "There is no helper 'nobody'; there are: scribe"),
    ],
)
async def test_a_helper_that_cannot_be_had_is_told_as_such(tmp_path: Path, file: str, asks: str, why: str) -> None:
    helper(tmp_path, file)
    async with desk(tmp_path, call("ask_helper", helper=asks, task="Go."), "Done.") as (session, _, model):
        await session.prompt("Go")
    ((_, outcome, words),) = results(model)
    assert outcome == "failed" and why in words


@pytest.mark.parametrize(("choice", "asks_other"), [("model", True), ("always", True), ("own", False)])
async def test_a_model_that_the_project_chose_is_asked_only_when_the_user_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, asks_other: bool
) -> None:
    other = ScriptedModel("From the other.", "Again from the other.")
    _opened(monkeypatch, other)
    helper(tmp_path, SCRIBE.replace("tools:", "model: elsewhere:big\ntools:"))
    own = [] if asks_other else ["From the session's own."]
    asking = call("ask_helper", helper="scribe", task="Note it.")
    client = DiskClient(permissions=lambda _: choice)
    async with desk(tmp_path, asking, *own, asking, *own, "Done.", client=client) as (session, _, _m):
        await session.prompt("Go")
    assert len(other.requests) == (2 if asks_other else 0)
    assert len(asked(client)) == (1 if choice == "always" else 2)


async def test_the_users_own_helper_has_the_model_it_names_unasked(
    tmp_path: Path, a_home_of_its_own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ScriptedModel("From the other.")
    _opened(monkeypatch, other)
    helper(a_home_of_its_own, SCRIBE.replace("tools:", "model: elsewhere:big\ntools:"))
    steps = call("ask_helper", helper="scribe", task="Note it."), "Done."
    async with desk(tmp_path, *steps) as (session, client, _):
        await session.prompt("Go")
    assert len(other.requests) == 1 and not asked(client)


def _opened(monkeypatch: pytest.MonkeyPatch, model: ScriptedModel) -> None:
    """Have `elsewhere:big` be this model."""
    from dragoman.coder.model import models

    async def opened(choice: Any, keys: Any) -> Any:
        assert choice.name == "elsewhere:big"
        return model

    monkeypatch.setattr(models, "opened", opened)


def test_a_projects_helper_behind_a_link_that_leads_out_is_not_read(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".agents" / "agents").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("a secret of the user's")
    (project / ".agents" / "agents" / "spy.md").symlink_to(tmp_path / "secret.md")
    assert find_assistants(str(project)) == {}
