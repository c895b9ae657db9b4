"""Replacing in every encoding, many edits with few descriptors, read-only mounts, systems without rename flags."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import InvalidParams, LocalProtocolError, RpcError
from dragoman.host import Host
from dragoman.host.files import Workspace
from dragoman.host.files import extensions as x
from dragoman.host.files.errors import FileRefused
from dragoman.host.files.replacing import replaced
from dragoman.roles import ClientRole
from dragoman.rpc import Peer
from dragoman.schema import WriteTextFileRequest


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def replace(ws: Path, old: str, new: str, encoding: str | None = None) -> None:
    replacements = [x.Replacement(old_text=old, new_text=new)]
    edit = x.ReplaceEdit(path=f"{ws}/file", replacements=replacements, encoding=encoding)
    with Workspace(ws, state=ws.parent / "state") as workspace, workspace.editing([edit]) as edits:
        edits.commit()


@pytest.mark.parametrize(
    ("text", "old"), [("}\n}\n}\n", "}\n}"), ("aaa", "aa"), ("abab ab aba", "aba"), ("x" * 9, "x" * 5), ("ab", "")]
)
def test_a_text_that_is_there_twice_with_an_overlap_is_not_replaced(ws: Path, text: str, old: str) -> None:
    (ws / "file").write_text(text)
    with pytest.raises(InvalidParams) as caught:
        replace(ws, old, "new")
    assert caught.value.data["kind"] == "no_match"
    assert (ws / "file").read_text() == text


# Bytes that another encoder would write in another way, around the part that is replaced.
FOREIGN = {
    "cp932": b"\x87\x90 old \xfa\x4a",
    "cp950": b"\xa1\xc3 old \xf9\xf9\xa2\xa4",
    "big5": b"\xa1\x5a old \xa1\xc5",
    "iso2022_jp": b'\x1b$B$"\x1b(B\x1b$B$$\x1b(J old \x1b(B\x1b$@$&\x1b(B',
    "shift_jis": b"\x81\x5f old \x5c",
    "gb18030": b"\xa8\xbc old \x81\x35\xf4\x37",
    "euc_kr": b"\xa1\xa1 old \xb0\xa1",
    "utf-16-le": "\ufeff🎉 old 🎉\r\n".encode("utf-16-le"),
}


@pytest.mark.parametrize("encoding", FOREIGN)
def test_replacing_changes_no_other_byte(ws: Path, encoding: str) -> None:
    data = FOREIGN[encoding]
    (ws / "file").write_bytes(data)
    new = "new" if encoding != "iso2022_jp" else "新 new"
    replace(ws, "old", new, encoding)
    after = (ws / "file").read_bytes()
    before, rest = data.split("old".encode(encoding.replace("iso2022_jp", "ascii")))
    assert after.startswith(before)
    assert after.endswith(rest)
    assert after.decode(encoding) == data.decode(encoding).replace("old", new)


CHARACTERS = {
    "cp932": "aあ漢≒Ⅰ髙\n",
    "cp950": "a漢═￣\n",
    "big5": "a漢字\n",
    "iso2022_jp": "aあ漢\n",
    "utf-16": "a🎉é\n",
    "cp1252": "aé€\n",
}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_replacing_any_part_gives_what_replacing_in_the_text_gives(data: st.DataObject) -> None:
    encoding = data.draw(st.sampled_from(sorted(CHARACTERS)))
    words = st.text(CHARACTERS[encoding], max_size=6)
    before, old, after, new = data.draw(words), data.draw(words), data.draw(words), data.draw(words)
    pieces = [piece.encode(encoding if encoding != "utf-16" else "utf-16-le") for piece in (before, old, after)]
    whole = (b"\xff\xfe" if encoding == "utf-16" else b"") + b"".join(pieces)  # with needless escapes in between
    text = before + old + after
    try:
        result = replaced(whole, encoding, old, new)
    except FileRefused as exc:
        assert exc.kind == "no_match"
        if encoding != "utf-16":
            assert sum(text.startswith(old, at) for at in range(len(text) + 1)) != 1
        return
    assert result.decode(encoding) == text.replace(old, new)


@pytest.mark.parametrize("text", ["\ud83d", "a\udc00b", "\ude00\ud83d"])
def test_half_a_character_is_an_error_in_every_way_to_write(ws: Path, text: str) -> None:
    (ws / "file").write_text("old")
    edits = [
        x.WriteEdit(path=f"{ws}/file", content=text),
        x.ReplaceEdit(path=f"{ws}/file", replacements=[x.Replacement(old_text="old", new_text=text)]),
    ]
    with Workspace(ws, state=ws.parent / "state", save=lambda path, text: True) as workspace:
        for edit in edits:
            with pytest.raises(InvalidParams) as caught:
                workspace.editing([edit])
            assert caught.value.data["kind"] == "encoding"
        with workspace.writing(f"{ws}/file") as target, pytest.raises(InvalidParams) as caught:
            target.commit(text)
    assert caught.value.data["kind"] == "encoding"
    assert (ws / "file").read_text() == "old"


def test_half_a_character_on_the_wire_is_an_error_and_not_another_character(ws: Path, home: Path) -> None:
    """A JSON escape without its other half, from an agent that cut a text in the middle of a character."""
    (ws / "file").write_text("old")
    frames = {
        "fs/write_text_file": {"content": "HALF"},
        "_dragoman/fs/write_text_file": {"content": "HALF"},
        "_dragoman/fs/apply_edits": {"edits": [{"type": "write", "path": f"{ws}/file", "content": "HALF"}]},
    }
    peer = Peer()
    methods, _ = Host().answers(ClientRole)
    peer.answer(methods, {})
    for number, (method, params) in enumerate(frames.items()):
        params = {"sessionId": "s", "path": f"{ws}/file", **params}
        frame = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
        peer.receive(frame.replace(b"HALF", rb"\ud83d"))
        (answer,) = map(json.loads, peer.take())
        assert (answer["id"], answer["error"]["code"]) == (number, -32602)
        assert answer["error"]["data"]["kind"] == "encoding"
    with pytest.raises(LocalProtocolError, match="half a character"):
        peer.call(methods["fs/write_text_file"], WriteTextFileRequest(session_id="s", path="/a", content="\ud83d"))
    assert peer.take() == []


def test_a_thousand_files_in_as_many_directories_are_changed_with_few_descriptors(ws: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    paths = [f"{ws}/{number}/file" for number in range(345)]
    for path in paths[:200]:
        os.mkdir(os.path.dirname(path))
        Path(path).write_text("old")
    edits = [x.WriteEdit(path=path, content="new") for path in paths]
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, limits[1]))
    try:
        with Workspace(ws, state=ws.parent / "state") as workspace:
            with workspace.editing(edits) as several:
                done = several.commit()
            with pytest.raises(RpcError):
                workspace.editing([*edits, x.WriteEdit(path=f"{ws}/0/file", content="twice")])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert sum(file.created for file in done) == 145
    assert {Path(path).read_text() for path in paths} == {"new"}


async def test_a_directory_listed_with_a_limit_gives_the_first_by_name(ws: Path) -> None:
    names = [f"{number * 7919 % 1000:03}" for number in range(200)]
    for name in names:
        (ws / name).touch()
    with Workspace(ws, state=ws.parent / "state") as workspace:
        for limit, cut in ((0, True), (1, True), (7, True), (200, False), (201, False)):
            request = x.ListDirectoryRequest(session_id="s", path=str(ws), limit=limit)
            listed = await workspace.list_directory(request)
            assert [entry.name for entry in listed.entries] == sorted(names)[:limit]
            assert listed.truncated == cut


READ_ONLY = """
import asyncio, sys
from dragoman.errors import RpcError
from dragoman.host.files import Workspace
from dragoman.host.files import extensions as x

ws, state = sys.argv[1:]

async def main():
    with Workspace(ws, state=state) as workspace:
        for path in ("file", "new", "deep/new"):
            for request, method in (
                (x.WriteFileRequest(session_id="s", path=f"{ws}/{path}", content="x"), workspace.write_file),
                (x.WriteBinaryRequest(session_id="s", path=f"{ws}/{path}", data=b"x"), workspace.write_binary_file),
                (x.ApplyEditsRequest(session_id="s", edits=[x.WriteEdit(path=f"{ws}/{path}", content="x")]),
                 workspace.apply_edits),
            ):
                try:
                    await method(request)
                except RpcError as exc:
                    print(exc.data["kind"])
        for request, method in (
            (x.ApplyEditsRequest(session_id="s", edits=[x.DeleteEdit(path=f"{ws}/file")]), workspace.apply_edits),
            (x.CreateDirectoryRequest(session_id="s", path=f"{ws}/directory"), workspace.create_directory),
        ):
            try:
                await method(request)
            except RpcError as exc:
                print(exc.data["kind"])

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_read_only_mount_is_called_that(ws: Path) -> None:
    (ws / "file").write_text("old")
    mounts = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--ro-bind", str(ws), str(ws)]
    command = [*mounts, sys.executable, "-c", READ_ONLY, str(ws), str(ws.parent / "state")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["read_only"] * 11, done.stderr


WITHOUT_FLAGS = """
import sys
from dragoman.errors import RpcError
from dragoman.host.files import Workspace
from dragoman.host.files.extensions import DeleteEdit, WriteEdit

ws, state = sys.argv[1:]
with Workspace(ws, state=state) as workspace:
    with workspace.writing(f"{ws}/new/file", expected=None) as target:
        target.commit("made")
    with workspace.writing(f"{ws}/new/file") as target:
        target.operation("replaced")
        target.commit("replaced")
    with workspace.editing([
        WriteEdit(path=f"{ws}/a", content="new"),
        DeleteEdit(path=f"{ws}/b"),
        WriteEdit(path=f"{ws}/x/y", content="new"),
    ]) as several:
        several.commit()
    with workspace.editing([WriteEdit(path=f"{ws}/{name}", content="newer") for name in ("a", "c")]) as several:
        for edit in several.edits:
            edit.diff()
        with open(f"{ws}/c", "w") as file:
            file.write("the user's own")
        try:
            several.commit()
        except RpcError as exc:
            print(exc.data["kind"])
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("missing", [["renameat2:error=EINVAL"], ["renameat2:error=ENOSYS", "linkat:error=EPERM"]])
def test_files_are_made_changed_and_kept_where_calls_are_missing(ws: Path, missing: list[str]) -> None:
    for name in ("a", "b", "c"):
        (ws / name).write_text("old")
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2,linkat"]
    strace += [word for call in missing for word in ("-e", f"inject={call}")]
    command = [*strace, sys.executable, "-B", "-c", WITHOUT_FLAGS, str(ws), str(ws.parent / "state")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "changed\n"), done.stderr
    files = {str(path.relative_to(ws)): path.read_text() for path in ws.rglob("*") if path.is_file()}
    assert files == {"a": "new", "c": "the user's own", "new/file": "replaced", "x/y": "new"}
    assert not [path for path in (ws.parent / "state").rglob("*") if path.is_file()]


MAKE_A_FILE = """
import sys
from dragoman.errors import RpcError
from dragoman.host.files import Workspace

ws, state = sys.argv[1:]
with Workspace(ws, state=state) as workspace, workspace.writing(f"{ws}/new/file") as target:
    try:
        target.commit("new")
    except RpcError as exc:
        print(exc.data["kind"])
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_directory_that_could_not_be_taken_back_is_taken_back_by_the_next_start(ws: Path) -> None:
    """As in a directory that is append-only, where things can be made and neither renamed nor removed."""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", str(ws), "-e", "trace=renameat2,unlinkat"]
    strace += [word for call in ("renameat2", "unlinkat") for word in ("-e", f"inject={call}:error=EPERM")]
    command = [*strace, sys.executable, "-B", "-c", MAKE_A_FILE, str(ws), str(ws.parent / "state")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "access_denied\n"), done.stderr
    assert [path.name.startswith(".dragoman-") for path in ws.iterdir()] == [True]
    with Workspace(ws, state=ws.parent / "state"):
        assert list(ws.iterdir()) == []
