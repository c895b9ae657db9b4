"""Programs that do not speak ACP: driven at a terminal through `dragoman agent pty`, as real processes."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Client, InternalError, InvalidParams, InvalidRequest, Session, connect
from dragoman import schema as s
from dragoman.bridges.pty import Profile
from dragoman.bridges.pty.profiles import find_profile
from dragoman.bridges.pty.program import Program
from dragoman.host.terminals import Size, Terminals, execution
from dragoman.testing import RecordingClient

pytestmark = pytest.mark.usefixtures("nothing_left")

PROGRAM = [sys.executable, str(Path(__file__).parent / "peers" / "program.py")]
BASH = ["bash", "--norc"]
FAST = ("--prompt", "you> $")


@asynccontextmanager
async def at_terminal(
    command: list[str], directory: Path, *options: str, client: Client | None = None
) -> AsyncIterator[Session]:
    agent = [sys.executable, "-m", "dragoman", "agent", "pty", *options, "--", *command]
    async with connect(agent, client or RecordingClient(), env={"PS1": "$ "}) as connected:
        yield await connected.new_session(directory)


async def said(session: Session, prompt: str | s.ContentBlock) -> str:
    """All that is said in a turn."""
    events = [event async for event in session.prompt(prompt)]
    assert isinstance(events[-1], s.PromptResponse)
    return words(events)


def words(events: list[Any]) -> str:
    texts = [event.content for event in events if isinstance(event, s.AgentMessageChunk)]
    return "".join(text.text for text in texts if isinstance(text, s.TextContent))


async def until_said(turn: Any, expected: str) -> str:
    """What a turn that goes on has said when it says this."""
    told = ""
    async for event in turn:
        told += words([event])
        if expected in told:
            return told
    raise AssertionError(told)


async def test_a_shell_keeps_its_state_from_turn_to_turn(tmp_path: Path) -> None:
    async with at_terminal(BASH, tmp_path) as session:
        assert await said(session, "X=5; cd /") == ""
        assert await said(session, "echo $X; pwd; printf 'no newline'") == "5\n/\nno newline"
        assert await said(session, "for i in 1 2; do\necho $i\ndone") == "1\n2"
        assert await said(session, "echo 'tab:\there'") == "tab:    here"
        assert await said(session, "printf '\\033[31mred\\033[0m 10%%\\r100%%\\n'") == "100%10%"
        assert await said(session, f"echo {'x' * 500}") == "x" * 500


async def test_python_takes_blocks_of_lines(tmp_path: Path) -> None:
    async with at_terminal([sys.executable, "-q", "-i"], tmp_path) as session:
        assert await said(session, "def f(x):\n    return x * 2") == ""
        assert await said(session, "f('tea')") == "'teatea'"
        assert "ZeroDivisionError" in await said(session, "1 / 0")


@pytest.mark.parametrize(("answer", "outcome"), [("allow", "deleted"), ("reject", "kept"), ("cancel", "kept")])
async def test_a_question_of_the_program_is_a_permission_request(tmp_path: Path, answer: Any, outcome: str) -> None:
    client = RecordingClient(permissions=answer)
    async with at_terminal(PROGRAM, tmp_path, *FAST, client=client) as session:
        assert (await said(session, "delete")).split("\n")[-1].endswith(outcome)
        (question,) = client.requests
        assert isinstance(question, s.RequestPermissionRequest)
        assert question.tool_call.title == "Really delete? [y/N]"
        assert [(option.name, option.kind) for option in question.options] == [
            ("Yes", "allow_once"),
            ("No", "reject_once"),
        ]
        assert "About to delete everything." in str(question.tool_call.content)


async def test_cancel_is_ctrl_c_and_the_program_goes_on(tmp_path: Path) -> None:
    async with at_terminal(PROGRAM, tmp_path, *FAST) as session:
        turn = session.prompt("wait")
        await until_said(turn, "waiting")
        session.cancel()
        assert "interrupted" in await until_said(turn, "interrupted")
        assert (await turn).stop_reason == "cancelled"
        assert await said(session, "tea") == "you said tea"


async def test_a_turn_that_is_cancelled_while_a_question_is_open_answers_no(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def never(request: s.RequestPermissionRequest) -> str | None:
        asked.set()
        await asyncio.Event().wait()
        return None

    async with at_terminal(PROGRAM, tmp_path, *FAST, client=RecordingClient(permissions=never)) as session:
        turn = session.prompt("delete")
        await asked.wait()
        session.cancel()
        told = words([event async for event in turn])
        assert "deleted" not in told and turn.response.stop_reason == "cancelled"
        assert await said(session, "tea") == "you said tea"


async def test_the_terminal_is_resized_by_an_option_and_to_any_size(tmp_path: Path) -> None:
    async with at_terminal(PROGRAM, tmp_path, "--size", "90x30", *FAST) as session:
        assert await said(session, "size") == "90x30"
        await session.set_config_option("size", "120x40")
        assert await said(session, "size") == "120x40"
        agent = session.client.agent
        await agent.request("_dragoman/pty/resize", {"sessionId": session.id, "columns": 33, "rows": 7})
        assert await said(session, "size") == "33x7"
        with pytest.raises(InvalidParams, match="between 2 and 1000"):
            await agent.request("_dragoman/pty/resize", {"sessionId": session.id, "columns": 1, "rows": 7})


async def test_a_program_that_floods_is_told_whole_and_in_order(tmp_path: Path) -> None:
    async with at_terminal(PROGRAM, tmp_path, *FAST) as session:
        assert await said(session, "flood") == "\n".join(f"line {number}" for number in range(20_000))


async def test_a_program_that_is_followed_waits_for_a_slow_reader_and_loses_no_line(tmp_path: Path) -> None:
    told: list[str] = []

    async def slowly(text: str) -> None:
        for _ in range(0 if told else 20_000):
            await asyncio.sleep(0)  # a step of the loop, in which the program is read on
        told.append(text)

    async with Terminals() as terminals:
        operation = execution("bash", ["-c", "seq 50000"], cwd=str(tmp_path), interactive=True)
        program = Program(await terminals.create("s", operation, size=Size(80, 24)), Profile(), Size(80, 24))
        assert (await program.wait(slowly)).kind == "ended"
        await program.reader
    assert "".join(told) == "\n".join(map(str, range(1, 50_001)))


async def test_a_flood_without_end_is_cancelled_and_is_not_kept(tmp_path: Path) -> None:
    async with at_terminal(BASH, tmp_path) as session:
        turn = session.prompt("yes tea")
        await until_said(turn, "tea\ntea\ntea")
        session.cancel()
        assert (await turn).stop_reason == "cancelled"
        assert await said(session, "echo again") == "again"


async def test_a_program_that_never_prompts_ends_its_turn_by_silence(tmp_path: Path) -> None:
    async with at_terminal(["sleep", "1000"], tmp_path, "--silence", "0.3") as session:
        assert await said(session, "are you there?") == ""
        assert (await status(session))["running"]


async def test_the_prompt_of_an_unknown_program_is_learned_by_silence(tmp_path: Path) -> None:
    async with at_terminal(PROGRAM, tmp_path, "--silence", "1") as session:
        assert [await said(session, word) for word in ("one", "two")] == ["you said one", "you said two"]


async def status(session: Session) -> Any:
    return await session.client.agent.request("_dragoman/pty/status", {"sessionId": session.id})


@pytest.mark.parametrize(
    ("prompt", "ended"),
    [("quit 3", {"exitCode": 3, "signal": None}), ("kill", {"exitCode": None, "signal": "SIGKILL"})],
)
async def test_a_program_that_dies_is_an_error_with_its_exit_status(
    tmp_path: Path, prompt: str, ended: dict[str, Any]
) -> None:
    async with at_terminal(PROGRAM, tmp_path, *FAST) as session:
        assert await said(session, "tea") == "you said tea"
        alive = await status(session)
        assert alive["running"] and alive["screen"][-1] == "you>"
        if prompt == "kill":
            turn = session.prompt("wait")
            await until_said(turn, "waiting")
            os.kill(alive["pid"], 9)
        else:
            turn = session.prompt(prompt)
        with pytest.raises(
            InternalError, match=r"the program (exited with status 3|was ended by SIGKILL)"
        ) as failed:
            await turn
        assert failed.value.data == {"kind": "program_ended", **ended}
        dead = await status(session)
        assert not dead["running"] and {name: dead[name] for name in ended} == ended
        with pytest.raises(InvalidRequest, match="open a new session"):
            await session.prompt("tea")


async def test_a_program_that_ends_well_ends_its_turn(tmp_path: Path) -> None:
    async with at_terminal(PROGRAM, tmp_path, *FAST) as session:
        response = await session.prompt("quit")
    assert response.stop_reason == "end_turn"
    assert response.meta == {"dragoman": {"programEnded": {"exitCode": 0, "signal": None}}}


async def test_the_end_between_two_turns_is_told_at_once(tmp_path: Path) -> None:
    async with at_terminal(PROGRAM, tmp_path, *FAST) as session:
        await said(session, "tea")
        os.kill((await status(session))["pid"], 15)
        async for update in session.updates():
            if isinstance(update, s.Notice):
                assert (update.title, update.severity) == ("The program was ended by SIGTERM.", "warning")
                break


async def test_programs_end_with_their_session_and_with_the_agent(tmp_path: Path) -> None:
    client = RecordingClient()
    async with at_terminal(BASH, tmp_path, client=client) as first:
        second = await client.new_session(tmp_path)
        pids = [(await status(session))["pid"] for session in (first, second)]
        assert await said(second, "sleep 1000 & echo $!") != ""
        await first.close()
        assert not os.path.exists(f"/proc/{pids[0]}") and os.path.exists(f"/proc/{pids[1]}")
        assert await said(second, "echo here") == "here"
    assert not os.path.exists(f"/proc/{pids[1]}")


async def test_a_program_that_is_not_there_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InvalidParams, match="cannot run 'no-such-program': No such file or directory"):
        async with at_terminal(["no-such-program"], tmp_path):
            pass


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("Add .aider* to .gitignore (recommended)? (Y)es/(N)o [Yes]: ", ["allow_once", "reject_once"]),
        (
            "Run shell command? (Y)es/(N)o/(S)kip all/(D)on't ask again [Yes]: ",
            ["allow_once", "reject_once", "reject_always", "reject_always"],
        ),
        (
            "Add file to the chat? (Y)es/(N)o/(A)ll/(S)kip all/(D)on't ask again [Yes]: ",
            ["allow_once", "allow_always", "reject_once", "reject_always", "reject_always"],
        ),
    ],
)
def test_the_profile_of_aider_knows_its_prompt_and_its_questions(line: str, kinds: list[str]) -> None:
    profile = find_profile(["/opt/bin/aider", "--model", "m"], user_file=Path("/nowhere/programs.toml"))
    question = next(each for each in profile.all_questions if re.search(each.pattern, line))
    assert [option.kind for option, _ in question.offered(line)] == kinds
    assert profile.prompt and not re.search(profile.prompt, line)
    assert re.search(profile.prompt, "> ") and re.search(profile.prompt, "multi> ")


async def test_what_cannot_be_typed_is_refused(tmp_path: Path) -> None:
    async with at_terminal(PROGRAM, tmp_path, *FAST) as session:
        with pytest.raises(InvalidParams, match="control character '\\\\x1b'"):
            await session.prompt("\x1b[A")
        async with at_terminal(["cat"], tmp_path, "--silence", "0.2") as cat:
            with pytest.raises(InvalidParams, match="lines of 4095 bytes"):
                await cat.prompt("x" * 5000)
        link = s.ResourceLink(name="a", uri="file:///etc/passwd")
        events = [event async for event in session.prompt([s.TextContent(text="tea"), link])]
        assert words(events) == "you said tea"
        thought = next(event.content for event in events if isinstance(event, s.AgentThoughtChunk))
        assert re.match("Links are not typed: file:///etc/passwd", getattr(thought, "text", ""))
