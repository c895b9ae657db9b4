"""The methods of our own, as an agent in a process of its own calls them."""

import asyncio
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from torture.errands import answer, answers, hosting
from torture.host_permissions import Screen

from dragoman import Error, ResourceNotFound, RpcError, connect
from dragoman.host import Host
from dragoman.host.answers import ROOM
from dragoman.host.terminals import SandboxUnavailable, TerminalLimits
from dragoman.testing import Testy

pytestmark = pytest.mark.usefixtures("nothing_left")
MIB = 1024 * 1024


def program(code: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-c", code]}


# Files


async def test_text_is_read_with_its_encoding_and_the_number_of_its_lines(project: Path) -> None:
    (project / "latin").write_bytes("é\nb\nc\n".encode("latin-1"))
    async with hosting(Host(preset="allow-reads"), project) as session:
        read = {"path": f"{project}/latin", "encoding": "latin-1", "startLine": 1, "endLine": 2}
        said = await answer(session, "_dragoman/fs/read_text_file", **read)
    assert said == {"content": "é\nb\n", "encoding": "iso8859-1", "totalLines": 3, "truncated": False}


async def test_text_is_written_as_its_sender_wants_it(project: Path) -> None:
    path = f"{project}/deep/er/file"
    async with hosting(Host(preset="allow-edits"), project) as session:
        write = "_dragoman/fs/write_text_file"
        assert await answer(session, write, path=path, content="a", createDirectories=False) == (-32002, None)
        assert await answer(session, write, path=path, content="é") == {"bytesWritten": 2, "created": True}
        assert await answer(session, write, path=path, content="b", overwrite=False) == (-32602, "exists")
        wrong, right = (hashlib.sha256(text.encode()).hexdigest() for text in ("x", "é"))
        assert await answer(session, write, path=path, content="b", expectedSha256=wrong) == (-32602, "changed")
        written = await answer(session, write, path=path, content="b", expectedSha256=right)
        assert written == {"bytesWritten": 1, "created": False}


async def test_bytes_are_read_and_written(project: Path) -> None:
    path = f"{project}/bytes"
    async with hosting(Host(preset="allow-edits"), project) as session:
        written = await answer(session, "_dragoman/fs/write_binary_file", path=path, data="AAEC/w==")
        assert written == {"bytesWritten": 4, "created": True}
        read = await answer(session, "_dragoman/fs/read_binary_file", path=path, offset=1, length=2)
        assert read == {"data": "AQI=", "size": 4}


async def test_directories_are_listed_and_made(project: Path) -> None:
    async with hosting(Host(preset="allow-edits"), project) as session:
        made = [await answer(session, "_dragoman/fs/create_directory", path=f"{project}/d/e") for _ in "12"]
        assert made == [{"created": True}, {"created": False}]
        listed = await answer(session, "_dragoman/fs/list_directory", path=str(project))
    entries = [{"name": "a.txt", "type": "file", "size": 14}, {"name": "d", "type": "directory"}]
    assert listed == {"entries": entries, "truncated": False}


async def test_several_files_are_changed_at_once_and_each_change_is_shown(project: Path) -> None:
    screen = Screen("allow_once")
    edits = [
        {"type": "replace", "path": f"{project}/a.txt", "replacements": [{"oldText": "two", "newText": "2"}]},
        {"type": "write", "path": f"{project}/new.txt", "content": "new\n"},
    ]
    async with hosting(Host(asker=screen), project) as session:
        done = await answer(session, "_dragoman/fs/apply_edits", edits=edits)
        assert [file["path"] for file in done["files"]] == [f"{project}/a.txt", f"{project}/new.txt"]
        assert (project / "a.txt").read_text() == "one\n2\nthree\n"
        details = [question.detail for question in screen.seen]
        assert details == ["@@ -1,3 +1,3 @@\n one\n-two\n+2\n three", "@@ -0,0 +1,1 @@\n+new"]
        screen.choice = "reject_once"
        edits = [{"type": "delete", "path": f"{project}/{name}"} for name in ("a.txt", "new.txt")]
        assert await answer(session, "_dragoman/fs/apply_edits", edits=edits) == (-32602, "not_permitted")
    assert sorted(path.name for path in project.iterdir()) == ["a.txt", "new.txt"]


async def test_changes_are_told_until_they_are_no_longer_wanted(project: Path) -> None:
    host = Host(preset="allow-edits")
    async with hosting(host, project) as session:
        watch = await answer(session, "_dragoman/fs/watch", path=str(project))
        orders = [["fs/write_text_file", {"path": f"{project}/b.txt", "content": "b"}], ["hear", {}]]
        _, news = await answers(session, orders)
        assert news["result"]["watchId"] == watch["watchId"]
        assert news["result"]["changes"] == [{"path": f"{project}/b.txt", "type": "created"}]
        ended = [await answer(session, "_dragoman/fs/unwatch", **watch) for _ in "12"]
        assert ended == [{"ended": True}, {"ended": False}]


async def test_a_session_watches_only_so_many_directories_and_none_when_it_is_closed(project: Path) -> None:
    host = Host(preset="allow-reads")
    async with hosting(host, project) as session:
        said = await answers(session, [["_dragoman/fs/watch", {"path": str(project)}]] * 17)
        assert said[-1]["error"][:2] == [-32001, "watch_limit"]
        assert all("result" in one for one in said[:-1])
        await session.close()


async def test_a_text_that_no_frame_can_hold_is_too_large(project: Path) -> None:
    (project / "lines").write_text("\n" * (10 * MIB))
    async with hosting(Host(preset="allow-reads"), project) as session:
        for method in ("fs/read_text_file", "_dragoman/fs/read_text_file"):
            assert await answer(session, method, path=f"{project}/lines") == (-32602, "too_large")
        part = await answer(session, "fs/read_text_file", path=f"{project}/lines", limit=1000)
        assert part == {"content": "\n" * 1000}


# Terminals


async def test_a_command_has_so_much_time_and_says_which_process_it_is(project: Path) -> None:
    host = Host(preset="allow-all")
    async with hosting(host, project) as session:
        command = {"command": "sh", "args": ["-c", "echo $$; sleep 1000"], "timeout": 300}
        created = await answer(session, "_dragoman/terminal/create", **command)
        id = created["terminalId"]
        ended = await answer(session, "_dragoman/terminal/wait_for_exit", terminalId=id)
        assert ended == {"output": f"{created['pid']}\n", "truncated": False, "timedOut": True, "signal": "SIGTERM"}


async def test_a_wait_ends_though_the_command_does_not(project: Path) -> None:
    async with hosting(Host(preset="allow-all"), project) as session:
        id = (await answer(session, "_dragoman/terminal/create", command="cat", args=["/dev/zero"]))["terminalId"]
        waited = await answer(session, "_dragoman/terminal/wait_for_exit", terminalId=id, timeout=0)
        assert (waited["timedOut"], "exitCode" in waited) == (True, False)
        assert await answer(session, "_dragoman/terminal/kill", terminalId=id, force=True) == {"killed": True}
        assert await answer(session, "_dragoman/terminal/kill", terminalId=id) == {"killed": False}
        assert await answer(session, "terminal/wait_for_exit", terminalId=id) == {"signal": "SIGKILL"}


async def test_a_signal_is_sent_and_nothing_more(project: Path) -> None:
    async with hosting(Host(preset="allow-all"), project) as session:
        command = {"command": "trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done", "push": True}
        created, news = await answers(session, [["_dragoman/terminal/create", command], ["hear", {}]])
        assert news["result"]["text"] == "ready\n"
        id = created["result"]["terminalId"]
        sent = await answer(session, "_dragoman/terminal/kill", terminalId=id, signal="USR1")
        ended = await answer(session, "terminal/wait_for_exit", terminalId=id)
        assert (sent, ended) == ({"killed": True}, {"exitCode": 7})
        bad = await answer(session, "_dragoman/terminal/kill", terminalId=id, signal="SIGNOTHING")
        assert bad == (-32602, "unknown_signal")


async def test_output_is_pushed_stream_by_stream_before_the_end_is_told(project: Path) -> None:
    async with hosting(Host(preset="allow-all"), project) as session:
        command = program("import sys; print('out'); print('err', file=sys.stderr)")
        create = ["_dragoman/terminal/create", {**command, "push": True}]
        said = await answers(session, [create, ["hear", {}], ["hear", {}]])
        id = said[0]["result"]["terminalId"]
        pushed = {news["result"]["stream"]: news["result"]["text"] for news in said[1:]}
        assert pushed == {"stdout": "out\n", "stderr": "err\n"}
        assert {news["result"]["terminalId"] for news in said[1:]} == {id}


async def test_an_interactive_command_is_asked_about_with_a_warning(project: Path) -> None:
    screen = Screen("allow_once")
    size = {"columns": 80, "rows": 24}
    async with hosting(Host(asker=screen), project) as session:
        command = {"command": "read name; echo hello $name; stty size", "size": size}
        id = (await answer(session, "_dragoman/terminal/create", **command))["terminalId"]
        assert await answer(session, "_dragoman/terminal/resize", terminalId=id, columns=132, rows=43) == {}
        assert await answer(session, "_dragoman/terminal/input", terminalId=id, text="Ada\n") == {}
        ended = await answer(session, "_dragoman/terminal/wait_for_exit", terminalId=id)
        assert ended["output"] == "Ada\r\nhello Ada\r\n43 132\r\n"
        bad = await answer(session, "_dragoman/terminal/create", **{**command, "size": {"columns": 0, "rows": 1}})
        assert bad == (-32602, "bad_size")
    (question,) = screen.seen
    assert question.warnings == ("the agent can type into it whatever it likes, without being asked again",)


async def test_output_that_no_frame_can_hold_loses_its_beginning(project: Path) -> None:
    async with hosting(Host(preset="allow-all"), project) as session:
        command = program(f"import sys; sys.stdout.write('\\x01' * {12 * MIB} + 'end')")
        id = (await answer(session, "terminal/create", **command, outputByteLimit=16 * MIB))["terminalId"]
        await answer(session, "terminal/wait_for_exit", terminalId=id)
        output = await answer(session, "terminal/output", terminalId=id, isLong=True)
        length, end = output["output"]
        assert end == "\x01\x01end"
        assert ROOM * 0.9 < len("\\u0001") * length <= ROOM


async def test_terminals_are_counted(project: Path) -> None:
    host = Host(preset="allow-all", limits=TerminalLimits(per_session=2))
    async with hosting(host, project) as session:
        said = await answers(session, [["terminal/create", {"command": "true"}]] * 3)
        assert said[2]["error"][:2] == [-32001, "terminal_limit"]


async def test_without_the_sandbox_that_was_asked_for_nothing_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(project))
    async with hosting(Host(preset="allow-all", sandbox=True), project) as session:
        said = await answer(session, "terminal/create", command="/bin/touch", args=["b"])
        assert said == (SandboxUnavailable.code, "sandbox_unavailable")
    assert not (project / "b").exists()


# Sessions that come back


async def test_sessions_that_are_loaded_resumed_and_forked_are_lent_their_directories(project: Path) -> None:
    host = Host(preset="allow-reads")
    async with asyncio.timeout(30), connect(Testy, host):
        session = await host.new_session(project)
        ways = {
            "loaded": lambda: host.load_session(session.id, project),
            "resumed": lambda: host.resume_session(session.id, project),
            "forked": lambda: host.fork_session(session.id, project),
        }
        for name, way in ways.items():
            if name != "forked":
                await session.close()
            opened = await way()
            list(opened.backlog())
            assert (await opened.prompt(f"read {project}/a.txt")).stop_reason == "end_turn", name


async def test_a_session_that_could_not_be_loaded_is_lent_nothing(project: Path) -> None:
    host = Host(preset="allow-reads")
    async with asyncio.timeout(30), connect(Testy, host):
        with pytest.raises(ResourceNotFound):
            await host.load_session("nobody's", project)
        session = await host.new_session(project)
        other = json.dumps({"sessionId": "nobody's", "path": f"{project}/a.txt"})
        with pytest.raises(RpcError, match="no such session"):
            await session.prompt(f"request fs/read_text_file {other}")


async def test_an_open_session_keeps_what_it_has_when_loading_it_fails(project: Path) -> None:
    host = Host(preset="allow-reads")
    async with asyncio.timeout(30), connect(Testy, host):
        session = await host.new_session(project)
        with pytest.raises(Error, match="cannot be lent"):
            await host.load_session(session.id, project / "nowhere")
        assert (await session.prompt(f"read {project}/a.txt")).stop_reason == "end_turn"
