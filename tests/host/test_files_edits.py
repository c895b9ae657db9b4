"""Several files are changed at once: all of them or none."""

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from dragoman.errors import InternalError, InvalidParams, ResourceNotFound, RpcError
from dragoman.host.files import Workspace, linux
from dragoman.host.files.extensions import DeleteEdit, FileEdit, ReplaceEdit, Replacement, WriteEdit


@pytest.fixture
def ws(tmp_path: Path):
    before = os.listdir("/proc/self/fd")
    (tmp_path / "ws").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "ws" / name).write_text(f"old {name}\n")
    yield tmp_path / "ws"
    assert os.listdir("/proc/self/fd") == before
    assert list((tmp_path / "state").rglob("*.edits")) == []


@pytest.fixture
def workspace(ws: Path):
    with Workspace(ws, state=ws.parent / "state") as workspace:
        yield workspace


def apply(workspace: Workspace, *edits: FileEdit):
    with workspace.editing(edits) as several:
        return several.commit()


def tree(ws: Path) -> dict[str, str]:
    return {str(path.relative_to(ws)): "" if path.is_dir() else path.read_text() for path in sorted(ws.rglob("*"))}


def kind_of(caught: pytest.ExceptionInfo[RpcError]) -> str:
    return caught.value.data["kind"]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_all_edits_are_made_and_what_became_of_each_file_is_told(workspace: Workspace, ws: Path) -> None:
    (ws / "a").chmod(0o750)
    done = apply(
        workspace,
        WriteEdit(path=f"{ws}/a", content="new a\n"),
        WriteEdit(path=f"{ws}/x/y/new", content="héllo"),
        ReplaceEdit(
            path=f"{ws}/b",
            replacements=[
                Replacement(old_text="old", new_text="new"),
                Replacement(old_text="new b", new_text="newer b"),
            ],
        ),
        DeleteEdit(path=f"{ws}/c"),
    )
    assert tree(ws) == {"a": "new a\n", "b": "newer b\n", "x": "", "x/y": "", "x/y/new": "héllo"}
    assert stat.S_IMODE((ws / "a").stat().st_mode) == 0o750
    told = [(Path(file.path).name, file.bytes_written, file.created, file.deleted) for file in done]
    assert told == [("a", 6, False, False), ("new", 6, True, False), ("b", 8, False, False), ("c", 0, False, True)]


def test_what_will_be_done_is_known_before_it_is(workspace: Workspace, ws: Path) -> None:
    (ws / "link").symlink_to("b")
    before = tree(ws)
    edits = [
        ReplaceEdit(path=f"{ws}/a", replacements=[Replacement(old_text="old", new_text="new")]),
        WriteEdit(path=f"{ws}/link", content="new b\n"),
        WriteEdit(path=f"{ws}/d/e", content="e"),
        DeleteEdit(path=f"{ws}/c"),
    ]
    with workspace.editing(edits) as several:
        operations = [(edit.operation.kind, edit.operation.path) for edit in several.edits]
        assert several.edits[0].operation.digest == sha256("new a\n")
        assert [edit.operation.creates for edit in several.edits[:3]] == [False, False, True]
    assert operations == [
        ("file_write", f"{ws}/a"),
        ("file_write", f"{ws}/b"),
        ("file_write", f"{ws}/d/e"),
        ("file_delete", f"{ws}/c"),
    ]
    assert tree(ws) == before


FAILING = {
    "no such file to delete": (lambda ws: DeleteEdit(path=f"{ws}/missing"), ResourceNotFound, None),
    "no such file to edit": (lambda ws: ReplaceEdit(path=f"{ws}/missing", replacements=[]), ResourceNotFound, None),
    "a path outside": (lambda ws: WriteEdit(path=f"{ws}/../x", content=""), InvalidParams, "outside_workspace"),
    "a directory": (lambda ws: WriteEdit(path=f"{ws}/dir", content=""), InvalidParams, "not_a_file"),
    "a link to delete": (lambda ws: DeleteEdit(path=f"{ws}/link"), InvalidParams, "not_a_file"),
    "a file that exists": (
        lambda ws: WriteEdit(path=f"{ws}/b", content="", overwrite=False),
        InvalidParams,
        "exists",
    ),
    "a file that changed": (
        lambda ws: WriteEdit(path=f"{ws}/b", content="", expected_sha256=sha256("older b\n")),
        InvalidParams,
        "changed",
    ),
    "a file to delete that changed": (
        lambda ws: DeleteEdit(path=f"{ws}/b", expected_sha256=sha256("older b\n")),
        InvalidParams,
        "changed",
    ),
    "text that is not there": (
        lambda ws: ReplaceEdit(path=f"{ws}/b", replacements=[Replacement(old_text="x", new_text="y")]),
        InvalidParams,
        "no_match",
    ),
    "text that is there twice": (
        lambda ws: ReplaceEdit(path=f"{ws}/twice", replacements=[Replacement(old_text="x", new_text="y")]),
        InvalidParams,
        "no_match",
    ),
    "the same file twice": (lambda ws: WriteEdit(path=f"{ws}/./a", content=""), InvalidParams, "conflict"),
    "below a file": (lambda ws: WriteEdit(path=f"{ws}/b/below", content=""), InvalidParams, "not_a_directory"),
    "below a new file": (lambda ws: WriteEdit(path=f"{ws}/new/file/below", content=""), RpcError, None),
    "another encoding": (
        lambda ws: WriteEdit(path=f"{ws}/b", content="日本", encoding="latin-1"),
        InvalidParams,
        "encoding",
    ),
}


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("place", [1, 2, 3])
def test_one_edit_that_fails_undoes_all(workspace: Workspace, ws: Path, failing: str, place: int) -> None:
    (ws / "dir").mkdir()
    (ws / "link").symlink_to("b")
    (ws / "twice").write_text("x x")
    before = tree(ws)
    edits: list[FileEdit] = [
        WriteEdit(path=f"{ws}/a", content="new a\n"),
        WriteEdit(path=f"{ws}/new/file", content="new\n"),
        DeleteEdit(path=f"{ws}/c"),
    ]
    edit, error, kind = FAILING[failing]
    edits.insert(place, edit(ws))
    with pytest.raises(error) as caught:
        apply(workspace, *edits)
    if kind is not None:
        assert kind_of(caught) == kind
    assert tree(ws) == before


EDITING = """
import sys
from dragoman.errors import RpcError
from dragoman.host.files import Workspace
from dragoman.host.files.extensions import DeleteEdit, WriteEdit

ws, state = sys.argv[1:]
edits = [WriteEdit(path=f"{ws}/a", content="new"), DeleteEdit(path=f"{ws}/b")]
edits += [WriteEdit(path=f"{ws}/ro/x", content="x"), WriteEdit(path=f"{ws}/c", content="new")]
try:
    with Workspace(ws, state=state) as workspace, workspace.editing(edits) as several:
        several.commit()
except RpcError as exc:
    print(exc.data["kind"])
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_an_edit_that_hits_a_read_only_mount_leaves_nothing_behind(ws: Path) -> None:
    (ws / "ro").mkdir()
    before = tree(ws)
    mounts = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--ro-bind", f"{ws}/ro", f"{ws}/ro"]
    command = [*mounts, sys.executable, "-c", EDITING, str(ws), str(ws.parent / "state")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "read_only\n", done.stderr
    assert tree(ws) == before


def test_a_file_that_changes_between_looking_and_doing_undoes_all(workspace: Workspace, ws: Path) -> None:
    edits = [
        WriteEdit(path=f"{ws}/a", content="new a\n"),
        ReplaceEdit(path=f"{ws}/b", replacements=[Replacement(old_text="old", new_text="new")]),
    ]
    with workspace.editing(edits) as several:
        (ws / "b").write_text("theirs\n")
        with pytest.raises(InvalidParams) as caught:
            several.commit()
    assert kind_of(caught) == "changed"
    assert tree(ws) == {"a": "old a\n", "b": "theirs\n", "c": "old c\n"}


def test_of_those_who_change_the_same_files_one_at_a_time_gets_through(workspace: Workspace, ws: Path) -> None:
    """Each adds one to the number in both files; no addition is lost, and both always say the same."""
    for name in ("a", "b"):
        (ws / name).write_text("0")

    def count() -> None:
        done = 0
        while done < 5:
            number = (ws / "a").read_text()
            replacements = [Replacement(old_text=number, new_text=str(int(number) + 1))]
            with contextlib.suppress(InvalidParams):
                apply(workspace, *(ReplaceEdit(path=f"{ws}/{name}", replacements=replacements) for name in "ab"))
                done += 1

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tree(ws) == {"a": "15", "b": "15", "c": "old c\n"}


@pytest.mark.parametrize("edit", [WriteEdit(path="", content="new"), DeleteEdit(path="")], ids=["write", "delete"])
@pytest.mark.parametrize("call", ["rename_new", "exchange"])
def test_a_file_that_changes_at_the_last_moment_is_put_back(
    workspace: Workspace, ws: Path, monkeypatch, call: str, edit: FileEdit
) -> None:
    """Somebody replaces the file when it has been looked at for the last time."""
    rename = getattr(linux, call)

    def hurry(dir_fd: int, old: str, new: str) -> None:
        if (ws / "a").exists() and "old a" in (ws / "a").read_text():
            (ws / "theirs").write_text("theirs\n")
            (ws / "theirs").replace(ws / "a")
        rename(dir_fd, old, new)

    monkeypatch.setattr(linux, call, hurry)
    with workspace.editing([msgspec.structs.replace(edit, path=f"{ws}/a")]) as several:
        if call == ("exchange" if isinstance(edit, WriteEdit) else "rename_new"):
            with pytest.raises(InvalidParams):
                several.commit()
            assert tree(ws) == {"a": "theirs\n", "b": "old b\n", "c": "old c\n"}
        else:
            several.commit()


def test_a_file_with_unsaved_changes_is_left_to_its_editor(ws: Path) -> None:
    before = tree(ws)
    edits = [WriteEdit(path=f"{ws}/{name}", content="") for name in ("a", "b")]
    overlay = {f"{ws}/b": "unsaved"}.get
    with Workspace(ws, state=ws.parent / "state", overlay=overlay) as workspace, pytest.raises(RpcError) as caught:
        apply(workspace, *edits)
    assert kind_of(caught) == "unsaved"
    assert tree(ws) == before


def test_without_a_place_for_the_journal_nothing_is_changed(ws: Path) -> None:
    (ws.parent / "state").write_text("not a directory")
    before = tree(ws)
    with Workspace(ws, state=ws.parent / "state") as workspace, pytest.raises(InternalError) as caught:
        apply(workspace, WriteEdit(path=f"{ws}/a", content="new"))
    assert kind_of(caught) == "no_journal"
    assert tree(ws) == before


def test_too_many_edits_are_refused(workspace: Workspace, ws: Path) -> None:
    with pytest.raises(InvalidParams) as caught:
        workspace.editing([WriteEdit(path=f"{ws}/{number}", content="") for number in range(1001)])
    assert kind_of(caught) == "too_large"
