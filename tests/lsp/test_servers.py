"""Language servers: started after a yes alone, ended with their session, whatever they do."""

import asyncio
import contextlib
import gc
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from leftovers import descendants, descriptors
from patience import PATIENCE

from dragoman.lsp import (
    LanguageEditError,
    LanguageFile,
    LanguageServer,
    LanguageServerError,
    LanguageServers,
    LanguageTableError,
    connection,
    server,
)
from dragoman.lsp.requests import (
    CodeActions,
    Definition,
    Diagnostics,
    Format,
    Hover,
    References,
    Rename,
    Symbols,
)
from dragoman.lsp.table import known_servers

from .installed import SERVERS, put_on_path

pytestmark = pytest.mark.usefixtures("nothing_left")

ROGUE = Path(__file__).with_name("rogue_server.py")


class Desk(NamedTuple):
    """A file with its server, and how to ask about it."""

    servers: LanguageServers
    server: LanguageServer
    path: Path

    def file(self) -> LanguageFile:
        async def read(path: str) -> str | None:
            return Path(path).read_text() if Path(path).exists() else None

        return LanguageFile(self.server, str(self.path), self.path.read_text(), read, self.servers.is_ours)

    async def hover(self) -> str:
        return (await Hover("", line=1, symbol="x").ask(self.file())).text


@contextlib.asynccontextmanager
async def desk(path: Path, *, allowed: bool = True) -> AsyncIterator[Desk]:
    servers = LanguageServers(str(path.parent))
    try:
        found = await servers.serving(str(path))
        assert found
        found.is_allowed = allowed or None
        yield Desk(servers, found, path)
    finally:
        await servers.close()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    table = tmp_path / "config" / "dragoman" / "language-servers.toml"
    table.parent.mkdir(parents=True)
    return table


def rogue(settings: Path, tmp_path: Path, manner: str) -> Path:
    """A file whose language server misbehaves."""
    command = [sys.executable, str(ROGUE), manner, str(tmp_path / "pids")]
    settings.write_text(f"[rogue]\ncommand = {command!r}\nlanguages = {{ odd = ['.odd'] }}\n")
    path = tmp_path / "project" / "a.odd"
    path.parent.mkdir()
    path.write_text("x = 1\n")
    return path


def starts(tmp_path: Path) -> list[int]:
    return [int(line) for line in (tmp_path / "pids").read_text().split()] if (tmp_path / "pids").exists() else []


async def test_nothing_starts_before_a_yes_and_nothing_is_left_afterwards(settings: Path, tmp_path: Path) -> None:
    path = rogue(settings, tmp_path, "behaves")
    before = descendants()
    async with desk(path, allowed=False) as there:
        with pytest.raises(LanguageServerError, match="was not allowed to start"):
            await there.hover()
        assert not starts(tmp_path)
        there.server.is_allowed = True
        assert await there.hover() == "a thing"
        assert len(starts(tmp_path)) == 1
    assert descendants() == before


@pytest.mark.parametrize(
    ("manner", "why"),
    [
        ("dies", "ended with code -9"),
        ("hangs", "did not answer textDocument/hover within 1 s and was ended"),
        ("lies", "its message has 99,999,999,999 bytes"),
        ("babbles", "its message has no head"),
        ("dies at once", "I will not start"),
        ("halves", "ended with code 0"),
    ],
)
async def test_a_server_that_fails_ends_the_request_and_is_started_again_so_often(
    manner: str, why: str, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rogue(settings, tmp_path, manner)
    monkeypatch.setattr(connection.LanguageConnection.request, "__defaults__", (1.0,))
    monkeypatch.setattr(connection, "GRACE", 0.5)
    async with desk(path) as there, asyncio.timeout(PATIENCE):
        for _ in range(server.RESTARTS + 1):
            with pytest.raises(LanguageServerError, match=why):
                await there.hover()
        with pytest.raises(LanguageServerError, match="is not started again"):
            await there.hover()
    assert len(starts(tmp_path)) == server.RESTARTS + 1


async def test_a_flood_of_diagnostics_is_cut(settings: Path, tmp_path: Path) -> None:
    path = rogue(settings, tmp_path, "floods")
    async with desk(path) as there:
        told = (await Diagnostics("").ask(there.file())).text
        assert len(there.server.diagnostics[str(path)]) < server.MAX_DIAGNOSTICS
    assert len(told) < 100_000
    assert told.startswith("a.odd:1:1: error: wrong wrong")


ASKED = [
    Hover("", line=1, symbol="x"),
    Definition("", line=1, symbol="x"),
    References("", line=1, symbol="x"),
    Symbols(""),
    Rename("", line=1, symbol="x", new_name="y"),
    Format(""),
    CodeActions("", line=1, apply="Do it"),
]


async def test_answers_of_another_shape_fail_or_say_nothing_and_the_server_goes_on(
    settings: Path, tmp_path: Path
) -> None:
    path = rogue(settings, tmp_path, "shapeless")
    async with desk(path) as there:
        outcomes = {}
        for request in ASKED:
            try:
                outcomes[request.name] = (await request.ask(there.file())).text
            except (LanguageServerError, LanguageEditError) as exc:
                outcomes[request.name] = str(exc)
        assert (await Diagnostics("").ask(there.file())).text.startswith("a.odd:1:1: error: wrong")
    assert outcomes["hover"] == "7" and outcomes["symbols"].startswith("symbol")
    assert "cannot be read" in outcomes["definition"] and "cannot be read" in outcomes["references"]
    assert "cannot be read" in outcomes["rename"] and "cannot be read" in outcomes["format"]
    assert len(starts(tmp_path)) == 1


async def test_answers_under_other_ids_or_twice_are_for_nobody(settings: Path, tmp_path: Path) -> None:
    path = rogue(settings, tmp_path, "mistakes ids")
    async with desk(path) as there:
        assert [await there.hover() for _ in range(3)] == ["a thing"] * 3
    assert len(starts(tmp_path)) == 1


async def test_diagnostics_of_files_that_nobody_asked_about_are_not_kept(settings: Path, tmp_path: Path) -> None:
    path = rogue(settings, tmp_path, "everywhere")
    async with desk(path) as there:
        assert (await Diagnostics("").ask(there.file())).text.startswith("a.odd:1:1: error: wrong")
        assert list(there.server.diagnostics) == [str(path)]


async def test_an_edit_outside_the_workspace_is_refused_as_a_whole(settings: Path, tmp_path: Path) -> None:
    path = rogue(settings, tmp_path, "behaves")
    async with desk(path) as there:
        with pytest.raises(LanguageEditError, match="/etc/passwd, which lies outside the workspace"):
            await Rename("", line=1, symbol="x", new_name="y").ask(there.file())


@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_killed_mid_request_is_started_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, tmp_path / "bin", *SERVERS[name].programs)
    path = tmp_path / "project" / SERVERS[name].file
    path.parent.mkdir()
    path.write_text(SERVERS[name].text)
    async with desk(path) as there:
        link = await there.server.connection()
        await there.server.follow(str(path), path.read_text())
        os.kill(there.server.pid, signal.SIGSTOP)
        asking = asyncio.create_task(link.request("textDocument/hover", {}))
        await asyncio.sleep(0)
        os.kill(there.server.pid, signal.SIGKILL)
        with pytest.raises(LanguageServerError, match=f"the language server {name} is gone"):
            await asking
        assert "greet" in (await Symbols("").ask(there.file())).text
        assert SERVERS[name].mistake in (await Diagnostics("").ask(there.file())).text


async def test_a_thousand_edits_leave_no_more_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_on_path(monkeypatch, tmp_path / "bin", *SERVERS["pylsp"].programs)
    project = tmp_path / "project"
    project.mkdir()
    paths = [project / f"a{number}.py" for number in range(2 * server.MAX_OPEN)]
    for path in paths:
        path.write_text("x = 0\n")
    async with desk(paths[0]) as there, asyncio.timeout(PATIENCE * 2):
        await Diagnostics("").ask(there.file())
        await Symbols("").ask(there.file())  # for which pylsp starts a helper of its own, once
        gc.collect()
        before, processes, objects = descriptors(), descendants(), len(gc.get_objects())
        for number in range(1000):
            await there.server.follow(str(paths[number % len(paths)]), f"x = {number}\n")
            if number % 100 == 99:
                link = await there.server.connection()
                await link.request(
                    "textDocument/documentSymbol", {"textDocument": {"uri": paths[number % 100].as_uri()}}
                )
        gc.collect()
        assert {number for number, _ in descriptors()} == {number for number, _ in before}
        assert descendants() == processes
        assert len(gc.get_objects()) - objects < 20_000
        assert len(there.server.open) == server.MAX_OPEN
        assert len(there.server.diagnostics) <= len(paths)


def table_of(settings: Path, text: str) -> None:
    settings.write_text(text)


@pytest.mark.parametrize("text", ["[pylsp\n", "[own]\ncommand = []\nlanguages = {}\n", "[own]\nshell = 'x'\n"])
async def test_a_table_that_is_wrong_is_named_and_starts_nothing(text: str, settings: Path, tmp_path: Path) -> None:
    table_of(settings, text)
    with pytest.raises(LanguageTableError, match=r"language-servers\.toml cannot be used"):
        await LanguageServers(str(tmp_path)).serving("a.py")


async def test_the_user_s_table_comes_first_and_can_switch_a_server_off(
    settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, tmp_path / "bin", *SERVERS["pylsp"].programs)
    servers = LanguageServers(str(tmp_path / "project"))
    found = await servers.serving("a.py")
    assert found and found.name == "pylsp"
    await servers.close()
    table_of(settings, "[pylsp]\nenabled = false\n")
    servers = LanguageServers(str(tmp_path / "project"))
    assert await servers.serving("a.py") is None
    await servers.close()


async def test_typescript_is_never_that_of_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = SERVERS["typescript-language-server"].programs
    put_on_path(monkeypatch, tmp_path / "bin", programs[0])
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    servers = LanguageServers(str(tmp_path / "project"))
    assert await servers.serving("a.ts") is None  # it would run what lies in `node_modules`
    (tmp_path / "bin" / "tsc").symlink_to(programs[1])
    servers = LanguageServers(str(tmp_path / "project"))
    found = await servers.serving("a.ts")
    assert found and str(found.installed.options["tsserver"]).endswith("typescript/lib/tsserver.js'}")


async def test_the_table_of_the_documentation_is_understood(settings: Path, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "programs" / "lsp.md"
    (block,) = re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    table_of(settings, block)
    known = known_servers()
    assert list(known)[:3] == ["haskell", "pylsp", "pyright"]
    assert list(known["pylsp"].command) == ["pylsp"]
    assert not known["pyright"].enabled
    named = {spec.command[0] for name, spec in known.items() if name != "haskell"}
    assert all(f"`{program}`" in page.read_text() for program in named)
