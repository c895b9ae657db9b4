"""A host over a real agent: what it lends, to whom, and when it takes it back."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from torture.errands import answer, answers, hosting

from dragoman import AgentExited, Error
from dragoman import schema as s
from dragoman.host import Host
from dragoman.host.audit import verify
from dragoman.host.permissions import Question, RulesError, workspace_file

pytestmark = pytest.mark.usefixtures("nothing_left")

NOT_PERMITTED = (-32602, "not_permitted")
UNKNOWN_SESSION = (-32002, "unknown_session")


class Screen:
    """Keeps what it is asked, and answers as it is told to; None: it waits for ever."""

    def __init__(self, choice: str | None = "allow_once") -> None:
        self.choice = choice
        self.seen: list[Question] = []
        self.asked = asyncio.Event()

    async def __call__(self, question: Question) -> str | None:
        self.seen.append(question)
        self.asked.set()
        if self.choice is None:
            await asyncio.Event().wait()
        return self.choice


def audited(host: Host) -> list[dict[str, Any]]:
    assert host.audit
    lines = host.audit.path.read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] != "start"]


# Lending


async def test_a_file_is_read_when_the_user_allows_it(project: Path) -> None:
    screen = Screen()
    host = Host(asker=screen)
    async with hosting(host, project) as session:
        read = await answer(session, "fs/read_text_file", path=f"{project}/a.txt", line=2, limit=1)
    assert read == {"content": "two\n"}
    (question,) = screen.seen
    assert (question.title, question.text) == ("Read a file?", f"{project}/a.txt")


async def test_a_file_is_written_when_the_user_has_seen_what_changes(project: Path) -> None:
    screen = Screen()
    async with hosting(Host(asker=screen), project) as session:
        written = await answer(session, "fs/write_text_file", path=f"{project}/a.txt", content="one\n2\nthree\n")
    assert written == {}
    assert (project / "a.txt").read_text() == "one\n2\nthree\n"
    assert screen.seen[0].detail == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"


async def test_a_command_runs_in_the_session_s_directory_when_the_user_allows_it(project: Path) -> None:
    screen = Screen()
    host = Host(asker=screen)
    async with hosting(host, project) as session:
        created = await answer(session, "terminal/create", command="pwd", env=[{"name": "A", "value": "b"}])
        id = created["terminalId"]
        assert await answer(session, "terminal/wait_for_exit", terminalId=id) == {"exitCode": 0}
        output = await answer(session, "terminal/output", terminalId=id)
        assert output == {"output": f"{project}\n", "truncated": False, "exitStatus": {"exitCode": 0}}
        assert await answer(session, "terminal/release", terminalId=id) == {}
        assert await answer(session, "terminal/output", terminalId=id) == (-32002, "unknown_terminal")
    assert screen.seen[0].text == f"pwd\nwith A=b\nin {project}"


async def test_without_anybody_to_ask_nothing_is_lent(project: Path) -> None:
    host = Host()
    async with hosting(host, project) as session:
        assert await answer(session, "fs/read_text_file", path=f"{project}/a.txt") == NOT_PERMITTED
        assert await answer(session, "fs/write_text_file", path=f"{project}/b", content="") == NOT_PERMITTED
        assert await answer(session, "terminal/create", command="touch", args=["b"]) == NOT_PERMITTED
    assert [path.name for path in project.iterdir()] == ["a.txt"]


async def test_everything_of_ours_is_advertised_by_name(project: Path) -> None:
    capabilities = Host(audit=False).capabilities()
    assert capabilities.fs == s.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    assert capabilities.terminal
    assert capabilities.meta
    methods = capabilities.meta["dragoman"]["methods"]
    assert "_dragoman/fs/watch" in methods
    assert "_dragoman/terminal/create" in methods


async def test_a_host_without_the_library_for_it_does_not_offer_to_watch(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.host.lending.can_watch", lambda: False)
    host = Host(preset="allow-all")
    meta = host.capabilities().meta
    assert meta and "_dragoman/fs/watch" not in meta["dragoman"]["methods"]
    async with hosting(host, project) as session:
        assert await answer(session, "_dragoman/fs/watch", path=str(project)) == (-32601, None)


REQUESTS: dict[str, dict[str, Any]] = {
    "fs/read_text_file": {"path": "/etc/passwd"},
    "fs/write_text_file": {"path": "/tmp/x", "content": ""},
    "terminal/create": {"command": "true"},
    "terminal/output": {"terminalId": "t"},
    "terminal/wait_for_exit": {"terminalId": "t"},
    "terminal/kill": {"terminalId": "t"},
    "terminal/release": {"terminalId": "t"},
    "session/request_permission": {"toolCall": {"toolCallId": "c"}, "options": []},
    "_dragoman/fs/read_text_file": {"path": "/etc/passwd"},
    "_dragoman/fs/write_text_file": {"path": "/tmp/x", "content": ""},
    "_dragoman/fs/read_binary_file": {"path": "/etc/passwd"},
    "_dragoman/fs/write_binary_file": {"path": "/tmp/x", "data": ""},
    "_dragoman/fs/list_directory": {"path": "/"},
    "_dragoman/fs/create_directory": {"path": "/tmp/x"},
    "_dragoman/fs/apply_edits": {"edits": []},
    "_dragoman/fs/watch": {"path": "/"},
    "_dragoman/fs/unwatch": {"watchId": "w"},
    "_dragoman/terminal/create": {"command": "true"},
    "_dragoman/terminal/wait_for_exit": {"terminalId": "t"},
    "_dragoman/terminal/kill": {"terminalId": "t"},
    "_dragoman/terminal/input": {"terminalId": "t", "text": ""},
    "_dragoman/terminal/resize": {"terminalId": "t", "columns": 80, "rows": 24},
}


async def test_a_session_nobody_opened_gets_nothing_and_nobody_is_asked(project: Path) -> None:
    screen = Screen()
    host = Host(asker=screen, preset="allow-all")
    meta = host.capabilities().meta
    assert meta and set(meta["dragoman"]["methods"]) <= set(REQUESTS), "every method is tried here"
    async with hosting(host, project) as session:
        for method, params in REQUESTS.items():
            for stranger in ("", "sess_0", session.id + " "):
                assert await answer(session, method, **params, sessionId=stranger) == UNKNOWN_SESSION, method
    assert screen.seen == []
    assert host.audit
    assert not host.audit.path.exists()


async def test_a_session_has_its_own_directories_and_no_other_s(tmp_path: Path, project: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.txt").write_text("b")
    host = Host(preset="allow-reads")
    async with hosting(host, project) as session:
        second = await host.new_session(other)
        wide = await host.new_session(project, additional_directories=[other])
        outside = (-32602, "outside_workspace")
        assert await answer(session, "fs/read_text_file", path=f"{other}/b.txt") == outside
        assert await answer(second, "fs/read_text_file", path=f"{project}/a.txt") == outside
        assert await answer(second, "fs/read_text_file", path=f"{other}/b.txt") == {"content": "b"}
        assert await answer(wide, "fs/read_text_file", path=f"{other}/b.txt") == {"content": "b"}
        assert await answer(session, "terminal/create", command="ls", cwd=str(other)) == outside


async def test_a_directory_that_is_not_there_cannot_be_lent(tmp_path: Path, project: Path) -> None:
    host = Host()
    async with hosting(host, project):
        with pytest.raises(Error, match=f"{tmp_path}/nowhere cannot be lent to an agent: No such file"):
            await host.new_session(tmp_path / "nowhere")


async def test_the_rules_of_each_workspace_hold_in_its_sessions(tmp_path: Path, project: Path) -> None:
    strict = tmp_path / "strict"
    for directory, rules in ((strict, '[[deny]]\noperation = "file_read"\npath = "**"\n'), (project, "")):
        workspace_file(directory).parent.mkdir(parents=True)
        workspace_file(directory).write_text(rules)
        (directory / "a.txt").write_text("a")
    host = Host(preset="allow-reads")
    async with hosting(host, project) as session:
        ruled = await host.new_session(strict)
        assert await answer(session, "fs/read_text_file", path=f"{project}/a.txt") == {"content": "a"}
        (denied,) = await answers(ruled, [["fs/read_text_file", {"path": f"{strict}/a.txt"}]])
        assert denied == {
            "error": [-32602, "not_permitted", "this is not permitted; ask the user, or do something else"]
        }
        workspace_file(project).write_text("[[allow]]")
        with pytest.raises(RulesError, match="which operation"):
            await host.new_session(project)


async def test_rules_are_not_read_through_a_link(tmp_path: Path, project: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "permissions.toml").write_text("a secret of somebody else")
    (project / ".dragoman").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RulesError, match="is a link") as refused:
        async with hosting(Host(), project):
            pass
    assert "secret" not in str(refused.value)


async def test_what_a_workspace_would_allow_waits_for_the_user_s_trust(project: Path) -> None:
    workspace_file(project).parent.mkdir()
    workspace_file(project).write_text('[[allow]]\noperation = "file_read"\npath = "a.txt"\n')
    host = Host()
    async with hosting(host, project) as session:
        assert await answer(session, "fs/read_text_file", path=f"{project}/a.txt") == NOT_PERMITTED
        untrusted = host.rules_of(session.id).untrusted
        assert untrusted and host.store
        host.store.trust(*untrusted)
        again = await host.new_session(project)
        assert await answer(again, "fs/read_text_file", path=f"{project}/a.txt") != NOT_PERMITTED


# The audit log


async def test_every_operation_is_written_down_before_it_is_carried_out(project: Path) -> None:
    before: list[object] = []

    class Watcher(Host):
        def decided(self, event: Any) -> None:
            before.append((audited(self)[-1]["fingerprint"] == event["fingerprint"], (project / "b").exists()))

    host = Watcher(preset="allow-all", agent_name="errand")
    async with hosting(host, project) as session:
        await answer(session, "fs/write_text_file", path=f"{project}/b", content="b")
        created = await answer(session, "terminal/create", command="rm", args=["b"])
        await answer(session, "terminal/wait_for_exit", terminalId=created["terminalId"])
    assert before == [(True, False), (True, True)]
    write, run, end = audited(host)
    assert (write["operation"], write["path"], write["agent"]) == ("file_write", f"{project}/b", "errand")
    assert (run["operation"], run["argv"], run["decision"]) == ("terminal_execute", ["rm", "b"], "allow")
    assert (end["event"], end["exit_code"], end["fingerprint"]) == ("exit", 0, run["fingerprint"])
    assert host.audit and verify(host.audit.path) == []


async def test_what_cannot_be_written_down_is_not_done(project: Path, home: Path) -> None:
    (home / "audit").mkdir()
    host = Host(preset="allow-all", audit=home / "audit")
    async with hosting(host, project) as session:
        assert await answer(session, "fs/write_text_file", path=f"{project}/b", content="") == NOT_PERMITTED
    assert not (project / "b").exists()


async def test_the_audit_log_in_a_workspace_is_not_the_agent_s_to_write(project: Path) -> None:
    screen = Screen("reject_once")
    host = Host(preset="allow-all", asker=screen, audit=project / "log")
    async with hosting(host, project) as session:
        for name in ("log", "log.seal"):
            assert (
                await answer(session, "fs/write_text_file", path=f"{project}/{name}", content="") == NOT_PERMITTED
            )
    assert len(screen.seen) == 2


# Turns


async def test_cancelling_a_turn_answers_its_open_questions_cancelled(project: Path) -> None:
    screen = Screen(None)
    host = Host(asker=screen)
    async with hosting(host, project) as session:
        options = [{"optionId": "yes", "name": "Allow", "kind": "allow_once"}]
        orders = {
            "all": [
                ["session/request_permission", {"toolCall": {"toolCallId": "c"}, "options": options}],
                ["fs/read_text_file", {"path": f"{project}/a.txt"}],
                ["terminal/create", {"command": "touch", "args": ["b"]}],
            ]
        }
        prompt = session.prompt(json.dumps(orders))
        await screen.asked.wait()
        session.cancel()
        assert (await prompt).stop_reason == "cancelled"
    assert {event["decision"] for event in audited(host)} == {"cancel"}
    assert not (project / "b").exists()


async def test_what_was_denied_for_a_turn_may_be_asked_in_the_next(project: Path) -> None:
    screen = Screen("reject_turn")
    async with hosting(Host(asker=screen), project) as session:
        orders = [["fs/read_text_file", {"path": f"{project}/{name}"}] for name in ("a.txt", "b.txt", "a.txt")]
        await answers(session, orders)
        assert len(screen.seen) == 1
        screen.choice = "allow_once"
        assert await answer(session, "fs/read_text_file", path=f"{project}/a.txt") != NOT_PERMITTED


# Taking back


async def test_closing_a_session_ends_its_commands_and_nobody_else_s(project: Path) -> None:
    host = Host(preset="allow-all")
    async with hosting(host, project) as session:
        other = await host.new_session(project)
        for opened in (session, other):
            await answer(opened, "terminal/create", command="sleep", args=["1000"])
        (mine,), (theirs,) = host.terminals.of(session.id), host.terminals.of(other.id)
        await session.close()
        assert mine.status == s.TerminalExitStatus(signal="SIGTERM")
        assert theirs.status is None
        assert (
            await answer(other, "fs/read_text_file", sessionId=session.id, path=f"{project}/a.txt")
            == UNKNOWN_SESSION
        )


async def test_the_end_of_the_connection_ends_every_command(project: Path) -> None:
    host = Host(preset="allow-all")
    async with hosting(host, project) as session:
        await answer(session, "terminal/create", command="sleep", args=["1000"])
        (terminal,) = host.terminals.of(session.id)
    assert terminal.status == s.TerminalExitStatus(signal="SIGTERM")


async def test_an_agent_that_dies_leaves_no_command_behind_while_its_client_goes_on(project: Path) -> None:
    host = Host(preset="allow-all")
    async with hosting(host, project) as session:
        await answer(session, "terminal/create", command="sleep", args=["1000"])
        (terminal,) = host.terminals.of(session.id)
        with pytest.raises(AgentExited):
            await answer(session, "die")
        assert await terminal.wait() == s.TerminalExitStatus(signal="SIGTERM")


async def test_a_command_asked_for_when_its_session_closes_does_not_run(project: Path) -> None:
    screen = Screen(None)
    host = Host(asker=screen)
    async with hosting(host, project) as session:
        prompt = session.prompt(json.dumps([["terminal/create", {"command": "touch", "args": ["b"]}]]))
        await screen.asked.wait()
        await session.close()
        await prompt
    assert not (project / "b").exists()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_a_command_that_is_being_started_when_its_session_closes_is_ended(project: Path) -> None:
    allowed = asyncio.Event()

    class Watcher(Host):
        def decided(self, event: Any) -> None:
            allowed.set()

    host = Watcher(preset="allow-all", sandbox=True)  # whose trial takes a while
    async with hosting(host, project) as session:
        prompt = session.prompt(json.dumps([["terminal/create", {"command": "touch", "args": ["b"]}]]))
        await allowed.wait()
        await session.close()
        await prompt
        assert host.terminals.of(session.id) == []
    assert not (project / "b").exists()
