"""What is shown of a question, whatever else is going on."""

from io import StringIO
from pathlib import Path

import msgspec

from dragoman import Client, codec
from dragoman import schema as s
from dragoman.dialects.draft.translator import Draft
from dragoman.host.operations import Execute, FileRead, FileWrite
from dragoman.host.permissions.claims import about_claim
from dragoman.host.permissions.questions import about
from dragoman.host.permissions.subjects import Subject
from dragoman.ui.headless.screen import Screen

CALL = s.ToolCallUpdate(
    tool_call_id="call_1",
    title="Edit",
    content=[s.Diff(path="/a.txt", old_text="old", new_text="new"), s.Diff(path="/b.txt", new_text="b\u202ea")],
)
CLAIM = s.RequestPermissionRequest(
    session_id="s",
    tool_call=CALL,
    options=[s.PermissionOption(option_id="y", name="Yes", kind="allow_once")],
)


def screen_and_words() -> tuple[Screen, StringIO]:
    words = StringIO()
    return Screen(StringIO(), words), words


def test_a_change_is_shown_though_the_agent_asks_about_another_one_at_the_same_time(tmp_path: Path) -> None:
    screen, words = screen_and_words()
    screen.asked_about(CLAIM)
    write = FileWrite(path=str(tmp_path / "c.txt"), digest="0")
    screen.question(about(write, "s", detail="-what is there\n+what will be"), {})
    assert "+what will be" in words.getvalue()


def test_what_a_question_has_shown_is_not_shown_again_when_the_call_goes_on() -> None:
    screen, words = screen_and_words()
    screen.asked_about(CLAIM)
    screen.question(about_claim(CLAIM, Subject()), {})
    screen.show(s.ToolCallUpdated(tool_call_id="call_1", status="completed"))
    assert words.getvalue().count("+new") == 1
    assert "✓ Edit" in words.getvalue()


def test_each_change_stands_under_its_file_with_what_hides_in_it_written_out_once() -> None:
    screen, words = screen_and_words()
    screen.question(about_claim(CLAIM, Subject()), {})
    asked = words.getvalue()
    assert asked.index("/a.txt\n") < asked.index("+new") < asked.index("/b.txt (new)\n")
    assert "+b\\u{202e}a" in asked


def test_a_call_shows_the_place_it_works_on_with_its_range() -> None:
    screen, words = screen_and_words()
    screen.began("testy", Client(), "s", "/project")
    call = {"id": "1", "tool": "fs/write_text_file", "input": {"path": "/project/a.ts"}, "status": "in_progress"}
    place = {"path": "/project/src/auth.ts", "line": 42, "column": 5, "endLine": 55, "endColumn": 2}
    update = {"type": "tool_call", "data": {**call, "location": place}}
    said = Draft("agent").inward({"method": "session/update", "params": {"sessionId": "s", **update}})
    told = codec.decode(msgspec.json.encode(said.onward[0]["params"]), s.SessionNotification)
    screen.show(told.update)
    assert words.getvalue().splitlines()[-1].endswith("  src/auth.ts:42:5-55:2")
    screen.show(s.ToolCall(tool_call_id="2", title="Read", locations=[s.ToolCallLocation(path="/b", line=7)]))
    screen.show(s.ToolCallUpdated(tool_call_id="2", status="completed"))
    assert words.getvalue().splitlines()[-1] == "✓ Read  /b:7"
    screen.show(s.ToolCall(tool_call_id="3", title="Read /b:7", locations=[s.ToolCallLocation(path="/b", line=7)]))
    screen.show(s.ToolCallUpdated(tool_call_id="3", status="completed"))
    assert words.getvalue().splitlines()[-1] == "✓ Read /b:7"
    screen.show(s.ToolCall(tool_call_id="4", title="Read /b", locations=[s.ToolCallLocation(path="/b", line=7)]))
    screen.show(s.ToolCallUpdated(tool_call_id="4", status="completed"))
    assert words.getvalue().splitlines()[-1] == "✓ Read /b:7"


def test_a_command_is_shown_to_the_letter_though_it_lies_in_the_sessions_directory(tmp_path: Path) -> None:
    screen, words = screen_and_words()
    screen._model.cwd = str(tmp_path)
    argv = (f"{tmp_path}/run", "a  b", "x" * 200)
    screen.question(about(Execute(argv=argv, cwd=str(tmp_path)), "s"), {})
    assert f"  {tmp_path}/run 'a  b' {'x' * 200}\n" in words.getvalue()
    screen.question(about(FileRead(path=f"{tmp_path}/a/b.txt"), "s"), {})
    assert "  a/b.txt\n" in words.getvalue()
