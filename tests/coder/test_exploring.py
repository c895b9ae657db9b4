"""A helper with a conversation of its own: what it may do, what is seen of it, and how it ends."""

import asyncio
from pathlib import Path

import pytest

from dragoman.coder import call, pause
from dragoman.coder.model.port import ModelError

from .desk import DiskClient, asked, calls, desk, results, said, updates

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_a_helper_reads_and_reports_and_the_user_can_follow(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def answer():\n    return 42\n")
    steps = [
        call("task", task="Where is 42 made?"),
        [call("search", pattern="42"), call("read_file", path="a.py")],  # the helper's
        "In answer(), a.py:2.",
        "It is a.py:2.",
    ]
    async with desk(tmp_path, *steps) as (session, client, model):
        await session.prompt("Where does it come from?")
    assert [(name, words) for name, _, words in results(model) if name == "task"] == [
        ("task", "In answer(), a.py:2.")
    ]
    helper = model.requests[1]
    assert [message.text for message in helper.history] == ["Where is 42 made?"]
    assert {tool.name for tool in helper.tools} == {"read_file", "list_files", "search"}
    shown = [(one["title"], one["status"]) for one in calls(client).values()]
    assert shown == [
        ("Explore: Where is 42 made?", "completed"),
        ("Search '42'", "completed"),
        ("Read a.py", "completed"),
    ]
    assert "In answer()" not in said(updates(client))  # its report is for the model
    assert len(model.requests[-1].history) == 3  # and so is nothing else of it


async def test_a_helper_has_no_more_rights_than_its_tools(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SECRET=1\n")
    steps = [
        call("task", task="Do it."),
        [
            call("write_file", path="made", content="x"),
            call("run_command", command="touch made"),
            call("task", task="Do it for me."),
            call("read_file", path=".env"),
        ],
        "I could not.",
        "Done.",
    ]
    client = DiskClient(permissions="reject")
    async with desk(tmp_path, *steps, mode="code", client=client) as (session, _, model):
        await session.prompt("Go")
    outcomes = [outcome for name, outcome, _ in results(model) if name != "task"]
    assert outcomes == ["failed", "failed", "denied"] and not (tmp_path / "made").exists()
    assert len(asked(client)) == 1


async def test_a_helper_that_fails_or_never_ends_is_told_of(tmp_path: Path) -> None:
    steps = [
        call("task", task="One."),
        ModelError("out of order"),
        call("task", task="Two."),
        *[call("list_files", path=".", pattern=f"{number}") for number in range(30)],
        "Done.",
    ]
    async with desk(tmp_path, *steps) as (session, _, model):
        assert (await session.prompt("Go")).stop_reason == "end_turn"
    told = [words for name, _, words in results(model) if name == "task"]
    assert told == [
        "The helper failed: out of order",
        "The helper did not come to an end in 30 steps; ask for less.",
    ]


async def test_a_cancel_ends_a_helper_too(tmp_path: Path) -> None:
    waiting = asyncio.Event()

    async def forever() -> None:
        waiting.set()
        await asyncio.Event().wait()

    steps = [call("task", task="One."), ["Hm.", pause(forever)], "Here again."]
    async with asyncio.timeout(20), desk(tmp_path, *steps) as (session, client, model):
        prompt = session.prompt("Go")
        await waiting.wait()
        session.cancel()
        assert (await prompt).stop_reason == "cancelled"
        await session.prompt("Again")
    assert {one["status"] for one in calls(client).values()} == {"failed"}
    assert results(model)[0][1] == "cancelled"
