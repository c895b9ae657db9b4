"""What an agent asks for over the wire, with somebody to decide in between."""

import asyncio
import base64
import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from dragoman import codec
from dragoman.errors import InvalidParams, ResourceNotFound, RpcError
from dragoman.host.files import Workspace, handles
from dragoman.host.files import extensions as x
from dragoman.schema import ReadTextFileRequest, WriteTextFileRequest

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
async def workspace(ws: Path, nothing_left):
    with Workspace(ws, state=ws.parent / "state") as workspace:
        yield workspace


class Judge:
    """Writes down what is asked, and refuses what it is told to."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.asked: list[object] = []
        self.diffs: list[object] = []
        self.refuses = refuses

    async def __call__(self, operation: object, diff: object) -> None:
        self.asked.append(operation)
        self.diffs.append(diff)
        if self.refuses:
            raise InvalidParams("the user does not allow it")


async def test_text_is_read_and_written_as_the_protocol_has_it(workspace: Workspace, ws: Path) -> None:
    path = str(ws / "new" / "f.txt")
    await workspace.write_text_file(WriteTextFileRequest(session_id="s", path=path, content="a\nb\nc\n"))
    whole = await workspace.read_text_file(ReadTextFileRequest(session_id="s", path=path))
    part = await workspace.read_text_file(ReadTextFileRequest(session_id="s", path=path, line=2, limit=1))
    assert (whole.content, part.content) == ("a\nb\nc\n", "b\n")
    with pytest.raises(ResourceNotFound):
        await workspace.read_text_file(ReadTextFileRequest(session_id="s", path=path + "x"))


async def test_text_is_read_with_its_encoding_and_its_number_of_lines(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_bytes(b"un\ndeux\ntr\xe8s\n")
    request = x.ReadFileRequest(session_id="s", path=f"{ws}/f", encoding="latin-1", start_line=3, end_line=9)
    response = await workspace.read_file(request)
    assert msgspec.to_builtins(response) == {
        "content": "très\n",
        "encoding": "iso8859-1",
        "totalLines": 3,
        "truncated": False,
    }


async def test_text_is_written_with_all_that_can_be_asked(workspace: Workspace, ws: Path) -> None:
    def request(content: str, **options: object) -> x.WriteFileRequest:
        return x.WriteFileRequest(session_id="s", path=f"{ws}/d/f", content=content, **options)

    with pytest.raises(ResourceNotFound):
        await workspace.write_file(request("é", create_directories=False))
    first = await workspace.write_file(request("é", encoding="latin-1"))
    assert (first.bytes_written, first.created) == (1, True)
    with pytest.raises(InvalidParams):
        await workspace.write_file(request("x", overwrite=False))
    with pytest.raises(InvalidParams):
        await workspace.write_file(request("x", expected_sha256="0" * 64))
    second = await workspace.write_file(request("x", expected_sha256=hashlib.sha256(b"\xe9").hexdigest()))
    assert (second.bytes_written, second.created) == (1, False)


async def test_binary_files_go_over_the_wire_as_base64(workspace: Workspace, ws: Path) -> None:
    data = bytes(range(256))
    raw = msgspec.json.encode({"sessionId": "s", "path": f"{ws}/f", "data": base64.b64encode(data).decode()})
    written = await workspace.write_binary_file(codec.decode_params(msgspec.Raw(raw), x.WriteBinaryRequest))
    assert (written.bytes_written, written.created) == (256, True)
    read = await workspace.read_binary_file(
        x.ReadBinaryRequest(session_id="s", path=f"{ws}/f", offset=10, length=20)
    )
    assert msgspec.json.decode(codec.encode(read)) == {"data": base64.b64encode(data[10:30]).decode(), "size": 256}


async def test_a_directory_is_made_and_listed(workspace: Workspace, ws: Path) -> None:
    make = x.CreateDirectoryRequest(session_id="s", path=f"{ws}/a/b")
    assert (await workspace.create_directory(make)).created
    assert not (await workspace.create_directory(make)).created
    (ws / "a" / "file").write_text("12345")
    (ws / "a" / "link").symlink_to("/etc")
    os.mkfifo(ws / "a" / "fifo")
    (ws / "a" / os.fsdecode(b"\xff")).touch()
    listed = await workspace.list_directory(x.ListDirectoryRequest(session_id="s", path=f"{ws}/a"))
    assert msgspec.to_builtins(listed) == {
        "entries": [
            {"name": "b", "type": "directory"},
            {"name": "fifo", "type": "other"},
            {"name": "file", "type": "file", "size": 5},
            {"name": "link", "type": "symlink"},
        ],
        "truncated": True,  # one has a name that cannot be told
    }
    listed = await workspace.list_directory(x.ListDirectoryRequest(session_id="s", path=str(ws), limit=1))
    assert ([entry.name for entry in listed.entries], listed.truncated) == (["a"], False)
    for path in (f"{ws}/a/link", f"{ws}/a/file", f"{ws}/..", f"{ws}/nothing"):
        with pytest.raises(RpcError):
            await workspace.list_directory(x.ListDirectoryRequest(session_id="s", path=path))
    with pytest.raises(InvalidParams):
        await workspace.create_directory(x.CreateDirectoryRequest(session_id="s", path=f"{ws}/a/file"))


async def test_a_large_directory_is_cut(workspace: Workspace, ws: Path, monkeypatch) -> None:
    monkeypatch.setattr(handles, "MAX_ENTRIES", 10)
    for number in range(20):
        (ws / str(number)).touch()
    listed = await workspace.list_directory(x.ListDirectoryRequest(session_id="s", path=str(ws), limit=100))
    assert (len(listed.entries), listed.truncated) == (10, True)


async def test_edits_that_do_not_fit_refuse_them_all() -> None:
    """The lenient reading of lists must not leave one of several edits out."""
    good = {"type": "write", "path": "/a", "content": ""}
    for bad in ({"type": "write", "path": "/b"}, {"type": "nothing we know", "path": "/b"}, 7):
        raw = msgspec.Raw(msgspec.json.encode({"sessionId": "s", "edits": [good, bad]}))
        with pytest.raises(codec.Invalid):
            codec.decode_params(raw, x.ApplyEditsRequest)


async def test_several_files_are_changed_at_once(workspace: Workspace, ws: Path) -> None:
    (ws / "b").write_text("b")
    judge = Judge()
    edits = [x.WriteEdit(path=f"{ws}/a", content="a"), x.DeleteEdit(path=f"{ws}/b")]
    response = await workspace.apply_edits(x.ApplyEditsRequest(session_id="s", edits=edits), judge)
    assert [(file.created, file.deleted) for file in response.files] == [(True, False), (False, True)]
    assert [operation.kind for operation in judge.asked] == ["file_write", "file_delete"]
    assert os.listdir(ws) == ["a"]


# Permission


async def test_what_is_asked_is_what_will_be_done(workspace: Workspace, ws: Path) -> None:
    (ws / "real").write_text("old\n")
    (ws / "link").symlink_to("real")
    judge = Judge()
    await workspace.read_text_file(ReadTextFileRequest(session_id="s", path=f"{ws}/link"), judge)
    await workspace.write_text_file(WriteTextFileRequest(session_id="s", path=f"{ws}/link", content="new\n"), judge)
    read, write = judge.asked
    assert (read.kind, read.path) == ("file_read", f"{ws}/real")
    assert (write.kind, write.path, write.creates) == ("file_write", f"{ws}/real", False)
    assert write.digest == hashlib.sha256(b"new\n").hexdigest()
    diff = judge.diffs[1]
    assert (diff.path, diff.old_text, diff.new_text) == (f"{ws}/real", "old\n", "new\n")


async def test_what_is_refused_leaves_no_trace(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text("old")
    judge = Judge(refuses=True)
    path = f"{ws}/f"
    edits = [x.WriteEdit(path=path, content="new"), x.WriteEdit(path=f"{ws}/g/h", content="new")]
    requests = [
        workspace.read_text_file(ReadTextFileRequest(session_id="s", path=path), judge),
        workspace.write_text_file(WriteTextFileRequest(session_id="s", path=path, content="new"), judge),
        workspace.write_text_file(WriteTextFileRequest(session_id="s", path=f"{ws}/d/g", content="new"), judge),
        workspace.read_file(x.ReadFileRequest(session_id="s", path=path), judge),
        workspace.write_file(x.WriteFileRequest(session_id="s", path=path, content="new"), judge),
        workspace.read_binary_file(x.ReadBinaryRequest(session_id="s", path=path), judge),
        workspace.write_binary_file(x.WriteBinaryRequest(session_id="s", path=path, data=b"new"), judge),
        workspace.list_directory(x.ListDirectoryRequest(session_id="s", path=str(ws)), judge),
        workspace.create_directory(x.CreateDirectoryRequest(session_id="s", path=f"{ws}/d"), judge),
        workspace.apply_edits(x.ApplyEditsRequest(session_id="s", edits=edits), judge),
    ]
    for request in requests:
        with pytest.raises(InvalidParams, match="does not allow"):
            await request
    assert len(judge.asked) == len(requests)
    assert os.listdir(ws) == ["f"]
    assert (ws / "f").read_text() == "old"
    assert not (ws.parent / "state").exists()


async def test_a_binary_file_is_replaced_without_a_diff(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_bytes(b"\0\1\2")
    judge = Judge()
    await workspace.write_text_file(WriteTextFileRequest(session_id="s", path=f"{ws}/f", content="text"), judge)
    assert judge.diffs == [None]


# Threads


async def test_a_cancelled_write_is_over_when_the_cancelling_is(
    workspace: Workspace, ws: Path, monkeypatch
) -> None:
    """Nobody who was cancelled finds the file changing afterwards."""
    reached, go_on = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow(fd: int) -> None:
        reached.set()
        go_on.wait(5)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", slow)
    request = WriteTextFileRequest(session_id="s", path=f"{ws}/f", content="new")
    writing = asyncio.ensure_future(workspace.write_text_file(request))
    async with asyncio.timeout(5):
        await asyncio.to_thread(reached.wait)
        writing.cancel()
        await asyncio.sleep(0)
        writing.cancel()
        assert not writing.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await writing
    assert (ws / "f").read_text() == "new"
    assert [path.name for path in ws.iterdir()] == ["f"]


async def test_a_cancelled_read_closes_its_file_and_no_other(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text(("x" * (1024 * 1024 - 1) + "\n") * 64)
    request = ReadTextFileRequest(session_id="s", path=f"{ws}/f", line=10**6, limit=1)
    for _ in range(10):
        reading = asyncio.ensure_future(workspace.read_text_file(request))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    async with asyncio.timeout(5):
        while str(ws / "f") in open_files():
            await asyncio.to_thread(lambda: None)  # the threads see to it


def open_files() -> set[str]:
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # a thread has just closed it
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return found


async def test_the_event_loop_runs_on_while_a_large_file_is_read(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text("0123456789abcde\n" * (10 * 1024 * 1024 // 16))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    await workspace.read_text_file(ReadTextFileRequest(session_id="s", path=f"{ws}/f"))
    ticking.cancel()
    assert ticks > 10


async def test_the_editor_is_asked_in_the_thread_of_the_event_loop(ws: Path, nothing_left) -> None:
    threads = set()

    def overlay(path: str) -> str | None:
        threads.add(threading.current_thread())
        return "unsaved" if path.endswith("/open") else None

    def save(path: str, text: str) -> bool:
        threads.add(threading.current_thread())
        return path.endswith("/open")

    for name in ("open", "closed"):
        (ws / name).write_text("saved")
    with Workspace(ws, state=ws.parent / "state", overlay=overlay, save=save) as workspace:
        for name in ("open", "closed"):
            path = f"{ws}/{name}"
            await workspace.read_text_file(ReadTextFileRequest(session_id="s", path=path))
            await workspace.write_text_file(WriteTextFileRequest(session_id="s", path=path, content="new"), Judge())
        edits = [x.WriteEdit(path=f"{ws}/{name}", content="") for name in ("closed", "open")]
        with pytest.raises(InvalidParams):
            await workspace.apply_edits(x.ApplyEditsRequest(session_id="s", edits=edits))
    assert threads == {threading.main_thread()}
    assert ((ws / "open").read_text(), (ws / "closed").read_text()) == ("saved", "new")


async def test_cancelled_edits_are_let_go_of(workspace: Workspace, ws: Path, monkeypatch) -> None:
    reached, go_on = threading.Event(), threading.Event()
    read = os.pread

    def slow(*arguments: int) -> bytes:
        reached.set()
        go_on.wait(5)
        return read(*arguments)

    (ws / "f").write_text("old")
    monkeypatch.setattr(os, "pread", slow)
    replacements = [x.Replacement(old_text="old", new_text="new")]
    edits = [x.WriteEdit(path=f"{ws}/g", content=""), x.ReplaceEdit(path=f"{ws}/f", replacements=replacements)]
    applying = asyncio.ensure_future(workspace.apply_edits(x.ApplyEditsRequest(session_id="s", edits=edits)))
    async with asyncio.timeout(5):
        await asyncio.to_thread(reached.wait)
        applying.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await applying
    assert os.listdir(ws) == ["f"]
    assert (ws / "f").read_text() == "old"
