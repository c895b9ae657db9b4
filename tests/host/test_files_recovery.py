"""A process that was killed in the middle of a change: the next workspace finishes it or takes it back."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from torture.moments import NEVER, WAYS, die, in_child, lacking, moments

from dragoman.host.files import Workspace
from dragoman.host.files.changing import exchanging, journal
from dragoman.host.files.extensions import DeleteEdit, FileEdit, WriteEdit

OLD = {name: f"old {name}\n" for name in ("a", "b", "c")}
NEW = {name: f"new {name}\n" for name in ("a", "b", "c")}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    before = len(os.listdir("/proc/self/fd"))
    ws = tmp_path / "ws"
    ws.mkdir()
    for name, text in OLD.items():
        (ws / name).write_text(text)
    yield ws
    assert len(os.listdir("/proc/self/fd")) == before


def tree(ws: Path) -> dict[str, str]:
    return {str(path.relative_to(ws)): "" if path.is_dir() else path.read_text() for path in sorted(ws.rglob("*"))}


def writes(ws: Path, *names: str) -> list[FileEdit]:
    return [WriteEdit(path=f"{ws}/{name}", content=f"new {name}\n") for name in names or NEW]


def recover(ws: Path, way: str = "exchange") -> None:
    """Begin anew, on a file system that has what the one before the crash had."""

    def work() -> int:
        lacking(way)
        Workspace(ws, state=ws.parent / "state").close()
        return 0

    if way == "exchange":
        Workspace(ws, state=ws.parent / "state").close()
    else:
        assert in_child(work) == 0


def records(ws: Path) -> list[str]:
    return sorted(path.name for path in (ws.parent / "state").rglob("*") if path.is_file())


def crash(
    ws: Path, edits: list[FileEdit], *, at: int = NEVER, way: str = "exchange", act: Callable[[], object] = die
) -> int:
    """Make edits in a process that is killed at a moment, or does something else then; how it ended."""

    def work() -> int:
        lacking(way)
        counted = moments(lambda number: act() if number == at else None)
        with Workspace(ws, state=ws.parent / "state") as workspace, workspace.editing(edits) as several, counted:
            several.commit()
        return 0

    return in_child(work)


STRACED = """
import sys
from dragoman.host.files import Workspace
from dragoman.host.files.extensions import WriteEdit

ws, state = sys.argv[1:]
edits = [WriteEdit(path=f"{ws}/{name}", content=f"new {name}\\n") for name in ("a", "b", "c")]
with Workspace(ws, state=state) as workspace, workspace.editing(edits) as several:
    several.commit()
"""


def kill_at(ws: Path, call: str, when: int) -> None:
    """Have the kernel kill a process at a system call, the first of its kind, the second, and so on."""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}"]
    strace += ["-e", f"inject={call}:signal=KILL:when={when}"]
    command = [*strace, sys.executable, "-B", "-c", STRACED, str(ws), str(ws.parent / "state")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode in (-9, 137), ended.stderr


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
LAST_DIRECTORY = 8  # fsync: three new contents, the record and its name, three directories


@needs_strace
def test_a_change_that_was_cut_short_after_its_last_file_is_finished_and_that_is_said(ws: Path, caplog) -> None:
    kill_at(ws, "fsync", LAST_DIRECTORY)
    (ws / "saved").write_text(NEW["a"])
    (ws / "saved").replace(ws / "a")  # saved again, unchanged
    recover(ws)
    assert tree(ws) == NEW
    assert f"has been finished: {ws}/a, {ws}/b, {ws}/c" in caplog.text
    assert records(ws) == []


@needs_strace
def test_what_the_user_made_of_a_finished_file_after_a_crash_stays_with_the_rest_of_the_change(ws: Path) -> None:
    kill_at(ws, "fsync", LAST_DIRECTORY)
    (ws / "b").write_text("the user's own\n")
    recover(ws)
    assert tree(ws) == {**NEW, "b": "the user's own\n"}


@needs_strace
@pytest.mark.parametrize("exchange", [1, 2, 3])
def test_a_change_that_was_cut_short_before_its_last_file_is_taken_back_and_that_is_said(
    ws: Path, caplog, exchange: int
) -> None:
    kill_at(ws, "renameat2", exchange)
    recover(ws)
    assert tree(ws) == OLD
    assert f"has been taken back: {ws}/a, {ws}/b, {ws}/c" in caplog.text
    assert records(ws) == []


@needs_strace
def test_a_change_that_is_taken_back_leaves_what_somebody_has_saved_since(ws: Path, caplog) -> None:
    kill_at(ws, "renameat2", 3)
    (ws / "a").write_text("the user's own\n")
    recover(ws)
    assert tree(ws) == {**OLD, "a": "the user's own\n"}
    assert "a was changed by somebody else" in caplog.text


@needs_strace
def test_each_step_of_a_change_is_on_the_disk_before_the_next_begins(ws: Path) -> None:
    """A machine that goes down finds all of it that the steps after it rely on."""
    state, log = ws.parent / "state", ws.parent / "calls"
    wanted = "trace=fsync,renameat2,unlinkat,unlink"
    command = [
        "strace",
        "-f",
        "-y",
        "-e",
        wanted,
        "-o",
        str(log),
        sys.executable,
        "-c",
        STRACED,
        str(ws),
        str(state),
    ]
    subprocess.run(command, check=True)
    steps = [found for line in log.read_text().splitlines() if (found := _step(line, ws, state))]
    assert steps == [
        *["content"] * 3,
        "record",
        *["exchange", "directory"] * 3,
        "record",  # done
        *["old file", "directory"] * 3,
        "record goes",
    ]


def _step(line: str, ws: Path, state: Path) -> str | None:
    """What a system call does for a change of the workspace's files."""
    if "fsync(" in line and f"<{ws}/.dragoman-" in line:
        return "content"
    if "fsync(" in line and f"<{ws}>" in line:
        return "directory"
    if "fsync(" in line and f"<{state}/files/" in line:
        return "record"
    if "RENAME_EXCHANGE" in line and f"<{ws}>" in line:
        return "exchange"
    if "unlink" in line and f"<{ws}>" in line:
        return "old file"
    return "record goes" if "unlink" in line and f"<{state}/files>" in line else None


@pytest.mark.parametrize("saves_again", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_file_saved_at_the_last_moment_is_put_back_by_the_next_start_if_the_writer_is_killed(
    ws: Path, way: str, saves_again: bool
) -> None:
    """The writer has taken the user's file out, and dies before it could put it back."""

    def work() -> int:
        lacking(way)
        put = exchanging._put_over

        def save_first(*arguments: object) -> bool:
            (ws / "saved").write_text("the user's own\n")
            (ws / "saved").replace(ws / "b")
            exchanging._look = lambda *_: die()
            return put(*arguments)

        with Workspace(ws, state=ws.parent / "state") as workspace, workspace.writing(f"{ws}/b") as target:
            assert target.look().text == OLD["b"]
            exchanging._put_over = save_first
            target.commit(NEW["b"])
        return 0

    assert in_child(work) == -9
    if saves_again:
        (ws / "b").write_text("a later one\n")
    recover(ws)
    found = tree(ws)
    kept = [found.pop(name) for name in list(found) if name.startswith("b.kept-")]
    assert found == {**OLD, "b": "a later one\n" if saves_again else "the user's own\n"}
    assert kept == (["the user's own\n"] if saves_again else [])
    assert records(ws) == []


@pytest.mark.parametrize("way", WAYS)
def test_no_moment_leaves_half_a_change_or_new_directories_or_removes_one_of_the_users(ws: Path, way: str) -> None:
    (ws / "empty").mkdir()
    (ws / "users").mkdir()
    new = {path: f"new {path}\n" for path in ("new/deep/x", "new/y", "users/own/z")}
    before, at, ended, endings = tree(ws), 0, -9, set()
    while ended == -9:
        at += 1
        ended = crash(ws, writes(ws, *new), at=at, way=way)
        recover(ws, way)
        after = tree(ws)
        endings.add("new/y" in after)
        if new["new/y"] in after.values():
            assert after == {**before, "new": "", "new/deep": "", "users/own": "", **new}
        elif way == "exchange":
            assert after == before, at
        else:  # what was made a moment before it could be told from the user's own
            assert {**after, **before} == after
            assert set("".join(text for name, text in after.items() if name not in before)) == set()
        for made in ("new", "users/own"):
            shutil.rmtree(ws / made, ignore_errors=True)
    assert ended == 0
    assert endings == {True, False}


@pytest.mark.parametrize("way", WAYS)
def test_no_moment_leaves_an_old_file_under_another_name(ws: Path, way: str) -> None:
    ends = set()
    for at in range(1, 30):
        ends.add(crash(ws, writes(ws), at=at, way=way))
        recover(ws, way)
        assert tree(ws) in (OLD, NEW), at
        for name, text in OLD.items():
            (ws / name).write_text(text)
    assert -9 in ends


def test_a_directory_made_again_by_the_user_after_a_crash_is_not_removed(ws: Path) -> None:
    kills = 0
    while not (ws / "new").exists():
        kills += 1
        assert crash(ws, writes(ws, "new/x"), at=kills) == -9
    shutil.rmtree(ws / "new")
    (ws / "new").mkdir()  # which often gets the number of the one before
    recover(ws)
    assert tree(ws) == {**OLD, "new": ""}


def test_a_directory_that_has_taken_the_place_of_another_is_left_alone(ws: Path, caplog) -> None:
    (ws / "dir").mkdir()
    at = 12
    assert crash(ws, writes(ws, "a", "dir/new/x"), at=at) == -9
    assert (ws / "dir" / "new").exists()
    (ws / "dir").rename(ws / "moved")
    (ws / "dir" / "new").mkdir(parents=True)
    recover(ws)
    assert (ws / "dir" / "new").exists()
    assert "another directory has taken its place" in caplog.text
    shutil.rmtree(ws / "dir")
    (ws / "moved").rename(ws / "dir")
    recover(ws)
    assert tree(ws) in (
        {**OLD, "dir": ""},
        {**OLD, "a": NEW["a"], "dir": "", "dir/new": "", "dir/new/x": "new dir/new/x\n"},
    )
    assert records(ws) == []


# Records that are damaged


def a_record(ws: Path) -> list[bytes]:
    """The lines of a good record, of a process that died when all was prepared."""
    for at in range(1, 50):
        crash(ws, [*writes(ws, "a", "b"), DeleteEdit(path=f"{ws}/c")], at=at)
        for record in (ws.parent / "state" / "files").glob("*.edits"):
            if len(found := record.read_bytes().splitlines(keepends=True)) == 2:
                return found
        recover(ws)
    raise AssertionError("nothing was prepared")


def changed(line: bytes, *way: str | int, to: object) -> bytes:
    """A line with one value changed."""
    whole = json.loads(line)
    inner = whole
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = to
    return json.dumps(whole).encode() + b"\n"


DAMAGES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "not JSON": lambda begun, prepared: b"garbage\n" + prepared,
    "not UTF-8": lambda begun, prepared: b"\xff\xfe" + begun + prepared,
    "zeros": lambda begun, prepared: bytes(len(begun)) + b"\n" + prepared,
    "another type": lambda begun, prepared: b'{"something": "else"}\n' + prepared,
    "a list": lambda begun, prepared: b"[]\n" + prepared,
    "null": lambda begun, prepared: b"null\n",
    "nested too deeply": lambda begun, prepared: b"[" * 100_000 + b"\n",
    "a lone surrogate": lambda begun, prepared: (
        changed(begun, "files", 0, "location", "name", to="\ud800") + prepared
    ),
    "the second line first": lambda begun, prepared: prepared + begun,
    "begun twice": lambda begun, prepared: begun + begun + prepared,
    "prepared twice": lambda begun, prepared: begun + prepared + prepared,
    "done before it was prepared": lambda begun, prepared: begun + b'{"type": "done"}\n',
    "a content too few": lambda begun, prepared: begun + changed(prepared, "contents", to=[]),
    "a file too few": lambda begun, prepared: changed(begun, "files", to=[]) + prepared,
    "no name": lambda begun, prepared: changed(begun, "files", 0, "location", "name", to="") + prepared,
    "a name with a slash": lambda begun, prepared: changed(begun, "files", 0, "new", to="../../x") + prepared,
    "a name of the user's": lambda begun, prepared: changed(begun, "files", 0, "aside", to="b") + prepared,
    "one name twice": lambda begun, prepared: (
        changed(begun, "files", 0, "aside", to=json.loads(begun)["files"][0]["new"]) + prepared
    ),
    "a name with a NUL": lambda begun, prepared: (
        changed(begun, "files", 0, "location", "name", to="a\0b") + prepared
    ),
    "a relative directory": lambda begun, prepared: (
        changed(begun, "files", 0, "location", "directory", to="a") + prepared
    ),
    "a directory above": lambda begun, prepared: (
        changed(begun, "files", 0, "location", "missing", to=[".."]) + prepared
    ),
    "a directory made for no file": lambda begun, prepared: (
        begun + b'{"type": "made", "file": 7, "depth": 0, "identity": {"inode": 1, "born": 1}}\n'
    ),
    "a directory it does not have": lambda begun, prepared: (
        begun + b'{"type": "made", "file": 0, "depth": 99, "identity": {"inode": 1, "born": 1}}\n'
    ),
    "an inode that is a text": lambda begun, prepared: (
        changed(begun, "files", 0, "location", "identity", "inode", to="x") + prepared
    ),
    "a digest that is a number": lambda begun, prepared: begun + changed(prepared, "contents", 0, "digest", to=7),
    "a line in the middle cut off": lambda begun, prepared: begun[:-20] + b"\n" + prepared,
}


def test_a_damaged_record_is_set_aside_and_said_and_nothing_else_happens(ws: Path, caplog) -> None:
    begun, prepared = a_record(ws)
    (record,) = (ws.parent / "state" / "files").glob("*.edits")
    before = tree(ws)
    for name, damage in DAMAGES.items():
        caplog.clear()
        record.write_bytes(damage(begun, prepared))
        for _ in range(2):  # once said, it is in nobody's way
            recover(ws)
        assert records(ws) == [f"{record.name}.damaged"], name
        assert caplog.text.count("set aside") == 1, name
        assert "Traceback" not in caplog.text
        assert tree(ws) == before, name
        Path(f"{record}.damaged").unlink()
    record.write_bytes(begun + prepared)
    recover(ws)
    assert tree(ws) == OLD


def test_a_record_that_leads_to_an_error_nobody_thought_of_is_set_aside(ws: Path, caplog, monkeypatch) -> None:
    a_record(ws)
    (record,) = (ws.parent / "state" / "files").glob("*.edits")
    before = tree(ws)

    def failing(*_: object) -> bool:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(journal, "settle", failing)
    recover(ws)
    assert records(ws) == [f"{record.name}.damaged"]
    assert "a mistake of ours" in caplog.text
    assert tree(ws) == before


@pytest.mark.parametrize("kept", ["", '{"type": "begun", "fi', '{"type": "begun", "files": []}\n{"type": "prep'])
def test_a_record_cut_short_is_nothing(ws: Path, kept: str) -> None:
    (ws.parent / "state" / "files").mkdir(parents=True, mode=0o700)
    (ws.parent / "state" / "files" / "0123456789abcdef-1.edits").write_text(kept)
    recover(ws)
    assert tree(ws) == OLD
    assert records(ws) == []


def test_a_directory_that_is_not_there_now_is_waited_for(ws: Path, caplog) -> None:
    a_record(ws)
    kept = records(ws)
    ws.rename(ws.parent / "unmounted")
    ws.mkdir()
    (ws / "a").write_text(OLD["a"])
    recover(ws)
    assert tree(ws) == {"a": OLD["a"]}
    assert records(ws) == kept
    assert "cannot be taken back now" in caplog.text
    shutil.rmtree(ws)
    (ws.parent / "unmounted").rename(ws)
    recover(ws)
    assert tree(ws) == OLD
    assert records(ws) == []


def test_recovery_follows_no_link(ws: Path) -> None:
    a_record(ws)
    ws.rename(ws.parent / "outside")
    ws.symlink_to(ws.parent / "outside")
    before = tree(ws.parent / "outside")
    recover(ws.parent)
    assert tree(ws.parent / "outside") == before
    ws.unlink()
    (ws.parent / "outside").rename(ws)
