"""The tools: files as the user has them, edits as the model quotes them, commands, searches, questions."""

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import schema as s
from dragoman.coder import ScriptedModel, call
from dragoman.coder.context.history import Media, Results
from dragoman.coder.files.edits import NoMatch, replaced
from dragoman.testing import RecordingClient

from .desk import BareClient, DiskClient, asked, calls, desk, results, updates

pytestmark = pytest.mark.usefixtures("nothing_left")


async def run(cwd: Path, *steps: Any, **settings: Any) -> list[tuple[str, str, str]]:
    """What the model is told of calls made one after the other."""
    async with desk(cwd, *steps, "Done.", **{"mode": "code", **settings}) as (session, _, model):
        await session.prompt("Go")
        return results(model)


# Reading


async def test_unsaved_changes_are_read_and_edited(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("saved\n")
    client = RecordingClient(files={str(path): "unsaved\n"})
    steps = call("read_file", path="a.txt"), call("edit_file", path="a.txt", old="unsaved", new="edited")
    told = await run(tmp_path, *steps, client=client)
    assert told[0][2] == "     1\tunsaved"
    assert client.files[str(path)] == "edited\n"
    assert path.read_text() == "saved\n"  # saving it is the editor's business


async def test_a_long_file_comes_in_parts(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("".join(f"line {i}\n" for i in range(1, 5001)))
    told = await run(tmp_path, call("read_file", path="long"), call("read_file", path="long", offset=4999))
    assert told[0][2].endswith("(3000 more lines; go on with offset 2001.)")
    assert told[1][2] == "  4999\tline 4999\n  5000\tline 5000"


@pytest.mark.parametrize(
    ("name", "why"), [("nothing", "There is no file nothing"), ("bytes", "not a text file"), ("dir", "not a file")]
)
async def test_what_cannot_be_read_says_why(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "dir").mkdir()
    ((_, outcome, words),) = await run(tmp_path, call("read_file", path=name), client=BareClient())
    assert outcome == "failed"
    assert why in words


async def test_a_picture_is_shown_to_a_model_that_sees_and_not_to_one_that_does_not(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    step = call("read_file", path="a.png")
    assert "reads no files of type image/png" in (await run(tmp_path, step))[0][2]
    seeing = ScriptedModel(step, "Nice.", takes=["image"])
    await run(tmp_path, model=seeing)
    told = next(message for message in seeing.requests[-1].history if isinstance(message, Results))
    (picture,) = [part for part in told.results[0].parts if isinstance(part, Media)]
    assert base64.b64decode(picture.data) == b"\x89PNG\r\n\x1a\n"


# Editing


async def test_a_file_must_be_read_before_it_is_changed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    steps = call("edit_file", path="a", old="one", new="two"), call("write_file", path="a", content="two")
    told = await run(tmp_path, *steps)
    assert [outcome for _, outcome, _ in told] == ["failed", "failed"]
    assert (tmp_path / "a").read_text() == "one"


async def test_a_file_changed_since_it_was_read_must_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")

    def changed(_: Any) -> Any:
        path.write_text("one and more")
        return call("edit_file", path="a", old="one", new="two")

    told = await run(tmp_path, call("read_file", path="a"), changed)
    assert "has changed since you read it" in told[1][2]
    assert path.read_text() == "one and more"


async def test_a_file_changed_while_the_user_is_asked_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")

    def meanwhile(request: s.RequestPermissionRequest) -> str:
        path.write_text("typed by the user")
        return "allow"

    steps = call("read_file", path="a"), call("edit_file", path="a", old="one", new="two")
    told = await run(tmp_path, *steps, mode="ask", client=DiskClient(permissions=meanwhile))
    assert "changed by someone else" in told[1][2]
    assert path.read_text() == "typed by the user"


@pytest.mark.parametrize("client", [DiskClient, BareClient])
async def test_a_new_file_is_made_with_its_directories(tmp_path: Path, client: Any) -> None:
    told = await run(tmp_path, call("write_file", path="a/b/c.txt", content="hello\n"), client=client())
    assert told == [("write_file", "success", "Made a/b/c.txt.")]
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "hello\n"


def test_an_exact_quote_is_replaced_once_or_everywhere() -> None:
    assert replaced("a b a", "b", "c").text == "a c a"
    assert replaced("x\na\na\n", "a", "b", everywhere=True).lines == (2, 3)
    with pytest.raises(NoMatch, match=r"2 times \(lines 1, 1\)"):
        replaced("a b a", "a", "c")
    with pytest.raises(NoMatch, match="not in the file"):
        replaced("abc", "x", "y")
    with pytest.raises(NoMatch, match="nothing to replace"):
        replaced("abc", "", "y")


def test_a_quote_with_other_whitespace_fits_one_place_and_keeps_the_files_own() -> None:
    text = "class A:\n    def f(self):\n        return 1\n"
    edit = replaced(text, "def f(self):\n    return 1", "def f(self):\n    return 2")
    assert edit.text == text.replace("1", "2")
    assert edit.warning
    with pytest.raises(NoMatch, match="nearly so in 2 places"):
        replaced(" a\n  a\n", "\ta", "b")


def test_windows_line_ends_stay() -> None:
    assert replaced("one\r\ntwo\r\n", "one\ntwo", "1\n2").text == "1\r\n2\r\n"


@given(st.text(), st.text(min_size=1), st.text(), st.text())
def test_a_quote_that_is_there_once_is_replaced_and_nothing_else(
    before: str, old: str, new: str, after: str
) -> None:
    text = before + old + after
    if text.count(old) != 1 or old == new or "\r" in text + new:
        return
    assert replaced(text, old, new).text == before + new + after


# Commands


async def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    step = call("run_command", command="echo begun; sleep 600", timeout=1)
    for client in (DiskClient(), BareClient()):
        ((_, outcome, words),) = await run(tmp_path, step, client=client)
        assert outcome == "failed"
        assert "took longer than 1 s" in words and "begun" in words


@pytest.mark.parametrize("client", [DiskClient, BareClient])
async def test_a_cancelled_command_is_gone(tmp_path: Path, client: Any) -> None:
    ready = tmp_path / "ready"
    script = f"import os, time\nopen({str(ready)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    (tmp_path / "wait.py").write_text(script)
    step = call("run_command", command=f"{sys.executable} wait.py")
    async with asyncio.timeout(30), desk(tmp_path, step, client=client()) as (session, there, _):
        prompt = session.prompt("Go")
        async for update in prompt:
            if isinstance(update, s.ToolCallUpdated) and update.status == "in_progress":
                break
        for _ in range(1000):
            if ready.exists() and ready.read_text():
                break
            await asyncio.sleep(0.01)
        session.cancel()
        assert (await prompt).stop_reason == "cancelled"
        assert there.terminals == []
    assert not Path(f"/proc/{ready.read_text()}").exists()


@pytest.mark.parametrize("client", [DiskClient, BareClient])
async def test_a_command_in_the_background_runs_beside_the_conversation_until_it_is_stopped(
    tmp_path: Path, client: Any
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def told_it(_: Any) -> Any:
        fifo.write_text("hello\n")  # ends only when the command reads it
        return call("run_command", command="until test -f done; do sleep 0.05; done")

    steps = [
        call("run_command", command="cat fifo && touch done && exec sleep 600", background=True),
        told_it,
        "Started.",
        call("command_output", id="command-1"),
        call("stop_command", id="command-1"),
        call("command_output", id="command-1"),
        "Done.",
    ]
    async with asyncio.timeout(30), desk(tmp_path, *steps, client=client()) as (session, there, model):
        await session.prompt("Start it")
        assert len(there.terminals) == (1 if client is DiskClient else 0)
        await session.prompt("Stop it")
        told = {name: words for name, _, words in results(model)}
        assert there.terminals == []
    printed = next(words for name, _, words in results(model) if name == "command_output")
    assert printed.startswith("It still runs.\nhello")
    assert told["stop_command"] == "It is over."
    assert "No command runs" in told["command_output"]


async def test_where_nothing_may_change_no_command_is_stopped(tmp_path: Path) -> None:
    start = call("run_command", command="sleep 600", background=True)
    async with desk(tmp_path, start, "Started.", call("stop_command", id="command-1"), "Done.") as (
        session,
        there,
        model,
    ):
        await session.prompt("Start it")
        await session.set_mode("plan")
        await session.prompt("Stop it")
        assert len(there.terminals) == 1
    assert results(model)[1][:2] == ("stop_command", "denied")


@pytest.mark.parametrize("client", [DiskClient, BareClient])
async def test_a_command_in_the_background_ends_with_its_session(tmp_path: Path, client: Any) -> None:
    step = call("run_command", command="echo $$ > pid && exec sleep 600", background=True)
    async with asyncio.timeout(30), desk(tmp_path, step, "Done.", client=client()) as (session, there, _):
        await session.prompt("Start it")
        await session.close()
        assert there.terminals == []


async def test_long_output_is_cut_and_kept_where_the_model_can_read_it(tmp_path: Path) -> None:
    def read_spilled(request: Any) -> Any:
        words = results(model)[0][2]
        assert len(words) < 60_000
        path = words.split("all of it is in ")[1].split("]")[0]
        return call("read_file", path=path, offset=9000, limit=1)

    model = ScriptedModel(call("run_command", command="seq 20000"), read_spilled, "Done.")
    async with desk(tmp_path, model=model) as (session, client, _):
        await session.prompt("Go")
    assert results(model)[1][2].startswith("  9000\t8999")
    assert len(asked(client)) == 1  # the command; what it printed is the model's to read


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("echo test", ["echo", "test"]),
        ("true && echo test", ["/bin/sh", "-c", "true && echo test"]),
        ("cd /", ["/bin/sh", "-c", "cd /"]),
        ("A=1 env", ["/bin/sh", "-c", "A=1 env"]),
        ("echo $HOME", ["/bin/sh", "-c", "echo $HOME"]),
        ("echo 'a b'", ["/bin/sh", "-c", "echo 'a b'"]),
    ],
)
async def test_plain_words_are_run_as_they_are_and_anything_else_by_a_shell(
    tmp_path: Path, command: str, argv: list[str]
) -> None:
    client = DiskClient()
    await run(tmp_path, call("run_command", command=command), client=client)
    (request,) = asked(client)
    assert request.tool_call.title == command
    assert request.tool_call.raw_input == {"command": command}
    (made,) = [request for request in client.requests if isinstance(request, s.CreateTerminalRequest)]
    assert [made.command, *made.args] == argv
    assert made.cwd == str(tmp_path)


# Searching


async def test_files_are_found_and_searched_without_what_is_ignored(tmp_path: Path) -> None:
    for name, text in {
        "src/a.py": "needle = 1\n",
        "src/b.txt": "Needle\n",
        "build/out.py": "needle\n",
        "node_modules/x.js": "needle\n",
        "keep.log": "needle\n",
        "drop.log": "needle\n",
        "bin": "needle\0",
        ".gitignore": "build/\n*.log\n!keep.log\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    told = await run(
        tmp_path,
        call("list_files"),
        call("list_files", pattern="*.py"),
        call("search", pattern="needle"),
        call("search", pattern="needle", ignore_case=True, include="*.txt"),
        call("search", pattern="("),
        call("search", pattern="x", path="/etc"),
    )
    assert told[0][2].splitlines() == [".gitignore", "bin", "keep.log", "src/a.py", "src/b.txt"]
    assert told[1][2] == "src/a.py"
    found = ["bin: it matches, and is no text", "keep.log:1: needle", "src/a.py:1: needle = 1"]
    assert told[2][2].splitlines() == found
    assert told[3][2] == "src/b.txt:1: Needle"
    assert "not a regular expression" in told[4][2]
    assert "outside" in told[5][2]


async def test_a_pattern_that_takes_for_ever_can_be_cancelled(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a" * 390 + "b\n")
    async with asyncio.timeout(30), desk(tmp_path, call("search", pattern="(a+)+$")) as (session, _, _m):
        prompt = session.prompt("Go")
        async for update in prompt:
            if isinstance(update, s.ToolCallUpdated) and update.status == "in_progress":
                break
        session.cancel()
        assert (await prompt).stop_reason == "cancelled"


# Speaking with the user


async def test_the_plan_is_shown(tmp_path: Path) -> None:
    steps = [{"content": "Look", "status": "completed"}, {"content": "Act", "status": "in_progress"}]
    async with desk(tmp_path, call("update_plan", steps=steps), "Done.") as (session, client, _):
        await session.prompt("Go")
    (plan,) = [update for update in updates(client) if isinstance(update, s.Plan)]
    assert [(entry.content, entry.status) for entry in plan.entries] == [
        ("Look", "completed"),
        ("Act", "in_progress"),
    ]


async def test_the_user_is_asked_and_answers_or_not(tmp_path: Path) -> None:
    step = call("ask_user", question="Tabs or spaces?", choices=["tabs", "spaces"])
    told = await run(tmp_path, step, client=DiskClient(form={"answer": "spaces"}))
    assert told[0][1:] == ("success", "spaces")
    told = await run(tmp_path, step, client=DiskClient(form=None))
    assert told[0][1] == "denied"


async def test_a_client_without_forms_is_not_asked(tmp_path: Path) -> None:
    async with desk(tmp_path, "Done.", client=BareClient()) as (session, _, model):
        await session.prompt("Go")
    assert "ask_user" not in {tool.name for tool in model.requests[0].tools}


async def test_what_is_wrong_with_an_edit_is_told_to_the_model(tmp_path: Path) -> None:
    steps = (
        call("write_file", path="a.py", content="def broken(:\n"),
        call("write_file", path="ok.py", content="x = 1\n"),
    )
    told = await run(tmp_path, *steps)
    assert "Checks after your edits found" in told[0][2]
    assert "a.py:1" in told[0][2]


async def test_every_call_ends_and_none_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    step = [call("read_file", path="a"), call("read_file", path="nothing"), call("nothing"), call("list_files")]
    async with desk(tmp_path, step, "Done.") as (session, client, _):
        await session.prompt("Go")
    assert [shown["status"] for shown in calls(client).values()] == ["completed", "failed", "failed", "completed"]


STEPS = {"tabs": "\t", "two spaces": "  ", "four spaces": "    ", "eight spaces": "        "}
BEFORE = ((2, "if warm:"), (3, "pour(tea)"), (2, "return cup"))
AFTER = ((2, "if warm:"), (3, "for leaf in pot:"), (4, "if leaf:"), (5, "pour(leaf)"), (2, "else:"), (3, "wait()"))


def _block(lines: tuple[tuple[int, str], ...], step: str, shift: int = 0) -> str:
    return "\n".join(step * (level + shift) + words for level, words in lines)


@pytest.mark.parametrize("shift", [-2, -1, 0, 1])
@pytest.mark.parametrize("quoted", STEPS)
@pytest.mark.parametrize("own", STEPS)
def test_text_quoted_with_other_whitespace_is_indented_as_the_file_is(own: str, quoted: str, shift: int) -> None:
    head = f"class Tea:\n{STEPS[own]}def brew(self):\n"
    text = f"{head}{_block(BEFORE, STEPS[own])}\n"
    old, new = (_block(lines, STEPS[quoted], shift) for lines in (BEFORE, AFTER))
    assert replaced(text, old, new).text == f"{head}{_block(AFTER, STEPS[own])}\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if warm:\npour(tea)", "if warm:\n    pour(tea)\npour(milk)"),  # one depth quoted for two
        ("if warm:\n   pour(tea)\n return cup", "if warm:\n     stir()\n     pour(tea)"),  # depths of no step
        ("        pour(tea)\n    return  cup", "pass"),  # the words differ
        ("            pour(tea)\n      return cup", "pour(tea)\n  return cup"),  # shallower than the file's first
    ],
)
def test_an_edit_whose_indentation_would_be_a_guess_is_refused(old: str, new: str) -> None:
    text = f"class Tea:\n    def brew(self):\n{_block(BEFORE, '    ')}\n"
    with pytest.raises(NoMatch, match=r"exactly|not in the file"):
        replaced(text, old, new)
