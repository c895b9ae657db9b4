"""Whoever allows an agent something at a gateway whose host lends files and commands is asked about it once."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import connect
from dragoman import schema as s
from dragoman.coder import Coder, ScriptedModel, call

from .asking import Asking
from .house import Watcher, hosting
from .test_commands import served

pytestmark = pytest.mark.usefixtures("nothing_left")


class Person(Watcher):
    """Says yes to what the agent asks, and no to what the host asks."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        is_host = params.tool_call.tool_call_id.startswith("host-")
        self.seen.append("host" if is_host else "agent")
        kind = "reject_once" if is_host else "allow_once"
        chosen = next(option.option_id for option in params.options if option.kind == kind)
        return s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id=chosen))


async def done(person: Person, session: Any, told: dict[str, Any]) -> tuple[str, list[str]]:
    """What an agent says of what it did, and who asked on the way."""
    person.seen.clear()
    async with asyncio.timeout(PATIENCE):
        events = [event async for event in session.prompt(json.dumps(told))]
    said = [event.content.text for event in events if isinstance(event, s.AgentMessageChunk)]
    return "".join(said), list(person.seen)


async def test_the_coder_is_allowed_each_change_and_each_command_by_one_answer(tmp_path: Path) -> None:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    (project / "a").write_text("one\ntwo\n")
    model = ScriptedModel(
        call("read_file", path="a"),
        call("edit_file", path="a", old="two", new="2"),
        call("write_file", path="b", content="new\n"),
        call("run_command", command="cp a c && cp b d"),
        "Done.",
    )
    agent, hosted = lambda remote: Coder(remote, model=model), {"preset": "allow-reads"}
    async with hosting(tmp_path / "state", agent, hosted=hosted) as house, house.visit("ann", Person()) as person:
        session = await person.new_session(project)
        async with asyncio.timeout(PATIENCE):
            await session.prompt("Go")
    assert {path.name: path.read_text() for path in project.iterdir()} == {
        "a": "one\n2\n", "b": "new\n", "c": "one\n2\n", "d": "new\n",
    }  # fmt: skip
    assert person.seen == ["agent"] * 3


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "project"
    made.mkdir()
    (made / "a").write_text("one\n")
    (made / "way").symlink_to(made / "a")
    return made


COVERED: dict[str, dict[str, Any]] = {
    "a diff": {"ask": {"diff": ["DIR/a", "one\n", "two\n"]}, "do": [["write", "DIR/a", "two\n"]]},
    "a new file": {"ask": {"diff": ["DIR/b", None, "two\n"]}, "do": [["write", "DIR/b", "two\n"]]},
    "a diff told before": {
        "tell": [{"diff": ["DIR/a", "one\n", "two\n"]}],
        "ask": {},
        "do": [["write", "DIR/a", "two\n"]],
    },
    "a command": {
        "ask": {"title": "touch b", "kind": "execute", "raw_input": {"command": "touch b"}},
        "do": [["run", "/bin/sh", "-c", "touch b"]],
    },
    "a command as code": {
        "ask": {"title": "Run `touch b`", "kind": "execute", "raw_input": {"command": "touch b"}},
        "do": [["run", "touch", "b"]],
    },
}
ASKED: dict[str, dict[str, Any]] = {
    "another text": {"ask": {"diff": ["DIR/a", "one\n", "two\n"]}, "do": [["write", "DIR/a", "three\n"]]},
    "another file": {"ask": {"diff": ["DIR/a", "one\n", "two\n"]}, "do": [["write", "DIR/b", "two\n"]]},
    "a link": {"ask": {"diff": ["DIR/way", "one\n", "two\n"]}, "do": [["write", "DIR/a", "two\n"]]},
    "a protected file": {
        "ask": {"diff": ["DIR/.git/hooks/pre-commit", None, "x"]},
        "do": [["write", "DIR/.git/hooks/pre-commit", "x"]],
    },
    "a change in the input alone": {
        "ask": {"kind": "edit", "raw_input": {"file_path": "DIR/a", "old_string": "one", "new_string": "two"}},
        "do": [["write", "DIR/a", "two\n"]],
    },
    "characters that nobody sees": {
        "ask": {"diff": ["DIR/a", "one\n", "two\u202e\n"]},
        "do": [["write", "DIR/a", "two\u202e\n"]],
    },
    "a command behind a title": {
        "ask": {"title": "List files", "kind": "execute", "raw_input": {"command": "touch b"}},
        "do": [["run", "/bin/sh", "-c", "touch b"]],
    },
    "a command within a title": {
        "ask": {"title": "Explain touch b", "kind": "execute", "raw_input": {"command": "touch b"}},
        "do": [["run", "/bin/sh", "-c", "touch b"]],
    },
    "a command elsewhere": {
        "ask": {"title": "touch b", "kind": "execute", "raw_input": {"command": "touch b", "cwd": "DIR/.."}},
        "do": [["run", "/bin/sh", "-c", "touch b"]],
    },
    "nothing": {"do": [["write", "DIR/a", "two\n"]]},
}


def placed(told: dict[str, Any], project: Path) -> dict[str, Any]:
    filled: dict[str, Any] = json.loads(json.dumps(told).replace("DIR", str(project)))
    return filled


@pytest.mark.parametrize("told", COVERED.values(), ids=COVERED)
async def test_what_people_saw_and_allowed_is_done_once(tmp_path: Path, project: Path, told: Any) -> None:
    told = placed(told, project)
    again = {**told, "do": told["do"] * 2}
    hosted = {"preset": "ask"}
    async with hosting(tmp_path / "state", Asking, hosted=hosted) as house, house.visit("ann", Person()) as person:
        session = await person.new_session(project)
        assert await done(person, session, told) == ("yes.done.", ["agent"])
        (project / "a").write_text("one\n")
        (project / "b").unlink(missing_ok=True)
        said, seen = await done(person, session, again)
        assert (said, seen) == ("yes.done.refused.", ["agent", "host"])


@pytest.mark.parametrize("told", ASKED.values(), ids=ASKED)
async def test_what_people_did_not_see_is_asked_about(tmp_path: Path, project: Path, told: Any) -> None:
    told = placed(told, project)
    hosted = {"preset": "ask"}
    async with hosting(tmp_path / "state", Asking, hosted=hosted) as house, house.visit("ann", Person()) as person:
        session = await person.new_session(project)
        said, seen = await done(person, session, told)
        assert said.endswith("refused.") and seen[-1] == "host"
    assert (project / "a").read_text() == "one\n" and not (project / "b").exists()


async def test_a_yes_ends_with_its_turn_and_is_in_the_audit_log(tmp_path: Path, project: Path) -> None:
    state = tmp_path / "host"
    told = placed(COVERED["a diff"], project)
    hosted = {"preset": "ask", "state": str(state)}
    async with hosting(tmp_path / "state", Asking, hosted=hosted) as house, house.visit("ann", Person()) as person:
        session = await person.new_session(project)
        assert await done(person, session, {"ask": told["ask"]}) == ("yes.", ["agent"])
        assert await done(person, session, {"do": told["do"]}) == ("refused.", ["host"])
    events = [json.loads(line) for line in (state / "audit.jsonl").read_text().splitlines()]
    (claim,) = [event for event in events if event.get("operation") == "claim"]
    assert (
        claim["decision"] == "allow" and claim["asked"] and claim["claims"]["changes"][0]["path"] == f"{project}/a"
    )


async def test_people_at_a_served_agent_are_asked_once(tmp_path: Path, project: Path) -> None:
    state, person = tmp_path / "state", Person()
    agent = f"asking={sys.executable} {Path(__file__).with_name('asking.py')}"
    options = ("--agent", agent, "--lend", "host", "--permissions", "ask")
    async with served(state, *options) as (url, _):
        headers = {"Authorization": f"Bearer {(state / 'local.token').read_text()}"}
        async with connect(f"{url}/asking", person, headers=headers):
            session = await person.new_session(project)
            for told in (COVERED["a diff"], COVERED["a command"]):
                assert await done(person, session, placed(told, project)) == ("yes.done.", ["agent"])
            assert await done(person, session, placed(ASKED["nothing"], project)) == ("refused.", ["host"])
