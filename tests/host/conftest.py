"""A home of its own for every test: rules, approvals, the audit log and the journal are the user's."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, which is not in the workspace."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    return home


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    """A workspace with a file in it."""
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "a.txt").write_text("one\ntwo\nthree\n")
    return directory


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that every user can enter and write: pytest's own are its user's alone.

    Not in /tmp, which a host that is root covers while it starts a sandbox.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="dragoman-tests-") as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)
