"""5,000 files: progress can be seen, and a cancel is heeded at once."""

import sys
from pathlib import Path

import pytest

from dragoman import schema as s

from .conftest import Editor, Turn, reviewing

FILES = 5000
# However fast this machine reads, the reviewer is seen at work.
PROGRAM = """
from dragoman import serve
from dragoman.reviewer import Reviewer, review
review.PACE = 0.01
serve(Reviewer)
"""
SHOWING = [sys.executable, "-c", PROGRAM]


@pytest.fixture(scope="module")
def large_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("large")
    texts = {".py": "X = 1\n", ".json": "{}\n", ".yaml": "a: 1\n", ".sh": "#!/bin/sh\n", ".md": "# Title\n"}
    for number in range(FILES):
        suffix = [".py", ".json", ".yaml", ".md"][number % 4]
        below = directory / f"part{number % 50}"
        below.mkdir(exist_ok=True)
        (below / f"file{number}{suffix}").write_text(texts[suffix])
    (directory / "part7" / "wrong.json").write_text("[1 2]\n")
    return directory


def progress(turn: Turn) -> list[str]:
    titles = [update.title for update in turn.updates if isinstance(update, s.ToolCallUpdated) and update.title]
    return [title for title in titles if " of 5,001 files" in title]


async def test_a_large_project_is_reviewed_with_progress_on_the_way(large_project: Path) -> None:
    async with reviewing(large_project, Editor(), SHOWING) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.findings == {("part7/wrong.json", 1, "json-syntax")}
    assert "in 1 of 5,001 files." in turn.text
    assert len(progress(turn)) >= 2


async def test_a_review_of_a_large_project_can_be_cancelled_while_it_reads(large_project: Path) -> None:
    editor = Editor()
    async with reviewing(large_project, editor, SHOWING) as reviewer:
        turn = await reviewer.say("/review", until=lambda turn: bool(progress(turn)))
        assert turn.stop_reason == "cancelled"
        assert len(editor.read) < FILES
        assert turn.updates_of(turn.calls[0])[-1].status == "failed"
        assert (await reviewer.say("/review part1")).stop_reason == "end_turn"


async def test_a_review_of_a_large_project_can_be_cancelled_while_it_checks(large_project: Path) -> None:
    async with reviewing(large_project, command=SHOWING) as reviewer:
        turn = await reviewer.say("/review", until=lambda turn: bool(turn.plans))
        assert turn.stop_reason == "cancelled"
        assert {turn.updates_of(call)[-1].status for call in turn.calls} <= {"completed", "failed"}
