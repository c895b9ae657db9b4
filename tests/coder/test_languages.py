"""Language servers in the coder's hands: allowed once, heard after each edit, their changes made as a whole."""

import sys
from pathlib import Path
from typing import Literal

import pytest
from lsp.installed import SERVERS, put_on_path

from dragoman import schema as s
from dragoman.coder import call
from dragoman.host import Host
from dragoman.testing import RecordingClient

from .desk import BareClient, DiskClient, asked, calls, desk, results

pytestmark = pytest.mark.usefixtures("nothing_left")

ROGUE = Path(__file__).parents[1] / "lsp" / "rogue_server.py"


@pytest.mark.parametrize("name", SERVERS)
async def test_a_mistake_is_found_and_mended_and_then_there_is_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = SERVERS[name]
    put_on_path(monkeypatch, tmp_path / "bin", *server.programs)
    cwd = tmp_path / "project"
    cwd.mkdir()
    file = cwd / server.file
    file.write_text(server.text.replace(server.wrong, "nothing"))
    steps = [
        call("read_file", path=server.file),
        call("edit_file", path=server.file, old="nothing", new=server.wrong),
        call("edit_file", path=server.file, old=server.wrong, new=server.right),
        call("lsp_diagnostics", path=server.file),
        "Done.",
    ]
    async with desk(cwd, *steps, mode="code", language_servers=True) as (session, client, model):
        await session.prompt("Go")
    told = [words for _, _, words in results(model)]
    assert f"{server.file}:2:" in told[1] and server.mistake in told[1] and "error:" in told[1]
    assert f"The language server {name} finds no errors and no warnings." in told[2]
    assert told[3] == "No errors or warnings."
    assert [shown["title"] for shown in calls(client).values()].count(f"Start the language server {name}") == 1
    (question,) = asked(client)
    assert question.tool_call.kind == "execute"


def project_of_twenty(cwd: Path) -> None:
    cwd.mkdir()
    (cwd / "first.py").write_text("def gret(name: str) -> str:\n    return name\n")
    for number in range(19):
        (cwd / f"user{number}.py").write_text(f"from first import gret\n\nprint(gret('{number}'))\n")


RENAMING = [call("lsp_rename", path="first.py", line=1, symbol="gret", new_name="greet"), "Done."]


def renamed(cwd: Path) -> set[bool]:
    return {"greet" in file.read_text() and "gret(" not in file.read_text() for file in cwd.glob("*.py")}


@pytest.mark.parametrize("lends", [True, False], ids=["the client's files", "files of this machine"])
async def test_a_rename_across_twenty_files_is_one_change_with_one_question(
    lends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, tmp_path / "bin", *SERVERS["pyright"].programs)
    project_of_twenty(tmp_path / "project")
    client = DiskClient() if lends else BareClient()
    async with desk(tmp_path / "project", *RENAMING, client=client, language_servers=True) as (session, _, model):
        await session.prompt("Go")
        assert results(model)[0][1:] == ("success", "Renamed gret to greet; files changed: 20.")
        assert renamed(tmp_path / "project") == {True}
        start, change = asked(client)
        assert (start.tool_call.kind, change.tool_call.kind) == ("execute", "other")
        shown = [content for content in change.tool_call.content or () if isinstance(content, s.Diff)]
        assert len(shown) == 20
        await session.prompt("/undo")
    assert renamed(tmp_path / "project") == {False}


async def test_a_rename_that_one_file_stands_in_the_way_of_changes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, tmp_path / "bin", *SERVERS["pyright"].programs)
    cwd = tmp_path / "project"
    project_of_twenty(cwd)

    class Refusing(DiskClient):
        """Cannot write one of the files."""

        async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
            if params.path.endswith("user7.py"):
                raise PermissionError("it is locked")
            return await super().write_text_file(params)

    async with desk(cwd, *RENAMING, client=Refusing(), language_servers=True) as (session, _, model):
        await session.prompt("Go")
    assert results(model)[0][1] == "failed"
    assert renamed(cwd) == {False}


async def test_a_rename_in_a_host_of_ours_is_one_change_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, tmp_path / "bin", *SERVERS["pyright"].programs)
    cwd = tmp_path / "project"
    project_of_twenty(cwd)
    host = Host(preset="allow-all")
    written = []
    whole = host.apply_edits

    async def counted(params):  # type: ignore[no-untyped-def]
        written.append(len(params.edits))
        return await whole(params)

    monkeypatch.setattr(host, "apply_edits", counted)
    async with desk(cwd, *RENAMING, client=host, language_servers=True) as (session, _, model):
        await session.prompt("Go")
    assert results(model)[0][1:] == ("success", "Renamed gret to greet; files changed: 20.")
    assert renamed(cwd) == {True}


async def test_a_rename_reaches_files_that_are_open_in_the_editor_of_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cwd, settings = tmp_path / "project", tmp_path / "config" / "dragoman"
    cwd.mkdir()
    settings.mkdir(parents=True)
    for name in "abc":
        (cwd / f"{name}.odd").write_text("x = 1\n")
    command = [sys.executable, str(ROGUE), "renames", str(tmp_path / "pids")]
    (settings / "language-servers.toml").write_text(
        f"[rogue]\ncommand = {command!r}\nlanguages = {{ odd = ['.odd'] }}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    buffers = {str(cwd / "b.odd"): "x = 1\n"}

    def save(path: str, text: str) -> bool:
        return path in buffers and bool(buffers.update({path: text}) or True)

    host = Host(preset="allow-all", overlay=buffers.get, save=save)
    steps = [call("lsp_rename", path="a.odd", line=1, symbol="x", new_name="y"), "Done."]
    async with desk(cwd, *steps, client=host, language_servers=True) as (session, _, model):
        await session.prompt("Go")
    assert results(model)[0][1:] == ("success", "Renamed x to y; files changed: 3.")
    assert buffers == {str(cwd / "b.odd"): "y = 1\n"}  # unsaved: saving it is the editor's business
    assert {name: (cwd / f"{name}.odd").read_text()[0] for name in "abc"} == {"a": "y", "b": "x", "c": "y"}


@pytest.mark.parametrize("answer", ["reject", "cancel"])
async def test_a_server_that_was_not_allowed_never_runs_and_is_not_asked_about_again(
    answer: Literal["reject", "cancel"], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, tmp_path / "bin")
    started = tmp_path / "started"
    program = tmp_path / "bin" / "pylsp"
    program.write_text(f"#!/bin/sh\ntouch {started}\n")
    program.chmod(0o755)
    cwd = tmp_path / "project"
    cwd.mkdir()
    client = DiskClient(permissions=answer)
    steps = [
        call("write_file", path="a.py", content="x = 1\n"),
        call("write_file", path="b.py", content="y\n"),
        "Ok",
    ]
    async with desk(cwd, *steps, client=client, mode="code", language_servers=True) as (session, _, _):
        await session.prompt("Go")
    assert len(asked(client)) == 1
    assert not started.exists()


async def test_a_program_of_the_workspace_is_no_language_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin = tmp_path / "node_modules" / ".bin"
    bin.mkdir(parents=True)
    (bin / "pylsp").write_text("#!/bin/sh\n")
    (bin / "pylsp").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:/usr/bin:/bin")
    steps = [call("write_file", path="a.py", content="x = 1\n"), "Ok"]
    async with desk(tmp_path, *steps, mode="code", language_servers=True) as (session, client, model):
        await session.prompt("Go")
    assert asked(client) == []
    assert not [tool for tool in model.requests[0].tools if tool.name.startswith("lsp_")]


async def test_unsaved_text_is_what_a_server_looks_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(monkeypatch, tmp_path / "bin", *SERVERS["pylsp"].programs)
    cwd = tmp_path / "project"
    cwd.mkdir()
    path = cwd / "a.py"
    path.write_text("print(1)\n")
    client = RecordingClient(files={str(path): "print(unsaved)\n"})
    steps = [call("lsp_diagnostics", path="a.py"), "Done."]
    async with desk(cwd, *steps, client=client, language_servers=True) as (session, _, model):
        await session.prompt("Go")
    assert "a.py:1:7: error: undefined name 'unsaved'" in results(model)[0][2]
