"""Files with a hard link outside of the workspace: a sandboxed command changes the one inside alone."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ordinary import OWNER, run_as_ordinary_user

from dragoman.foundation.places import open_place
from dragoman.host.isolation import linked_files
from dragoman.host.isolation.linked_files import Linked, separate
from dragoman.host.terminals import Terminals, execution
from dragoman.host.terminals.sandbox.sandbox import Sandbox, SandboxUnavailable

pytestmark = pytest.mark.usefixtures("nothing_left")
bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A package manager's store, of which a workspace beside it has a package."""
    store, workspace = tmp_path / "store", tmp_path / "workspace"
    (workspace / "modules" / "deep").mkdir(parents=True)
    store.mkdir()
    for name in ("one", "two", "sealed"):
        (store / name).write_text(f"of the store: {name}\n")
        os.link(store / name, workspace / "modules" / name)
    os.link(store / "one", workspace / "modules" / "deep" / "again")
    (store / "sealed").chmod(0o444)
    (store / "two").chmod(0o755)
    os.utime(store / "two", ns=(10**18, 10**18))
    (workspace / "inner").write_text("inner\n")
    os.link(workspace / "inner", workspace / "inner too")
    (workspace / "soft").symlink_to(store)
    if os.geteuid() == 0:
        for path in tmp_path.rglob("*"):
            os.chown(path, *OWNER, follow_symlinks=False)
    return store


async def run(workspace: Path, command: str, **options: Any) -> str:
    async with Terminals(sandbox=Sandbox(**options)) as terminals, asyncio.timeout(60):
        terminal = await terminals.create("s", execution(command, cwd=str(workspace)))
        await terminal.wait()
        return terminal.output().output


def contents(store: Path) -> dict[str, str]:
    return {name: (store / name).read_text() for name in sorted(os.listdir(store))}


@bubblewrap
async def test_a_write_in_place_changes_nothing_outside(store: Path, tmp_path: Path) -> None:
    workspace, before = tmp_path / "workspace", contents(store)
    inner = (workspace / "inner").stat().st_ino
    writing = "for f in modules/one modules/two modules/sealed inner; do echo more >> $f; done"
    said = await run(workspace, f"chmod u+w modules/*; {writing}; cat modules/*")
    assert said.count("more") == 3
    assert contents(store) == before
    assert (workspace / "modules" / "deep" / "again").read_text() == "of the store: one\nmore\n"
    assert (workspace / "inner too").read_text() == "inner\nmore\n"
    assert (workspace / "inner").stat().st_ino == inner
    assert {path.name for path in workspace.rglob("*")} == {
        *("modules", "deep", "one", "two", "sealed", "again", "inner", "inner too", "soft")
    }


@bubblewrap
async def test_they_can_be_refused_or_kept(store: Path, tmp_path: Path) -> None:
    workspace, before = tmp_path / "workspace", contents(store)
    with pytest.raises(SandboxUnavailable, match="2 more files are also named outside"):
        await run(workspace, "echo more >> modules/one", hard_links="refuse")
    assert contents(store) == before
    await run(workspace, "echo more >> modules/one", hard_links="keep")
    assert contents(store)["one"] == "of the store: one\nmore\n"


def test_a_copy_is_like_its_file(store: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    old = (workspace / "modules" / "two").stat()
    with open_place(workspace) as place:
        separate([place, place], old.st_uid, "break")
        new = (workspace / "modules" / "two").stat()
        assert (new.st_mode, new.st_uid, new.st_gid, new.st_mtime_ns) == (
            *(old.st_mode, old.st_uid, old.st_gid, old.st_mtime_ns),
        )
        assert (new.st_ino != old.st_ino, new.st_nlink) == (True, 1)
        separate([place], old.st_uid, "refuse")  # there are none left


def test_what_cannot_be_copied_is_named(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.host.isolation.linked_files.MOST_COPIED", 10)
    with open_place(tmp_path / "workspace") as place, pytest.raises(Linked, match="too large to be copied"):
        separate([place], os.stat(store / "one").st_uid, "break")


def test_files_that_a_command_cannot_change_stay_as_they_are(store: Path, tmp_path: Path) -> None:
    with open_place(tmp_path / "workspace") as place:
        separate([place], 4321, "refuse")


def test_a_file_that_grows_while_it_is_copied_is_not_copied_for_ever(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.read

    def growing(fd: int, size: int) -> bytes:
        with open(store / "one", "a") as file:
            file.write("more\n")
        return read(fd, size)

    monkeypatch.setattr(os, "read", growing)
    with open_place(tmp_path / "workspace") as place, pytest.raises(Linked, match="cannot be copied"):
        separate([place], (store / "one").stat().st_uid, "break")


def test_files_in_what_is_too_deep_to_be_looked_through_are_not_missed(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linked_files, "DEEPEST", 20)
    (tmp_path / "workspace" / "/".join("d" * 21)).mkdir(parents=True)
    with (
        open_place(tmp_path / "workspace") as place,
        pytest.raises(Linked, match="d/d/d… is too deep to be looked"),
    ):
        separate([place], (store / "one").stat().st_uid, "break")


def test_a_walk_that_takes_too_long_is_given_up(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linked_files, "PATIENCE", -1.0)
    with open_place(tmp_path / "workspace") as place, pytest.raises(Linked, match="takes too long"):
        separate([place], (store / "one").stat().st_uid, "break")


@pytest.mark.skipif(os.geteuid() == 0, reason="root looks into everything")
def test_a_directory_that_its_owner_has_closed_is_not_passed_by(store: Path, tmp_path: Path) -> None:
    (tmp_path / "workspace" / "modules").chmod(0)
    try:
        with open_place(tmp_path / "workspace") as place, pytest.raises(Linked, match="cannot be looked into"):
            separate([place], os.geteuid(), "break")
    finally:
        (tmp_path / "workspace" / "modules").chmod(0o755)


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="this is run as an ordinary user")
def test_all_of_this_holds_for_an_ordinary_user() -> None:
    run_as_ordinary_user(__file__)
