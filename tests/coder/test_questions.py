"""The coder before a host of ours, and before clients that answer with less than the protocol has words for."""

from pathlib import Path
from typing import Any

import pytest

from dragoman import schema as s
from dragoman.coder import Coder, ScriptedModel
from dragoman.coder.model.scripted import call
from dragoman.host import Host
from dragoman.host.permissions import Question
from dragoman.testing import pair

from .desk import DiskClient, calls, desk, results


class Person:
    """Says yes to what the agent asks, and no to what the host asks."""

    def __init__(self) -> None:
        self.seen: list[Question] = []

    async def __call__(self, question: Question) -> str:
        self.seen.append(question)
        return "reject_once" if question.operation else "agent_1"


@pytest.mark.parametrize("preset", ["allow-reads", "allow-edits"])
async def test_whoever_allows_the_coder_something_is_asked_about_it_once(tmp_path: Path, preset: Any) -> None:
    project, person = tmp_path / "project", Person()
    project.mkdir()
    (project / "a").write_text("one\ntwo\n")
    model = ScriptedModel(
        call("read_file", path="a"),
        call("edit_file", path="a", old="two", new="2"),
        call("write_file", path="b", content="new\n"),
        call("run_command", command="cp a c && cp b d"),
        call("run_command", command="cp a e"),
        "Done.",
    )
    host = Host(asker=person, preset=preset, state=tmp_path / "state")
    async with pair(lambda remote: Coder(remote, model=model), host) as client:
        session = await client.new_session(project)
        await session.prompt("Go")
    assert [outcome for _, outcome, _ in results(model)] == ["success"] * 5
    assert {path.name: path.read_text() for path in project.iterdir()} == {
        "a": "one\n2\n", "b": "new\n", "c": "one\n2\n", "d": "new\n", "e": "one\n2\n",
    }  # fmt: skip
    assert len(person.seen) == (4 if preset == "allow-reads" else 2)
    assert not [question for question in person.seen if question.operation]


class EmptyClient(DiskClient):
    """Answers for a file that is not there with an empty text, as toad and CodeCompanion do."""

    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        if not Path(params.path).exists():
            return s.ReadTextFileResponse(content="")
        return await super().read_text_file(params)


async def test_an_empty_answer_for_a_file_that_is_not_there_is_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "full").write_text("words\n")
    steps = [call("write_file", path=name, content="new\n") for name in ("new", "empty", "full")]
    async with desk(tmp_path, *steps, "Done.", client=EmptyClient(), mode="code") as (session, _, model):
        await session.prompt("Go")
    made, replaced, refused = results(model)
    assert (made[1], made[2]) == ("success", "Made new.")
    assert (replaced[1], replaced[2]) == ("success", "Replaced empty.")
    assert "exists and you have not read it" in refused[2]
    assert (tmp_path / "full").read_text() == "words\n"


class SilentClient(DiskClient):
    """Says that a command has ended, and neither its exit code nor a signal: the protocol requires neither."""

    async def wait_for_terminal_exit(self, params: s.WaitForTerminalExitRequest) -> s.WaitForTerminalExitResponse:
        await super().wait_for_terminal_exit(params)
        return s.WaitForTerminalExitResponse()

    async def terminal_output(self, params: s.TerminalOutputRequest) -> s.TerminalOutputResponse:
        printed = await super().terminal_output(params)
        ended = None if printed.exit_status is None else s.TerminalExitStatus()
        return s.TerminalOutputResponse(output=printed.output, truncated=printed.truncated, exit_status=ended)


async def test_a_command_of_which_nobody_says_how_it_ended_is_no_success_and_has_no_exit_code(
    tmp_path: Path,
) -> None:
    step = call("run_command", command="echo done")
    async with desk(tmp_path, step, "Done.", client=SilentClient(), mode="code") as (session, client, model):
        await session.prompt("Go")
    ((_, outcome, told),) = results(model)
    assert (outcome, told) == ("failed", "It ended, and the client does not say how.\ndone")
    (shown,) = calls(client).values()
    assert shown["content"][-1].content.text == "It ended, and the client does not say how."
