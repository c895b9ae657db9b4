"""A file gets another one's name: what is saved in between is kept, and one process does it at a time."""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.host.files import linux
from dragoman.host.files.changing import exchanging
from dragoman.host.files.changing.condition import ANYTHING, Condition
from dragoman.host.files.changing.exchanging import put, take
from dragoman.host.files.errors import FileRefused

NEVER = Condition(digest="0" * 64)  # no file has that


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "name").write_text("before")
    (tmp_path / "new").write_text("ours")
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture(params=["exchange", "two steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Names are exchanged, or as where they cannot be."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    if request.param == "two steps":
        monkeypatch.setattr(linux, "exchange", refuse)
    return str(request.param)


def test_a_version_saved_while_a_change_is_refused_stays_and_the_one_before_is_kept(
    way: str, directory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = exchanging._look

    def save_and_look(*arguments: object) -> None:
        """Somebody saves as editors do, at the moment that the file is looked at."""
        (tmp_path / "saved").write_text("saved meanwhile")
        (tmp_path / "saved").rename(tmp_path / "name")
        look(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(exchanging, "_look", save_and_look)
    with pytest.raises(FileRefused):
        put(directory, "new", "aside", "name", NEVER)
    assert (tmp_path / "name").read_text() == "saved meanwhile"
    assert [path.read_text() for path in tmp_path.glob("name.kept-*")] == ["before"]


def test_files_of_a_directory_are_exchanged_by_one_process_at_a_time(
    directory: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanging, "PATIENCE", 0.01)
    others = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(others, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            put(directory, "new", "aside", "name", ANYTHING)
        with pytest.raises(BlockingIOError):
            take(directory, "aside", "name", ANYTHING)
        assert (tmp_path / "name").read_text() == "before"
        fcntl.flock(others, fcntl.LOCK_UN)
        put(directory, "new", "aside", "name", ANYTHING)
    finally:
        os.close(others)
    assert (tmp_path / "name").read_text() == "ours"
