"""A file is replaced at once or not at all, and stays what it was in every other respect."""

import contextlib
import errno
import hashlib
import os
import resource
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from dragoman.errors import Error, InternalError, InvalidParams, ResourceNotFound, RpcError
from dragoman.host.files import Workspace, linux
from dragoman.host.files import extensions as x


@pytest.fixture
def ws(tmp_path: Path):
    before = os.listdir("/proc/self/fd")
    (tmp_path / "ws").mkdir()
    yield tmp_path / "ws"
    assert os.listdir("/proc/self/fd") == before


@pytest.fixture(params=["renameat2", "no renameat2"])
def workspace(request, ws: Path, monkeypatch):
    if request.param == "no renameat2":  # as on another system, or on a file system that cannot exchange names
        monkeypatch.setattr(linux, "_RENAMEAT2", {"x86_64": 10**6, "aarch64": 10**6})
    with Workspace(ws, state=ws.parent / "state") as workspace:
        yield workspace


def write(workspace: Workspace, path: Path, content: str | bytes, **options: object):
    with workspace.writing(str(path), **options) as target:
        return target.commit(content)


def kind_of(caught: pytest.ExceptionInfo[RpcError]) -> str:
    return caught.value.data["kind"]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def litter(ws: Path) -> list[Path]:
    return list(ws.rglob(".dragoman-*"))


# Writing


def test_a_new_file_is_made_with_the_directories_above_it(workspace: Workspace, ws: Path) -> None:
    written = write(workspace, ws / "a" / "b" / "c.txt", "héllo\r\n")
    assert (ws / "a" / "b" / "c.txt").read_bytes() == "héllo\r\n".encode()
    assert (written.bytes_written, written.created) == (8, True)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((ws / "a" / "b" / "c.txt").stat().st_mode) == 0o666 & ~umask
    assert not litter(ws)


DEEP = 1900  # directories, each of one letter


def test_a_file_in_many_new_directories_waits_for_the_disk_a_few_times(ws: Path, monkeypatch) -> None:
    waits, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: waits.append(fd) or fsync(fd))
    try:
        with Workspace(ws, state=ws.parent / "state") as workspace:
            written = write(workspace, Path(ws, *["d"] * DEEP, "f"), "x")
    finally:  # deeper than Python could remove it
        subprocess.run(["rm", "-rf", str(ws / "d")], check=True)
    assert written.created
    assert len(waits) < 20


def test_many_directories_made_for_nothing_are_removed_though_few_files_may_be_open(ws: Path, monkeypatch) -> None:
    def no_room(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Workspace(ws, state=ws.parent / "state") as workspace:
        monkeypatch.setattr("dragoman.host.files.changing.edits.write_new", no_room)
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, limits[1]))
        try:
            with pytest.raises(RpcError):
                write(workspace, Path(ws, *["d"] * DEEP, "f"), "x")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    left = os.listdir(ws)
    subprocess.run(["rm", "-rf", str(ws / "d")], check=True)
    assert left == []


def test_nothing_is_made_before_it_is_committed(workspace: Workspace, ws: Path) -> None:
    with workspace.writing(str(ws / "a" / "b.txt")) as target:
        assert not target.exists
        assert target.operation("x").path == str(ws / "a" / "b.txt")
    assert os.listdir(ws) == []
    assert not (ws.parent / "state").exists()


def test_an_old_file_keeps_its_mode_and_its_extended_attributes(workspace: Workspace, ws: Path) -> None:
    path = ws / "f"
    path.write_text("old")
    path.chmod(0o640)
    has_attributes = True
    try:
        os.setxattr(path, "user.origin", b"somewhere")
    except OSError as exc:
        assert exc.errno == errno.ENOTSUP
        has_attributes = False
    assert not write(workspace, path, "new").created
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    if has_attributes:
        assert os.getxattr(path, "user.origin") == b"somewhere"
    assert not litter(ws)


def test_a_script_stays_a_script_but_a_set_user_id_bit_goes(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text("#!/bin/sh\n")
    (ws / "f").chmod(0o4755)
    write(workspace, ws / "f", "#!/bin/sh\nexit\n")
    assert stat.S_IMODE((ws / "f").stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_old_file_keeps_its_owner(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text("old")
    os.chown(ws / "f", 1234, 5678)
    write(workspace, ws / "f", "new")
    assert ((ws / "f").stat().st_uid, (ws / "f").stat().st_gid) == (1234, 5678)


def test_a_private_file_is_at_no_time_readable_by_others(ws: Path, monkeypatch) -> None:
    modes = set()
    fchmod = os.fchmod
    monkeypatch.setattr(os, "fchmod", lambda fd, mode: (modes.add(mode), fchmod(fd, mode))[1])
    (ws / "f").write_text("old")
    (ws / "f").chmod(0o600)
    with Workspace(ws, state=ws.parent / "state") as workspace:
        write(workspace, ws / "f", "new")
    assert modes == {0o600}


def test_a_link_inside_stays_a_link_and_its_target_is_replaced(workspace: Workspace, ws: Path) -> None:
    (ws / "dir").mkdir()
    (ws / "dir" / "f").write_text("old")
    (ws / "link").symlink_to("dir/f")
    (ws / "dangling").symlink_to("dir/new")
    write(workspace, ws / "link", "new")
    write(workspace, ws / "dangling", "made")
    assert os.readlink(ws / "link") == "dir/f"
    assert (ws / "dir" / "f").read_text() == "new"
    assert (ws / "dir" / "new").read_text() == "made"


@pytest.mark.parametrize("name", ["", "dir", "dir/", "new/", "fifo"])
def test_what_is_no_regular_file_is_not_replaced(workspace: Workspace, ws: Path, name: str) -> None:
    (ws / "dir").mkdir()
    os.mkfifo(ws / "fifo")
    with pytest.raises(InvalidParams) as caught:
        write(workspace, f"{ws}/{name}", "x")
    assert kind_of(caught) == "not_a_file"
    assert sorted(os.listdir(ws)) == ["dir", "fifo"]


def test_a_file_is_not_overwritten_nor_directories_made_where_that_is_not_wanted(
    workspace: Workspace, ws: Path
) -> None:
    (ws / "f").write_text("old")
    with pytest.raises(InvalidParams) as caught:
        write(workspace, ws / "f", "new", overwrite=False)
    assert kind_of(caught) == "exists"
    with pytest.raises(ResourceNotFound):
        write(workspace, ws / "a" / "f", "new", create_directories=False)
    assert write(workspace, ws / "g", "new", overwrite=False, create_directories=False).created
    assert sorted(os.listdir(ws)) == ["f", "g"]
    assert (ws / "f").read_text() == "old"


def test_a_file_that_comes_up_meanwhile_is_not_overwritten_either(workspace: Workspace, ws: Path) -> None:
    for options, kind in (({"overwrite": False}, "exists"), ({"expected": None}, "changed")):
        with workspace.writing(str(ws / "f"), **options) as target:
            (ws / "f").write_text("theirs")
            with pytest.raises(InvalidParams) as caught:
                target.commit("mine")
            assert kind_of(caught) == kind
        assert (ws / "f").read_text() == "theirs"
        (ws / "f").unlink()
    assert not litter(ws)


def test_without_a_guard_the_last_writer_wins(workspace: Workspace, ws: Path) -> None:
    with workspace.writing(str(ws / "f")) as target:
        (ws / "f").write_text("theirs")
        target.commit("mine")
    assert (ws / "f").read_text() == "mine"


def test_a_guard_refuses_a_file_that_has_changed(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text("old")
    wrong = [sha256("other"), 12345, None]
    for expected in wrong:
        with pytest.raises(InvalidParams) as caught:
            write(workspace, ws / "f", "new", expected=expected)
        assert kind_of(caught) == "changed"
    assert (ws / "f").read_text() == "old"
    write(workspace, ws / "f", "new", expected=sha256("old").upper())
    write(workspace, ws / "f", "newer", expected=(ws / "f").stat().st_mtime_ns)
    with workspace.writing(str(ws / "f")) as target:
        assert target.digest() == sha256("newer")
    assert (ws / "f").read_text() == "newer"
    (ws / "f").unlink()
    with pytest.raises(InvalidParams):
        write(workspace, ws / "f", "new", expected=sha256("newer"))
    assert write(workspace, ws / "f", "new", expected=None).created
    assert not litter(ws)


def test_a_directory_that_is_moved_meanwhile_is_no_longer_what_was_allowed(workspace: Workspace, ws: Path) -> None:
    (ws / "dir").mkdir()
    with workspace.writing(str(ws / "dir" / "f")) as target:
        (ws / "dir").rename(ws / "hooks")
        with pytest.raises(InvalidParams) as caught:
            target.commit("x")
    assert kind_of(caught) == "changed"
    assert os.listdir(ws / "hooks") == []


def test_a_link_put_in_the_way_meanwhile_is_not_followed(workspace: Workspace, ws: Path) -> None:
    outside = ws.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("theirs")
    with workspace.writing(str(ws / "new" / "f")) as target:
        (ws / "new").symlink_to(outside)
        with pytest.raises(RpcError):
            target.commit("mine")
    (ws / "g").write_text("old")
    with workspace.writing(str(ws / "g")) as target:
        (ws / "g").unlink()
        (ws / "g").symlink_to(outside / "f")
        with pytest.raises(RpcError):
            target.commit("mine")
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"f": "theirs"}
    assert not litter(ws)


def test_many_writers_of_one_file_leave_one_of_their_contents_whole(workspace: Workspace, ws: Path) -> None:
    contents = [str(number) * 50_000 for number in range(8)]

    def keep_writing(content: str) -> None:
        for _ in range(25):
            write(workspace, ws / "f", content)
            with workspace.reading(str(ws / "f")) as file:
                seen.add(file.read())

    seen: set[str] = set()
    threads = [threading.Thread(target=keep_writing, args=[content]) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen <= set(contents)
    assert (ws / "f").read_text() in contents
    assert os.listdir(ws) == ["f"]


def test_of_writers_with_a_guard_exactly_one_wins_each_round(ws: Path) -> None:
    """Each adds one to the number it has read; none may be lost."""

    def count() -> None:
        for _ in range(20):
            while True:
                with workspace.reading(str(ws / "f")) as file:
                    text = file.read()
                with contextlib.suppress(InvalidParams):
                    write(workspace, ws / "f", str(int(text) + 1), expected=sha256(text))
                    break

    (ws / "f").write_text("0")
    with Workspace(ws, state=ws.parent / "state") as workspace:
        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (ws / "f").read_text() == "80"


# Failing


FULL = """
import resource, signal, sys
from dragoman.errors import InternalError
from dragoman.host.files import Workspace
ws, path, state = sys.argv[1:]
with Workspace(ws, state=state) as workspace, workspace.writing(path) as target:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        target.commit("x" * 200_000)
    except InternalError as error:
        print(error.data["kind"])
"""


@pytest.mark.parametrize("name", ["f", "new/dir/f"])
def test_a_full_disk_leaves_everything_as_it_was(ws: Path, name: str) -> None:
    (ws / "f").write_text("old")
    argv = [sys.executable, "-c", FULL, str(ws), str(ws / name), str(ws.parent / "state")]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "no_space\n"
    assert os.listdir(ws) == ["f"]
    assert (ws / "f").read_text() == "old"


@pytest.mark.skipif(os.geteuid() != 0, reason="a user has no need to become one")
def test_what_the_user_may_not_do_is_refused() -> None:
    with tempfile.TemporaryDirectory() as directory:
        ws = Path(directory)
        ws.chmod(0o755)
        (ws / "secret").write_text("x")
        (ws / "secret").chmod(0o600)
        (ws / "read only").write_text("x")
        (ws / "read only").chmod(0o444)
        (ws / "mine").mkdir()
        os.chown(ws / "mine", 12345, 12345)
        os.seteuid(12345)
        try:
            with Workspace(ws, state=ws / "mine") as workspace:
                for path in (ws / "secret", ws / "read only", ws / "new"):
                    with pytest.raises(InvalidParams) as caught:
                        write(workspace, path, "y")
                    assert kind_of(caught) == "access_denied"
                for edit in (x.WriteEdit(path=f"{ws}/read only", content=""), x.DeleteEdit(path=f"{ws}/read only")):
                    with pytest.raises(InvalidParams) as caught:
                        workspace.editing([edit])
                    assert kind_of(caught) == "access_denied"
                with pytest.raises(InvalidParams) as caught:
                    workspace.reading(str(ws / "secret"))
                assert kind_of(caught) == "access_denied"
        finally:
            os.seteuid(0)
        assert (ws / "read only").read_text() == "x"


def test_a_state_directory_others_can_write_to_is_not_used(ws: Path, caplog) -> None:
    state = ws.parent / "state"
    (state / "files").mkdir(parents=True)
    (state / "files").chmod(0o777)
    with Workspace(ws, state=state) as workspace:
        write(workspace, ws / "f", "x")
        with workspace.editing([]) as edits:
            assert edits.commit() == []
    assert os.listdir(state / "files") == []
    assert "others can write to it" in caplog.text


def test_temporary_files_of_the_living_are_not_taken_for_those_of_the_dead(ws: Path, monkeypatch) -> None:
    """Another workspace starts while one is about to give a file its name."""
    (ws / "f").write_text("old")
    exchange, found = linux.exchange, []

    def hurry(*arguments: object) -> None:
        Workspace(ws, state=ws.parent / "state").close()
        found.extend(litter(ws))
        exchange(*arguments)

    monkeypatch.setattr(linux, "exchange", hurry)
    with Workspace(ws, state=ws.parent / "state") as living:
        write(living, ws / "f", "new")
    assert len(found) == 1
    assert (ws / "f").read_text() == "new"
    assert not litter(ws)


# Reading


def test_a_missing_file_is_not_found(workspace: Workspace, ws: Path) -> None:
    with pytest.raises(ResourceNotFound) as caught:
        workspace.reading(str(ws / "missing"))
    assert caught.value.data == {"uri": str(ws / "missing")}


def test_what_was_opened_is_what_is_read(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text("the one that was allowed")
    (ws / "g").write_text("another")
    with workspace.reading(str(ws / "f")) as file:
        (ws / "g").replace(ws / "f")
        assert file.read() == "the one that was allowed"


def test_a_file_replaced_while_it_is_opened_is_not_taken_for_the_other(
    workspace: Workspace, ws: Path, monkeypatch
) -> None:
    """What `path` says and what is read are of one file."""
    (ws / "f").write_text("moved away")
    (ws / "new").write_text("at its place")
    open_file = os.open

    def hurry(path: object, *arguments: object, **options: object) -> int:
        fd = open_file(path, *arguments, **options)
        if path == "f" and (ws / "new").exists():
            (ws / "f").rename(ws / "g")
            (ws / "new").rename(ws / "f")
        return fd

    monkeypatch.setattr(os, "open", hurry)
    with workspace.reading(str(ws / "f")) as file:
        assert (file.path, file.read()) == (str(ws / "f"), "at its place")


def test_a_fifo_with_somebody_at_its_other_end_is_left_alone(workspace: Workspace, ws: Path) -> None:
    os.mkfifo(ws / "fifo")
    reader = os.open(ws / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(ws / "fifo", os.O_WRONLY)
    os.write(writer, b"for somebody else")
    with pytest.raises(InvalidParams) as caught:
        workspace.reading(str(ws / "fifo"))
    assert kind_of(caught) == "not_a_file"
    assert os.read(reader, 100) == b"for somebody else"
    os.close(reader)
    os.close(writer)


def test_a_closed_handle_stays_closed_and_its_descriptor_is_not_used_again(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_text("x")
    with workspace.reading(str(ws / "f")) as file:
        pass
    with workspace.writing(str(ws / "g")) as target:
        pass
    with pytest.raises(ValueError):
        file.read()
    with pytest.raises(ValueError):
        target.commit("x")


def test_a_handle_closed_while_a_thread_reads_stops_the_thread(workspace: Workspace, ws: Path) -> None:
    with open(ws / "f", "w") as file:
        for _ in range(64):
            file.write("x" * 1023 + "\n" + "y" * (1024 * 1024 - 1025) + "\n")
    opened = workspace.reading(str(ws / "f"))
    outcome: list[object] = []

    def read() -> None:
        try:
            while True:
                assert opened.read(10**9, 1) == ""
        except ValueError as exc:
            outcome.append(exc)

    thread = threading.Thread(target=read)
    thread.start()
    opened.close()
    thread.join()
    assert [type(exc) for exc in outcome] == [ValueError]


def test_a_workspace_without_openat_says_so(ws: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(Error, match="openat"):
        Workspace(ws)


def test_a_kernel_without_openat2_is_noticed(ws: Path, monkeypatch) -> None:
    calls = []

    def missing(*_: object) -> int:
        calls.append(1)
        raise OSError(errno.ENOSYS, "not here")

    monkeypatch.setattr(linux, "openat2", missing)
    (ws / "f").write_text("x")
    with Workspace(ws, state=ws.parent / "state") as workspace:
        for _ in range(5):
            with workspace.reading(str(ws / "f")) as file:
                assert file.read() == "x"
    assert len(calls) == 1


# What the editor holds


def test_an_unsaved_buffer_is_read_instead_of_the_file(ws: Path) -> None:
    buffers = {str(ws / "f"): "unsaved 1\nunsaved 2\n", str(ws / "untitled"): "not on the disk"}
    (ws / "f").write_text("saved")
    (ws / "link").symlink_to("f")
    (ws / "g").write_text("saved")
    with Workspace(ws, state=ws.parent / "state", overlay=buffers.get) as workspace:
        for name, window, text in (
            ("f", (), "unsaved 1\nunsaved 2\n"),
            ("link", (2, 1), "unsaved 2\n"),
            ("g", (), "saved"),
            ("untitled", (), "not on the disk"),
        ):
            with workspace.reading(str(ws / name)) as file:
                assert file.read(*window) == text
        with pytest.raises(ResourceNotFound):
            workspace.reading(str(ws / "missing"))
        with pytest.raises(InvalidParams):
            workspace.reading("/etc/passwd")
        with workspace.writing(str(ws / "f")) as target:
            assert target.buffer() == "unsaved 1\nunsaved 2\n"


def test_an_editor_may_take_what_is_written(ws: Path) -> None:
    buffers = {str(ws / "f"): "unsaved"}
    (ws / "f").write_text("saved")

    def save(path: str, text: str) -> bool:
        if path in buffers:
            buffers[path] = text
        return path in buffers

    with Workspace(ws, state=ws.parent / "state", overlay=buffers.get, save=save) as workspace:
        with pytest.raises(InvalidParams):
            write(workspace, ws / "f", "new", expected=sha256("saved"))
        write(workspace, ws / "f", "new", expected=sha256("unsaved"))
        write(workspace, ws / "g", "new")
    assert buffers == {str(ws / "f"): "new"}
    assert (ws / "f").read_text() == "saved"
    assert (ws / "g").read_text() == "new"


def test_old_text_is_there_to_be_shown(workspace: Workspace, ws: Path) -> None:
    (ws / "f").write_bytes(b"a\r\nb")
    with workspace.writing(str(ws / "f")) as target:
        assert target.saved_text() == "a\r\nb"
    with workspace.writing(str(ws / "g")) as target:
        assert target.saved_text() is None
        assert target.digest() is None


def test_a_write_error_carries_no_path_but_the_one_the_agent_named(workspace: Workspace, ws: Path) -> None:
    (ws / "link").symlink_to("elsewhere/f")
    (ws / "elsewhere").write_text("a file")
    with pytest.raises(RpcError) as caught:
        write(workspace, ws / "link", "x")
    assert "elsewhere" not in str(caught.value)


def test_these_are_the_limits_this_process_has(ws: Path) -> None:
    """Whoever opens a thousand files through a workspace still has descriptors left: none is kept."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        with Workspace(ws, state=ws.parent / "state") as workspace:
            deep = "/".join(["d"] * 100)
            for number in range(100):
                write(workspace, ws / deep / str(number), "x")
                with workspace.reading(f"{ws}/{deep}/{'../d/' * 50}{number}") as file:
                    assert file.read() == "x"
                with pytest.raises(RpcError), workspace.reading(f"{ws}/missing"):
                    raise NotImplementedError
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_input_output_error_is_the_machines_fault(ws: Path, monkeypatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "the disk is dying")

    (ws / "f").write_text("old")
    with Workspace(ws, state=ws.parent / "state") as workspace:
        write(workspace, ws / "f", "older")
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(InternalError) as caught:
            write(workspace, ws / "f", "new")
    assert kind_of(caught) == "io_error"
    assert (ws / "f").read_text() == "older"
    assert os.listdir(ws) == ["f"]
