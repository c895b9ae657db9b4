"""What was shown or required is checked at the moment of the change: a file saved meanwhile stays as it is."""

import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from torture.moments import WAYS, lacking

from dragoman.errors import RpcError
from dragoman.host.files import Workspace, linux
from dragoman.host.files import extensions as x
from dragoman.schema import WriteTextFileRequest

pytestmark = pytest.mark.usefixtures("nothing_left")

SESSION = {"session_id": "s"}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture(params=WAYS)
def workspace(request, ws: Path, monkeypatch):
    for module, name in ((linux, "exchange"), (linux, "rename_new"), (os, "link")):
        monkeypatch.setattr(module, name, getattr(module, name))  # put back afterwards
    lacking(request.param)
    with Workspace(ws, state=ws.parent / "state") as workspace:
        yield workspace


def tree(ws: Path) -> dict[str, bytes]:
    return {str(path.relative_to(ws)): path.read_bytes() for path in sorted(ws.rglob("*")) if path.is_file()}


def in_place(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def by_renaming(path: Path, content: bytes) -> None:
    saved = path.with_name("saved")
    saved.write_bytes(content)
    saved.replace(path)


def keeping_the_time(path: Path, content: bytes) -> None:
    before = path.stat()
    by_renaming(path, content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def removing(path: Path, content: bytes) -> None:
    path.unlink()


Ask = Callable[[Workspace, str, Callable[..., Awaitable[None]]], Awaitable[object]]

WRITES: dict[str, Ask] = {
    "write_text_file": lambda workspace, path, permit: workspace.write_text_file(
        WriteTextFileRequest(**SESSION, path=path, content="agent"), permit
    ),
    "write_file": lambda workspace, path, permit: workspace.write_file(
        x.WriteFileRequest(**SESSION, path=path, content="agent"), permit
    ),
    "write_binary_file": lambda workspace, path, permit: workspace.write_binary_file(
        x.WriteBinaryRequest(**SESSION, path=path, data=b"agent"), permit
    ),
    "an edit that writes": lambda workspace, path, permit: workspace.apply_edits(
        x.ApplyEditsRequest(**SESSION, edits=[x.WriteEdit(path=path, content="agent")]), permit
    ),
    "one of several edits": lambda workspace, path, permit: workspace.apply_edits(
        x.ApplyEditsRequest(
            **SESSION,
            edits=[
                x.WriteEdit(path=f"{path}-before", content="agent"),
                x.WriteEdit(path=path, content="agent"),
                x.WriteEdit(path=f"{path}-after", content="agent"),
            ],
        ),
        permit,
    ),
}
CHANGES: dict[str, Ask] = {
    **WRITES,
    "an edit that replaces": lambda workspace, path, permit: workspace.apply_edits(
        x.ApplyEditsRequest(
            **SESSION,
            edits=[x.ReplaceEdit(path=path, replacements=[x.Replacement(old_text="v1", new_text="agent")])],
        ),
        permit,
    ),
    "an edit that deletes": lambda workspace, path, permit: workspace.apply_edits(
        x.ApplyEditsRequest(**SESSION, edits=[x.DeleteEdit(path=path)]), permit
    ),
}


def directory_replaced_by_another(directory: Path) -> None:
    directory.rename(directory.with_name("moved"))
    directory.mkdir()
    (directory / "file").write_bytes(b"v1")


def directory_replaced_by_a_link(directory: Path) -> None:
    elsewhere = directory.parent.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_bytes(b"v1")
    directory.rename(directory.with_name("moved"))
    directory.symlink_to(elsewhere)


def directory_replaced_by_a_file(directory: Path) -> None:
    directory.rename(directory.with_name("moved"))
    directory.write_bytes(b"v1")


@pytest.mark.parametrize(
    "swap", [directory_replaced_by_another, directory_replaced_by_a_link, directory_replaced_by_a_file]
)
@pytest.mark.parametrize("change", [name for name in CHANGES if name != "one of several edits"])
async def test_a_directory_replaced_while_the_question_is_open_is_left_alone_and_nothing_is_owed(
    workspace: Workspace, ws: Path, change: str, swap: Callable[[Path], None], caplog
) -> None:
    """The file that was shown is elsewhere; its content, at its place, is another file's."""
    directory = ws / "directory"
    directory.mkdir()
    (directory / "file").write_bytes(b"v1")
    after: list[dict[str, bytes]] = []

    async def permit(operation: object, diff: object) -> None:
        if operation.path == f"{directory}/file":
            swap(directory)
            after.append(tree(ws.parent))

    with pytest.raises(RpcError) as caught:
        await CHANGES[change](workspace, f"{directory}/file", permit)
    assert caught.value.data["kind"] == "changed"
    assert [tree(ws.parent)] == after  # no record either: nothing was made, and nothing has to be cleared up
    assert caplog.text == ""


@pytest.mark.parametrize("saving", [in_place, by_renaming, keeping_the_time, removing])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_file_saved_while_the_question_is_open_is_left_as_it_is(
    workspace: Workspace, ws: Path, change: str, saving: Callable[[Path, bytes], None]
) -> None:
    file = ws / "file"
    file.write_bytes(b"v1")
    asked = []

    async def permit(operation: object, diff: object) -> None:
        asked.append(operation)
        if operation.path == str(file):
            saving(file, b"v1 and v2")

    with pytest.raises(RpcError) as caught:
        await CHANGES[change](workspace, str(file), permit)
    assert caught.value.data["kind"] == "changed"
    assert tree(ws) == ({} if saving is removing else {"file": b"v1 and v2"})
    assert asked


@pytest.mark.parametrize("change", WRITES)
async def test_a_file_made_while_the_question_about_a_new_file_is_open_is_left_as_it_is(
    workspace: Workspace, ws: Path, change: str
) -> None:
    file = ws / "new" / "file"
    asked = []

    async def permit(operation: object, diff: object) -> None:
        asked.append(operation.creates)
        if operation.path == str(file):
            file.parent.mkdir()
            file.write_bytes(b"the user's own")

    with pytest.raises(RpcError) as caught:
        await WRITES[change](workspace, str(file), permit)
    assert caught.value.data["kind"] == "changed"
    assert tree(ws) == {"new/file": b"the user's own"}
    assert all(asked)


async def test_an_edit_that_must_not_overwrite_does_not_overwrite_what_comes_up_while_it_is_asked_about(
    workspace: Workspace, ws: Path
) -> None:
    async def permit(operation: object, diff: object) -> None:
        (ws / "file").write_bytes(b"the user's own")

    edits = [x.WriteEdit(path=f"{ws}/file", content="agent", overwrite=False)]
    with pytest.raises(RpcError) as caught:
        await workspace.apply_edits(x.ApplyEditsRequest(**SESSION, edits=edits), permit)
    assert caught.value.data["kind"] == "exists"
    assert tree(ws) == {"file": b"the user's own"}


async def test_what_a_diff_shows_is_what_is_replaced(workspace: Workspace, ws: Path) -> None:
    """The old text and the condition come from the same reading."""
    (ws / "file").write_bytes(b"v1")
    diffs = []

    async def permit(operation: object, diff: object) -> None:
        diffs.append(diff.old_text)

    for change in CHANGES:
        if change not in ("write_binary_file", "one of several edits"):
            (ws / "file").write_bytes(b"v1")
            await CHANGES[change](workspace, str(ws / "file"), permit)
    assert diffs == ["v1"] * 5
    assert tree(ws) == {}


def test_the_two_steps_of_opening_and_committing_keep_what_was_asked_about(workspace: Workspace, ws: Path) -> None:
    with workspace.writing(f"{ws}/file") as target:
        assert target.operation("agent").creates
        (ws / "file").write_text("the user's own")
        with pytest.raises(RpcError) as caught:
            target.commit("agent")
    assert caught.value.data["kind"] == "changed"
    with workspace.writing(f"{ws}/file") as target:
        assert not target.operation("agent").creates
        target.commit("agent")
    assert tree(ws) == {"file": b"agent"}


def test_what_the_editor_holds_is_not_replaced_by_the_answer_to_another_question(ws: Path) -> None:
    (ws / "file").write_text("saved")
    buffers = {f"{ws}/file": "typed"}

    def save(path: str, text: str) -> bool:
        buffers[path] = text
        return True

    with Workspace(ws, state=ws.parent / "state", overlay=buffers.get, save=save) as workspace:
        target = workspace.writing(f"{ws}/file")
        assert target.show_buffer() == "typed"
        target.operation("agent")
        buffers[f"{ws}/file"] = "typed on"
        with pytest.raises(RpcError) as caught:
            target.commit("agent")
        assert caught.value.data["kind"] == "changed"
        buffers[f"{ws}/file"] = "typed"
        target.commit("agent")
        target.close()
    assert buffers == {f"{ws}/file": "agent"}
    assert tree(ws) == {"file": b"saved"}


NO_DIGESTS = ["", " ", "0", "abc", "g" * 64, "0" * 63, "0" * 65, hashlib.sha256(b"v1").hexdigest() + "\n"]


@pytest.mark.parametrize("digest", NO_DIGESTS)
async def test_a_guard_that_is_no_digest_is_refused_and_never_switched_off(
    workspace: Workspace, ws: Path, digest: str
) -> None:
    file = ws / "file"
    file.write_bytes(b"v1")
    guard = {"path": str(file), "expected_sha256": digest}
    replacements = [x.Replacement(old_text="v1", new_text="agent")]
    edits = [
        x.WriteEdit(**guard, content="agent"),
        x.ReplaceEdit(**guard, replacements=replacements),
        x.DeleteEdit(**guard),
    ]
    attempts = [
        workspace.write_file(x.WriteFileRequest(**SESSION, **guard, content="agent")),
        workspace.write_binary_file(x.WriteBinaryRequest(**SESSION, **guard, data=b"agent")),
        *(workspace.apply_edits(x.ApplyEditsRequest(**SESSION, edits=[edit])) for edit in edits),
    ]
    for attempt in attempts:
        with pytest.raises(RpcError) as caught:
            await attempt
        assert caught.value.data["kind"] == "bad_digest"
    assert tree(ws) == {"file": b"v1"}
