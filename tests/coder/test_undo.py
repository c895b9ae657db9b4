"""Taking back what the agent wrote, whatever happened to it and to its files meanwhile."""

import asyncio
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torture.coder_undo import kill_at

from dragoman import schema as s
from dragoman.coder import Coder, ScriptedModel, call
from dragoman.coder.files import undo_journal as journal
from dragoman.coder.files.project_files import WRITE_FILE
from dragoman.coder.files.undoing import AT_ONCE
from dragoman.errors import ConnectionClosed, InternalError
from dragoman.host import Host
from dragoman.host.files.extensions import WriteFileRequest, WriteFileResponse
from dragoman.roles import extension
from dragoman.store import Store, durable
from dragoman.testing import RecordingClient, pair

from .desk import BareClient, DiskClient, asked, calls, desk, said, updates
from .model_servers import OpenAIChat, answer
from .test_process import coder

pytestmark = pytest.mark.usefixtures("nothing_left")

CLIENTS = pytest.mark.parametrize("client", [DiskClient, BareClient])


def edit(old: str, new: str, path: str = "a") -> list[Any]:
    """Steps that read a file and replace its text."""
    return [call("read_file", path=path), call("edit_file", path=path, old=old, new=new)]


def answers(*choices: str) -> Any:
    """Give these answers to the questions, one after the other."""
    left = list(choices)
    return lambda request: left.pop(0)


def shown(client: RecordingClient) -> str:
    return said(updates(client))


# Killed


async def test_a_coder_killed_while_the_client_writes_finds_the_old_text_again(
    tmp_path: Path, a_home_of_its_own: Path
) -> None:
    class Deadly(DiskClient):
        pid = 0

        async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
            response = await super().write_text_file(params)
            os.kill(self.pid, signal.SIGKILL)
            return response

    (tmp_path / "a").write_text("one\n")
    edits = answer("", ("edit_file", {"path": "a", "old": "one", "new": "two"}))
    server = OpenAIChat(answer("", ("read_file", {"path": "a"})), edits)
    async with server.running():
        async with coder(a_home_of_its_own, server, "--model", server.name, client=Deadly()) as (client, transport):
            client.pid = transport.process.pid
            session = await client.new_session(tmp_path)
            await session.set_mode("code")
            with pytest.raises(ConnectionClosed):
                await session.prompt("Go")
        assert (tmp_path / "a").read_text() == "two\n"
    kept = durable(Coder)  # in the same home, so in the same store
    async with pair(lambda remote: kept(remote, model=ScriptedModel()), DiskClient()) as again:
        loaded = await again.load_session(session.id, tmp_path)
        await loaded.prompt("/undo")
    assert (tmp_path / "a").read_text() == "one\n"
    assert asked(again) == []


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
async def test_no_system_call_of_an_edit_is_a_bad_one_to_be_killed_at(tmp_path: Path) -> None:
    """All of them are in `tests/torture/test_coder_undo.py`."""
    chosen = [("fsync", 1), ("renameat2", 1), ("unlinkat", 1), ("pwrite64", 150)]
    await asyncio.to_thread(kill_at, tmp_path, iter(chosen))


async def test_an_edit_is_stored_before_the_file_is_written(tmp_path: Path) -> None:
    store = tmp_path / "store"
    project = tmp_path / "project"
    project.mkdir()
    (project / "a").write_text("one\n")
    stored: list[list[str]] = []

    class Looking(DiskClient):
        async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
            async with Store(store) as found:
                rows = await found.run(lambda db: db.db.execute("SELECT key, value FROM states").fetchall())
            stored.append([bytes(value).decode() for key, value in rows if key.startswith(journal.KEY)])
            return await super().write_text_file(params)

    kept = durable(Coder, Store(store))
    model = ScriptedModel(*edit("one", "two"), "Done.")
    async with pair(lambda remote: kept(remote, model=model), Looking()) as client:
        session = await client.new_session(project)
        await session.prompt("Go")
    ((entry,),) = stored
    assert '"before":"one\\n"' in entry and '"after":"two\\n"' in entry


# What others wrote


@CLIENTS
@pytest.mark.parametrize("choice", ["allow", "reject"])
async def test_the_users_edit_between_two_of_the_agents_is_not_taken_back_unasked(
    tmp_path: Path, client: Any, choice: str
) -> None:
    path = tmp_path / "a"
    path.write_text("one\n")

    def type_something(_: Any) -> Any:
        path.write_text("two\nmine\n")
        return call("read_file", path="a")

    steps = [*edit("one", "two"), type_something, call("edit_file", path="a", old="two", new="three"), "Done."]
    there = client(permissions=answers(choice))
    async with desk(tmp_path, *steps, client=there, mode="code") as (session, _, _model):
        await session.prompt("Go")
        assert path.read_text() == "three\nmine\n"
        await session.prompt("/undo")
    (question,) = asked(there)
    (diff,) = [part for part in question.tool_call.content or () if isinstance(part, s.Diff)]
    assert (diff.old_text, diff.new_text) == ("two\nmine\n", "one\n")
    assert path.read_text() == ("one\n" if choice == "allow" else "two\nmine\n")
    assert ("Not brought back" in shown(there)) == (choice == "reject")


@CLIENTS
async def test_a_no_is_reported_and_holds_up_no_earlier_turn(tmp_path: Path, client: Any) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("one\n")
    b.write_text("one\n")
    steps = [*edit("one", "two", "b"), "Done.", *edit("one", "two"), "Done."]
    there = client(permissions=answers("reject", "reject", "allow"))
    async with desk(tmp_path, *steps, client=there, mode="code") as (session, _, _model):
        await session.prompt("First b")
        await session.prompt("Then a")
        a.write_text("mine\n")
        await session.prompt("/undo")
        assert "Not brought back: `a` (you kept it as it is)." in shown(there)
        assert "Brought back" not in shown(there)
        assert (a.read_text(), b.read_text()) == ("mine\n", "two\n")
        await session.prompt("/undo")
        assert (a.read_text(), b.read_text()) == ("mine\n", "one\n")
        await session.prompt("/undo")
        assert a.read_text() == "mine\n"
        await session.prompt("/undo")  # the entry goes only with a yes
        assert a.read_text() == "one\n"
        await session.prompt("/undo")
    assert shown(there).endswith("There is nothing to undo.")
    assert [call["status"] for call in calls(there).values() if "Undo a" in call["title"]] == [
        "failed",
        "failed",
        "completed",
    ]


@CLIENTS
async def test_a_question_that_is_taken_away_leaves_the_journal_as_it_was(tmp_path: Path, client: Any) -> None:
    path = tmp_path / "a"
    path.write_text("one\n")
    there = client(permissions="cancel")
    async with desk(tmp_path, *edit("one", "two"), "Done.", client=there, mode="code") as (session, _, _model):
        await session.prompt("Go")
        path.write_text("mine\n")
        assert (await session.prompt("/undo")).stop_reason == "cancelled"
        there.permissions = "allow"
        await session.prompt("/undo")
    assert path.read_text() == "one\n"


@CLIENTS
async def test_a_file_saved_while_undo_asks_about_it_stays(tmp_path: Path, client: Any) -> None:
    path = tmp_path / "a"
    path.write_text("one\n")

    def save(request: Any) -> str:
        path.write_text("mine, once more\n")
        return "allow"

    there = client(permissions=save)
    async with desk(tmp_path, *edit("one", "two"), "Done.", client=there, mode="code") as (session, _, _model):
        await session.prompt("Go")
        path.write_text("mine\n")
        await session.prompt("/undo")
        assert path.read_text() == "mine, once more\n"
        assert "Not brought back: `a` (it was changed while the question was open)." in shown(there)


async def test_what_is_as_it_was_already_is_left_alone(tmp_path: Path) -> None:
    """Such as after `git checkout .`, or after another session took it back."""
    (tmp_path / "a").write_text("one\n")
    steps = [*edit("one", "two"), call("write_file", path="b", content="b\n"), "Done."]
    there = BareClient(permissions="reject")
    async with desk(tmp_path, *steps, client=there, mode="code") as (session, _, _model):
        await session.prompt("Go")
        (tmp_path / "a").write_text("one\n")
        (tmp_path / "b").unlink()
        await session.prompt("/undo")
        assert "already what they were" in shown(there)
        await session.prompt("/undo")
    assert "There is nothing to undo." in shown(there)
    assert asked(there) == []


async def test_one_session_asks_before_it_takes_back_what_another_one_wrote(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one\n")
    steps = [*edit("one", "two"), "Done.", *edit("two", "three"), "Done."]
    async with desk(tmp_path, *steps, client=BareClient(permissions="reject"), mode="code") as (first, there, _):
        second = await there.new_session(tmp_path)
        await second.set_mode("code")
        await first.prompt("Go")
        await second.prompt("Go")
        await first.prompt("/undo")
        assert path.read_text() == "three\n" and len(asked(there)) == 1
        await second.prompt("/undo")
        await first.prompt("/undo")
    assert path.read_text() == "one\n" and len(asked(there)) == 1


# Odd files


@CLIENTS
async def test_a_file_that_cannot_be_read_stops_no_other(tmp_path: Path, client: Any) -> None:
    for name in "abc":
        (tmp_path / name).write_text("one\n")
    steps = [step for name in "abc" for step in edit("one", "two", name)]
    async with desk(tmp_path, *steps, "Done.", client=client(), mode="code") as (session, there, _):
        await session.prompt("Go")
        (tmp_path / "b").unlink()
        (tmp_path / "b").mkdir()
        await session.prompt("/undo")
        assert [(tmp_path / name).read_text() for name in "ac"] == ["one\n", "one\n"]
        assert "Brought back: `c`, `a`." in shown(there) and "Not brought back: `b` (" in shown(there)
        (tmp_path / "b").rmdir()
        (tmp_path / "b").write_text("two\n")
        await session.prompt("/undo")
    assert (tmp_path / "b").read_text() == "one\n"


@CLIENTS
async def test_nothing_is_removed_through_a_directory_that_became_a_link(tmp_path: Path, client: Any) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    steps = [call("write_file", path="src/new", content="new\n"), "Done."]
    async with desk(project, *steps, client=client(), mode="code") as (session, there, _):
        await session.prompt("Go")
        (outside / "new").write_text("new\n")
        (project / "src").rename(project / "moved")
        (project / "src").symlink_to(outside)
        await session.prompt("/undo")
        assert (outside / "new").read_text() == "new\n"
        assert "Not brought back: `src/new` (its path leads elsewhere now)" in shown(there)
        (project / "src").unlink()
        (project / "moved").rename(project / "src")
        await session.prompt("/undo")
    assert not (project / "src" / "new").exists()


@CLIENTS
async def test_a_file_edited_through_a_link_and_directly_gets_its_first_text_back(
    tmp_path: Path, client: Any
) -> None:
    (tmp_path / "real").write_text("one\n")
    (tmp_path / "link").symlink_to("real")
    steps = [*edit("one", "two", "link"), *edit("two", "three", "real"), *edit("three", "four", "link"), "Done."]
    async with desk(tmp_path, *steps, client=client(), mode="code") as (session, there, _):
        await session.prompt("Go")
        assert (tmp_path / "real").read_text() == "four\n"
        await session.prompt("/undo")
    assert (tmp_path / "real").read_text() == "one\n" and (tmp_path / "link").is_symlink()
    assert asked(there) == []


async def test_a_client_that_keeps_files_elsewhere_gets_a_new_one_emptied_and_the_user_is_told(
    tmp_path: Path,
) -> None:
    client = RecordingClient()
    steps = [call("write_file", path="new", content="new\n"), "Done."]
    async with desk(tmp_path, *steps, client=client, mode="code") as (session, _, _model):
        await session.prompt("Go")
        await session.prompt("/undo")
        await session.prompt("/undo")
    assert client.files == {str(tmp_path / "new"): ""}
    assert "Emptied, for your editor does not let me remove files: `new`." in shown(client)


async def test_a_host_of_ours_removes_the_file_itself_and_decides_about_it(tmp_path: Path) -> None:
    questions: list[Any] = []

    async def allow(question: Any) -> str:
        questions.append(question)
        return "allow_once"

    project = tmp_path / "project"
    project.mkdir()
    (project / "a").write_text("one\n")
    model = ScriptedModel(*edit("one", "two"), call("write_file", path="new", content="new\n"), "Done.")
    host = Host(asker=allow, state=tmp_path / "state")
    async with pair(lambda remote: Coder(remote, model=model), host) as client:
        session = await client.new_session(project)
        await session.set_mode("code")
        await session.prompt("Go")
        assert (project / "new").read_text() == "new\n"
        del questions[:]
        await session.prompt("/undo")
    assert (project / "a").read_text() == "one\n" and not (project / "new").exists()
    assert "Delete a file?" in [question.title for question in questions]


@pytest.mark.parametrize("is_there", [True, False], ids=["changed", "removed"])
async def test_what_the_user_saves_at_the_last_moment_stays_at_a_host_of_ours(
    tmp_path: Path, is_there: bool
) -> None:
    """The condition of a write travels to the host's commit: looking before it is not enough."""
    project = tmp_path / "project"
    project.mkdir()
    path = project / "a"

    class LastMoment(Host):
        is_near = False

        def save(self) -> None:
            if self.is_near and is_there:
                path.write_text("mine\n")
            elif self.is_near:
                path.unlink()

        async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
            self.save()
            return await super().write_text_file(params)

        @extension(WRITE_FILE)
        async def write_file(self, params: WriteFileRequest) -> WriteFileResponse:
            self.save()
            return await super().write_file(params)

    path.write_text("one\n")
    model = ScriptedModel(*edit("one", "two"), "Done.", *edit("two", "three"), "Done.")
    host = LastMoment(preset="allow-edits", state=tmp_path / "state")
    async with pair(lambda remote: Coder(remote, model=model), host) as client:
        session = await client.new_session(project)
        await session.set_mode("code")
        await session.prompt("Go")
        assert path.read_text() == "two\n"
        host.is_near = True
        for prompt in ("Go on", "/undo"):
            path.write_text("two\n")
            await session.prompt(prompt)
            assert (path.read_text() if is_there else path.exists()) == ("mine\n" if is_there else False)
        host.is_near = False
        path.write_text("two\n")
        await session.prompt("/undo")  # nothing was forgotten
    assert path.read_text() == "one\n"


# Permissions


@CLIENTS
async def test_undo_passes_the_gate(tmp_path: Path, client: Any, a_home_of_its_own: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    async with desk(tmp_path, *edit("one", "two"), "Done.", client=client(), mode="code") as (session, there, _):
        await session.prompt("Go")
        await session.set_mode("architect")
        await session.prompt("/undo")
        assert (tmp_path / "a").read_text() == "two\n"
        assert "Nothing can be changed or run in the mode 'architect'" in shown(there)
        await session.set_mode("ask")
        before = len(asked(there))
        await session.prompt("/undo")
        assert len(asked(there)) == before  # the command is the user's word
    assert (tmp_path / "a").read_text() == "one\n"


# Bounds


async def test_a_turn_of_more_text_than_is_kept_says_what_it_cannot_bring_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_LETTERS", 5000)
    names = "abc"
    for name in names:
        (tmp_path / name).write_text("one " + "x" * 1000)
    steps = [step for name in names for step in edit("one", "two", name)]
    async with desk(tmp_path, *steps, "Done.", client=BareClient(), mode="code") as (session, there, _):
        await session.prompt("Go")
        await session.prompt("/undo")
        await session.prompt("/undo")
    assert [(tmp_path / name).read_text()[:3] for name in names] == ["two", "one", "one"]
    assert "Not brought back: `a` (its old text was too long to be kept)" in shown(there)
    assert "There is nothing to undo." in shown(there)


async def test_many_edits_of_one_file_are_one_entry(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("0\n")
    steps: Sequence[Any] = [step for n in range(30) for step in edit(str(n), str(n + 1))]
    async with desk(tmp_path, *steps, "Done.", client=BareClient(), mode="code") as (session, there, _):
        await session.prompt("Go")
        assert (tmp_path / "a").read_text() == "30\n"
        await session.prompt("/undo")
    assert (tmp_path / "a").read_text() == "0\n"
    assert len([call for call in calls(there).values() if call["title"] == "Undo a"]) == 1


async def test_an_edit_that_the_client_refuses_is_no_change_of_the_session(tmp_path: Path) -> None:
    class Full(DiskClient):
        async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
            raise InternalError("No space left on device")

    (tmp_path / "a").write_text("one\n")
    async with desk(tmp_path, *edit("one", "two"), "Done.", client=Full(), mode="code") as (session, there, _):
        await session.prompt("Go")
        await session.prompt("/diff")
        await session.prompt("/undo")
    assert "Nothing was changed in this session." in shown(there) and "nothing to undo" in shown(there)


# Made again


@CLIENTS
async def test_what_was_undone_is_made_again_turn_by_turn_and_can_be_undone_again(
    tmp_path: Path, client: Any
) -> None:
    steps = [*edit("one", "two"), "Done.", call("write_file", path="x/y/b", content="new\n"), "Done."]
    (tmp_path / "a").write_text("one\n")

    def now() -> tuple[str, bool]:
        return (tmp_path / "a").read_text(), (tmp_path / "x/y/b").exists()

    async with desk(tmp_path, *steps, client=client(), mode="code") as (session, there, _):
        await session.prompt("Edit")
        await session.prompt("Write")
        seen = [now()]
        for command in ("/undo", "/undo", "/redo", "/redo", "/redo", "/undo", "/redo"):
            await session.prompt(command)
            seen.append(now())
    done, first, nothing = ("two\n", True), ("two\n", False), ("one\n", False)
    assert seen == [done, first, nothing, first, done, done, first, done]
    assert "There is nothing to redo." in shown(there)
    assert shown(there).count("Made again: `a`.") == 1


async def test_a_new_edit_leaves_nothing_to_redo(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_text("one\n")
    steps = [*edit("one", "two"), "Done.", *edit("one", "three", path="b"), "Done."]
    async with desk(tmp_path, *steps, mode="code") as (session, there, _):
        for prompt in ("Edit", "/undo", "Edit the other", "/redo"):
            await session.prompt(prompt)
    assert (tmp_path / "a").read_text() == "one\n"
    assert "There is nothing to redo." in shown(there)


@pytest.mark.parametrize(("choice", "text"), [("allow", "two\n"), ("reject", "the user's\n")])
async def test_a_redo_over_somebody_elses_text_asks_first(tmp_path: Path, choice: str, text: str) -> None:
    (tmp_path / "a").write_text("one\n")
    client = DiskClient(permissions=answers(choice))
    async with desk(tmp_path, *edit("one", "two"), "Done.", mode="code", client=client) as (session, there, _):
        await session.prompt("Edit")
        await session.prompt("/undo")
        (tmp_path / "a").write_text("the user's\n")
        await session.prompt("/redo")
    assert (tmp_path / "a").read_text() == text
    assert len(asked(there)) == 1


@CLIENTS
async def test_undo_removes_the_directories_it_made_and_no_other(tmp_path: Path, client: Any) -> None:
    for mine in ("old", "outer"):
        (tmp_path / mine).mkdir()
    made = ("old", "outer/inner", "new/a/b", "kept/a")
    steps = [call("write_file", path=f"{path}/f", content="x\n") for path in made]
    async with desk(tmp_path, *steps, "Done.", client=client(), mode="code") as (session, _, _m):
        await session.prompt("Write")
        (tmp_path / "kept" / "mine").write_text("the user's\n")
        await session.prompt("/undo")
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["kept", "kept/mine", "old", "outer"]


async def test_the_files_of_a_turn_are_brought_back_side_by_side(tmp_path: Path) -> None:
    """A client and its disk take their time for each file; somebody waits for all of them."""

    class Slow(DiskClient):
        together: asyncio.Barrier | None = None

        async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
            if self.together:
                await self.together.wait()  # for ever, unless as many are written at once
            return await super().write_text_file(params)

    names = [f"file{number}" for number in range(2 * AT_ONCE)]
    for name in names:
        (tmp_path / name).write_text("one\n")
    steps = [step for name in names for step in edit("one", "two", name)]
    there = Slow()
    async with desk(tmp_path, *steps, "Done.", client=there, mode="code") as (session, _, _m):
        await session.prompt("Go")
        there.together = asyncio.Barrier(AT_ONCE)
        await session.prompt("/undo")
    assert {(tmp_path / name).read_text() for name in names} == {"one\n"}
    listed = ", ".join(f"`{name}`" for name in reversed(names))
    assert shown(there).endswith(f"Brought back: {listed}.")  # in the journal's order


class Unhurried(DiskClient):
    """Answers a question when every other file is done."""

    def __init__(self, others: int) -> None:
        super().__init__(permissions="allow")
        self.others, self.open, self.most_open = others, 0, 0
        self.ended = asyncio.Event()

    def update(self, params: s.SessionNotification) -> None:
        super().update(params)
        undone = [
            call for call in calls(self).values() if "Undo" in call["title"] and call["status"] == "completed"
        ]
        if len(undone) >= self.others:
            self.ended.set()

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        await self.ended.wait()
        response = await super().request_permission(params)
        self.open -= 1
        return response


async def test_undo_asks_about_one_file_at_a_time_and_brings_back_the_others_meanwhile(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_text("one\n")
    steps = [step for name in "abcd" for step in edit("one", "two", name)]
    there = Unhurried(others=1)
    async with desk(tmp_path, *steps, "Done.", client=there, mode="code") as (session, _, _m):
        await session.prompt("Go")
        for name in "bcd":
            (tmp_path / name).write_text("mine\n")
        await session.prompt("/undo")
    assert len(asked(there)) == 3 and there.most_open == 1
    assert {(tmp_path / name).read_text() for name in "abcd"} == {"one\n"}


async def test_undo_removes_a_directory_whose_last_file_goes_last(tmp_path: Path) -> None:
    steps = [call("write_file", path=path, content="x\n") for path in ("new/f", "new/a/f")]
    there = Unhurried(others=1)
    async with desk(tmp_path, *steps, "Done.", client=there, mode="code") as (session, _, _m):
        await session.prompt("Write")
        (tmp_path / "new/a/f").write_text("mine\n")
        await session.prompt("/undo")
    assert list(tmp_path.iterdir()) == []


@CLIENTS
async def test_a_file_that_became_a_directory_is_a_file_again(tmp_path: Path, client: Any) -> None:
    """What is in the directory has to go before the file has room, side by side or not."""
    path = tmp_path / "a"
    path.write_text("one\n")

    def make_room(_: Any) -> Any:
        path.unlink()
        return call("write_file", path="a/b", content="x\n")

    there = client(permissions="allow")
    async with desk(tmp_path, *edit("one", "two"), make_room, "Done.", client=there, mode="code") as (
        session,
        _,
        _m,
    ):
        await session.prompt("Go")
        assert (path / "b").read_text() == "x\n"
        await session.prompt("/undo")
    assert path.read_text() == "one\n"
    assert len(asked(there)) == 1  # the file was gone, which the agent did not do


async def test_undo_removes_no_directory_through_a_link(tmp_path: Path) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (elsewhere / "a").mkdir(parents=True)
    project.mkdir()
    steps = [call("write_file", path="new/a/f", content="x\n"), "Done."]
    async with desk(project, *steps, mode="code") as (session, _, _m):
        await session.prompt("Write")
        shutil.rmtree(project / "new")
        (project / "new").symlink_to(elsewhere)
        await session.prompt("/undo")
    assert (elsewhere / "a").is_dir()
