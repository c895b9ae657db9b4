"""An agent of the draft has of our host all that the draft says a client can do, and more than version 1 has."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.dialects import translator

from .test_draft import host, hosted, project  # noqa: F401 - a fixture

pytestmark = pytest.mark.usefixtures("project")


async def test_files_have_the_encoding_they_are_said_to_have(project: Path) -> None:  # noqa: F811
    async with hosted(host(preset="allow-edits"), project) as (_, agent):
        params = {"path": "latin.txt", "content": "é\n", "encoding": "latin-1"}
        written = await agent.ask_for("fs/write_text_file", params)
        assert written["result"] == {"bytesWritten": 2, "created": True}
        assert (project / "latin.txt").read_bytes() == b"\xe9\n"
        read = (await agent.ask_for("fs/read_text_file", {"path": "latin.txt", "encoding": "latin-1"}))["result"]
        assert (read["content"], read["totalLines"]) == ("é\n", 1)
        assert read["encoding"].replace("iso8859-1", "latin-1") == "latin-1"


async def test_directories_are_not_made_unless_they_may_be(project: Path) -> None:  # noqa: F811
    async with hosted(host(preset="allow-edits"), project) as (_, agent):
        params = {"path": "no/where.txt", "content": "", "createDirectories": False}
        assert "error" in await agent.ask_for("fs/write_text_file", params)
        assert not (project / "no").exists()
        made = await agent.ask_for("fs/write_text_file", {**params, "createDirectories": True})
        assert made["result"]["created"]


async def test_what_is_outside_is_refused_by_the_number_of_the_draft(project: Path) -> None:  # noqa: F811
    async with hosted(host(preset="allow-reads"), project) as (_, agent):
        error = (await agent.ask_for("fs/read_text_file", {"path": "/etc/passwd"}))["error"]
        assert error["code"] == -32005
        assert error["data"]["suggestion"] == "Use a path inside the session's working directory"


async def test_binary_files_listings_and_directories_are_to_be_had(project: Path) -> None:  # noqa: F811
    async with hosted(host(preset="allow-edits"), project) as (_, agent):
        wrote = await agent.ask_for("fs/write_binary_file", {"path": "a.bin", "data": "AAEC"})
        assert wrote["result"] == {"bytesWritten": 3, "created": True}
        read = await agent.ask_for("fs/read_binary_file", {"path": "a.bin"})
        assert read["result"] == {"data": "AAEC", "size": 3}
        assert (await agent.ask_for("fs/create_directory", {"path": "d"}))["result"] == {"created": True}
        listed = await agent.ask_for("fs/list_directory", {"path": "."})
        assert {"a.bin", "d", "src"} <= {entry["name"] for entry in listed["result"]["entries"]}


async def test_a_watched_directory_tells_what_changed_in_it(project: Path) -> None:  # noqa: F811
    async with asyncio.timeout(60), hosted(host(preset="allow-reads"), project) as (_, agent):
        watch = (await agent.ask_for("fs/watch", {"path": "src"}))["result"]["watchId"]
        (project / "src" / "new.ts").write_text("")
        news = await agent.serve("fs/changed")
        assert news["params"]["watchId"] == watch
        assert news["params"]["changes"] == [{"path": str(project / "src" / "new.ts"), "type": "created"}]
        assert (await agent.ask_for("fs/unwatch", {"watchId": watch}))["result"] == {"ended": True}


SCRIPT = "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(7))\nprint('up', flush=True)\n"


async def test_a_command_has_its_pid_its_streams_and_the_signal_it_is_sent(project: Path) -> None:  # noqa: F811
    async with asyncio.timeout(60), hosted(host(preset="allow-all"), project) as (_, agent):
        pushed: list[tuple[str, str]] = []

        def take_push(message: dict) -> None:
            pushed.append((message["params"]["stream"], message["params"]["data"]))
            agent.reply(message, {"received": True})

        agent.take_push = take_push
        script = f"{SCRIPT}print('oops', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
        made = (await agent.ask_for("terminal/create", {"command": "python3", "args": ["-c", script]}))["result"]
        assert made["pid"] > 1
        while {"up", "oops"} - set("".join(data for _, data in pushed).split()):
            take_push(await agent.receive())
        assert sorted(pushed) == [("stderr", "oops\n"), ("stdout", "up\n")]
        about = {"terminalId": made["terminalId"]}
        assert (await agent.ask_for("terminal/kill", {**about, "signal": "SIGINT"}))["result"] == {"killed": True}
        ended = (await agent.ask_for("terminal/wait_for_exit", {**about, "timeout": 30_000}))["result"]
        assert ended == {"exitCode": 7, "timedOut": False}
        assert (await agent.ask_for("terminal/release", about))["result"] == {"released": True}


def lending(*methods: str) -> tuple[Any, dict[str, Any]]:
    """The edge of an agent of the draft whose client lends these, with a session; and how the agent was greeted."""
    edge = translator("draft", "agent")
    offers = {"terminal": True, "_meta": {"dragoman": {"methods": [f"_dragoman/{name}" for name in methods]}}}
    said = {"protocolVersion": 1, "clientCapabilities": offers}
    greeting = edge.outward({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": said}).onward[0]
    edge.inward({"id": greeting["id"], "result": {"protocolVersion": 1, "capabilities": {}}})
    opening = {"cwd": "/", "mcpServers": []}
    (opened,) = edge.outward({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": opening}).onward
    edge.inward({"id": opened["id"], "result": {"sessionId": "s"}})
    return edge, greeting["params"]["capabilities"]


def test_watches_are_offered_where_they_are_lent() -> None:
    assert lending("fs/watch")[1]["fs"]["watch"] is True
    assert lending("fs/read_text_file")[1]["fs"]["watch"] is False


def test_an_agent_is_told_of_no_output_before_it_knows_the_terminal() -> None:
    edge, _ = lending("terminal/create")
    create = {
        "jsonrpc": "2.0",
        "id": "c",
        "method": "terminal/create",
        "params": {"command": "ls", "sessionId": "s"},
    }
    (asked,) = edge.inward(create).onward
    output = {"sessionId": "s", "terminalId": "t", "stream": "stdout", "text": "early"}
    pushed = edge.outward({"jsonrpc": "2.0", "method": "_dragoman/terminal/output", "params": output})
    assert (pushed.onward, pushed.back) == ([], [])
    made = edge.outward({"id": asked["id"], "result": {"terminalId": "t", "pid": 7}})
    assert [(message.get("id"), message.get("method")) for message in made.onward] == [("c", None)]
    ((_, key),) = made.wakes
    (told,) = edge.timer_due(key).back
    assert (told["method"], told["params"]["data"]) == ("terminal/output", "early")


async def test_why_a_permission_is_asked_for_is_shown(project: Path) -> None:  # noqa: F811
    made = host(["Allow once"])
    async with hosted(made, project) as (_, agent):
        agent.update("sess_a1", "tool_call", id="tc_1", tool="delete", input={}, status="pending")
        question = {"sessionId": "sess_a1", "operation": "file_delete", "resource": "src/auth.ts"}
        answer = await agent.ask_for(
            "session/request_permission", {**question, "reason": "It is not used", "toolCallId": "tc_1"}
        )
        assert answer["result"]["granted"]
        assert "It is not used" in repr(made.asked)
