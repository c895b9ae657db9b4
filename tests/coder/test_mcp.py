"""Tools of the session's MCP servers in the agent's hands: named, asked about, shown, and never fatal."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import schema as s
from dragoman.coder import ScriptedModel, call
from dragoman.coder.history import Media, Results

from .desk import DiskClient, asked, calls, desk, results, said, updates

pytestmark = pytest.mark.usefixtures("nothing_left")

SCRIBE = Path(__file__).parent.parent / "mcp" / "scribe.py"
BROKEN = s.McpServerStdio(name="broken", command="/no/such/program", args=[], env=[])


def servers(*more: s.McpServer) -> dict[str, Any]:
    scribe = s.McpServerStdio(name="my scribe", command=sys.executable, args=[str(SCRIBE)], env=[])
    return {"mcp_servers": [scribe, *more]}


async def test_a_servers_tool_is_offered_asked_about_and_run(tmp_path: Path) -> None:
    steps = [
        call("mcp__my_scribe__greet", name="Ada"),
        call("mcp__my_scribe__write", path=str(tmp_path / "made")),
        call("mcp__my_scribe__fail"),
        "Done.",
    ]
    async with desk(tmp_path, *steps, mode="code", options=servers()) as (session, client, model):
        await session.prompt("Go")
    assert "mcp__my_scribe__greet" in {tool.name for tool in model.requests[0].tools}
    assert [(outcome, words) for _, outcome, words in results(model)][:2] == [
        ("success", "Hello, Ada!"),
        ("success", "written"),
    ]
    assert results(model)[2][1] == "failed" and "it cannot be done" in results(model)[2][2]
    assert len(asked(client)) == 3
    assert (tmp_path / "made").exists()
    assert next(shown["title"] for shown in calls(client).values()) == "my scribe: greet"


async def test_a_tool_that_only_reads_can_be_allowed_where_nothing_may_change(tmp_path: Path) -> None:
    steps = [
        call("mcp__my_scribe__greet", name="Ada"),
        call("mcp__my_scribe__write", path=str(tmp_path / "made")),
        "Done.",
    ]
    async with desk(tmp_path, *steps, mode="architect", options=servers()) as (session, client, model):
        await session.prompt("Go")
    assert [outcome for _, outcome, _ in results(model)] == ["success", "denied"]
    assert len(asked(client)) == 1
    assert not (tmp_path / "made").exists()


async def test_a_picture_reaches_a_model_that_sees(tmp_path: Path) -> None:
    model = ScriptedModel(call("mcp__my_scribe__draw"), "Nice.", takes=["image"])
    async with desk(tmp_path, model=model, options=servers()) as (session, _, _model):
        await session.prompt("Go")
    told = next(message for message in model.requests[-1].history if isinstance(message, Results))
    assert [part.media_type for part in told.results[0].parts if isinstance(part, Media)] == ["image/png"]


async def test_a_server_that_cannot_be_used_is_told_of_and_done_without(tmp_path: Path) -> None:
    steps = [call("mcp__my_scribe__greet", name="Ada"), "Done."]
    async with desk(tmp_path, *steps, options=servers(BROKEN)) as (session, client, model):
        assert (await session.prompt("Go")).stop_reason == "end_turn"
        await session.prompt("/mcp")
    assert results(model)[0][1] == "success"
    notices = [update for update in updates(client) if isinstance(update, s.Notice)]
    assert len(notices) == 1 and "'broken' cannot be used" in (notices[0].description or "")
    assert "- my scribe: `greet`" in said(updates(client))
    assert "- broken: cannot be used" in said(updates(client))


async def test_an_answer_for_the_session_covers_one_tool_of_one_server(tmp_path: Path) -> None:
    greet = call("mcp__my_scribe__greet", name="Ada")
    steps = [greet, call("mcp__my_scribe__greet", name="Bo"), call("mcp__my_scribe__fail"), "Done."]
    client = DiskClient(permissions=lambda request: "allow_session")
    async with desk(tmp_path, *steps, client=client, options=servers()) as (session, _, _model):
        await session.prompt("Go")
    names = [[option.name for option in request.options][1] for request in asked(client)]
    assert names == ["Allow greet of my scribe for this session", "Allow fail of my scribe for this session"]
