"""Several files are changed at once: all of them or none."""

import contextlib
import hashlib
import json
import os
import stat
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
    assert kind is None or kind_of(caught) == kind
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


def test_an_old_file_without_a_second_name_is_copied(workspace: Workspace, ws: Path, monkeypatch) -> None:
    """As on a file system that has no hard links; an edit that fails later puts the copy back."""

    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    (ws / "a").chmod(0o640)
    with workspace.editing([WriteEdit(path=f"{ws}/a", content="new"), DeleteEdit(path=f"{ws}/b")]) as several:
        monkeypatch.setattr(linux, "rename_new", no_links)  # so that nothing can be deleted either
        with pytest.raises(InvalidParams):
            several.commit()
        monkeypatch.undo()
    Workspace(ws, state=ws.parent / "state").close()
    assert tree(ws) == {"a": "old a\n", "b": "old b\n", "c": "old c\n"}
    assert stat.S_IMODE((ws / "a").stat().st_mode) == 0o640


# Recovery


def plant(ws: Path, *lines: object) -> Path:
    """A record somebody has left behind."""
    directory = ws.parent / "state" / "files"
    directory.mkdir(parents=True, mode=0o700)
    record = directory / "0123456789abcdef-1.edits"
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return record


def names(ws: Path, **changes: object) -> dict[str, object]:
    found = {
        "directory": str(ws),
        "inode": ws.stat().st_ino,
        "missing": [],
        "name": "a",
        "temp": ".t",
        "kept": ".k",
    }
    return {**found, **changes}


def contents(ws: Path, new: str) -> dict[str, object]:
    return {"contents": [{"old": sha256("older\n"), "new": sha256(new), "inode": (ws / "a").stat().st_ino}]}


def test_what_somebody_has_changed_since_the_crash_is_left_alone(ws: Path, caplog) -> None:
    plant(ws, [names(ws)], contents(ws, "newer\n"))
    (ws / ".k").write_text("older\n")
    (ws / "a").write_text("the user's own\n")
    Workspace(ws, state=ws.parent / "state").close()
    assert tree(ws) == {"a": "the user's own\n", "b": "old b\n", "c": "old c\n"}
    assert "changed by somebody else" in caplog.text


def test_a_record_cut_short_is_nothing(ws: Path) -> None:
    record = plant(ws)
    record.write_text('[{"directory": "/et')
    before = tree(ws)
    Workspace(ws, state=ws.parent / "state").close()
    assert tree(ws) == before
    assert not record.exists()


def test_a_directory_that_is_not_there_now_is_waited_for(ws: Path, caplog) -> None:
    record = plant(ws, [names(ws)], contents(ws, "old a\n"))
    (ws / ".k").write_text("older\n")
    ws.rename(ws.parent / "unmounted")
    ws.mkdir()
    (ws / "a").write_text("old a\n")
    Workspace(ws, state=ws.parent / "state").close()
    assert tree(ws) == {"a": "old a\n"}
    assert record.exists()
    (ws / "a").unlink()
    ws.rmdir()
    (ws.parent / "unmounted").rename(ws)
    Workspace(ws, state=ws.parent / "state").close()
    assert (ws / "a").read_text() == "older\n"
    assert not record.exists()


def test_recovery_follows_no_link(ws: Path) -> None:
    outside = ws.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("old a\n")
    (outside / ".k").write_text("older\n")
    (ws / "way").symlink_to(outside)
    there = names(ws, directory=f"{ws}/way", inode=outside.stat().st_ino)
    record = plant(ws, [there], contents(outside, "old a\n"))
    Workspace(ws, state=ws.parent / "state").close()
    assert (outside / "a").read_text() == "old a\n"
    record.unlink()


def test_an_unreadable_record_is_kept_for_a_person_to_look_at(ws: Path, caplog) -> None:
    record = plant(ws, {"something": "else"})
    Workspace(ws, state=ws.parent / "state").close()
    assert "cannot be read" in caplog.text
    record.unlink()
