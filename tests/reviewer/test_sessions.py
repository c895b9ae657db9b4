"""The reviewer's sessions survive its process."""

from pathlib import Path

from dragoman import connect
from dragoman import schema as s

from .conftest import REVIEWER, Reviewing


async def test_a_review_is_replayed_and_its_findings_can_still_be_explained(project: Path) -> None:
    (project / "a.json").write_text("[1,]")
    async with connect(REVIEWER) as client:
        session = await client.new_session(cwd=project)
        await Reviewing(session).say("/review")
    async with connect(REVIEWER) as client:
        (info,) = await client.list_sessions(project)
        assert info.title == f"Review of {project.name}"
        loaded = await client.load_session(info.session_id, project)
        replayed = list(loaded.backlog())
        assert any(isinstance(update, s.Plan) for update in replayed)
        turn = await Reviewing(loaded).say("/explain a.json:1")
    assert "comma after the last entry" in turn.text
    assert "no language model" not in turn.text  # it has said so before
