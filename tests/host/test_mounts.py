"""What the keeper makes read-only before bubblewrap begins."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ordinary import run_as_ordinary_user

from dragoman.host.terminals.keeper import commands, mounts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has namespaces")
Start = Callable[[str], tuple[int, str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Runs a shell command with all read-only but a workspace; gives its exit, and what went wrong before it."""
    (tmp_path / "workspace").mkdir()
    fds = [os.open(tmp_path / "workspace", os.O_RDONLY) for _ in range(5)]

    def run(text: str) -> tuple[int, str]:
        order = {"argv": ["/bin/sh", "-c", text], "env": [], "tty": False, "limits": {}, "mark": 0}
        pid, problem = commands.start({**order, "kept": 1, "staged": 0, "writable": [0]}, fds, None)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), problem

    yield run
    for fd in fds:
        os.close(fd)


def test_all_but_the_workspace_is_read_only(start: Start, tmp_path: Path) -> None:
    assert start(f"! mkdir {tmp_path}/outside 2> {tmp_path}/workspace/inside") == (0, "")
    assert os.listdir(tmp_path) == ["workspace"]
    assert "Read-only file system" in (tmp_path / "workspace" / "inside").read_text()


def test_what_took_the_place_of_a_workspace_stays_read_only(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(os, "readlink", lambda path: f"{tmp_path}/other")  # as if it had been replaced since
    assert start(f": > {tmp_path}/other/made") == (
        127,
        f"{tmp_path}/other was replaced while its sandbox was being made",
    )
    assert os.listdir(tmp_path / "other") == []


def test_where_only_bubblewrap_may_make_namespaces_it_begins_without(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fds: list[int]) -> None:
        raise mounts.Unsealable

    monkeypatch.setattr(commands, "seal_around", refuse)
    assert start(f": > {tmp_path}/outside") == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="this is run as an ordinary user")
def test_all_of_this_holds_for_an_ordinary_user() -> None:
    run_as_ordinary_user(__file__)
