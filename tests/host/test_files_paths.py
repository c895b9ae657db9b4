"""No path leads out of a workspace, and every path inside it leads to its file."""

import contextlib
import os
import socket
import stat
import time
from pathlib import Path

import pytest

from dragoman.errors import InvalidParams, ResourceNotFound, RpcError
from dragoman.host.files import Exemption, Workspace, linux, paths
from dragoman.host.files import extensions as x

SECRET = "the secret\n"
QUICK = 1.0  # seconds; far more than a refusal takes


class Yard:
    """A workspace, a directory next to it that must not be touched, and whatever an attacker may leave inside."""

    def __init__(self, top: Path) -> None:
        self.top, self.ws, self.outside = top, top / "ws", top / "outside"
        self.close = contextlib.ExitStack()
        self.ws.mkdir()
        self.outside.mkdir()
        (self.outside / "secret").write_text(SECRET)
        (self.top / "ws_evil").mkdir()
        (self.top / "ws_evil" / "secret").write_text(SECRET)
        (self.ws / "a.txt").write_text("inside\n")
        (self.ws / "sub").mkdir()

    def link(self, name: str, target: str | Path) -> str:
        (self.ws / name).symlink_to(target)
        return str(self.ws / name)

    def snapshot(self) -> dict[str, tuple[int, float, bytes]]:
        """All that is outside: what it is, when it changed, what it holds."""
        found = {}
        for place in (self.outside, self.top / "ws_evil"):
            for path in (place, *place.rglob("*")):
                status = path.lstat()
                content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
                found[str(path)] = status.st_mode, status.st_mtime_ns, content
        return found


@pytest.fixture
def yard(tmp_path: Path):
    before = os.listdir("/proc/self/fd")
    yard = Yard(tmp_path)
    with yard.close:
        yield yard
    assert os.listdir("/proc/self/fd") == before  # whatever was opened is closed again


def read(workspace: Workspace, path: object) -> str:
    with workspace.reading(str(path)) as file:
        return file.read()


def write(workspace: Workspace, path: object, text: str) -> None:
    with workspace.writing(str(path)) as target:
        target.commit(text)


def edit(workspace: Workspace, *edits: x.FileEdit) -> None:
    with workspace.editing(edits) as several:
        several.commit()


def create(workspace: Workspace, path: str) -> bool:
    with workspace.directory(path) as directory:
        return directory.create()


def entries(workspace: Workspace, path: str) -> list[str]:
    with workspace.directory(path) as directory:
        return [entry.name for entry in directory.entries()[0]]


@pytest.fixture(params=["openat2", "walk"])
def workspace(request, yard: Yard):
    with Workspace(yard.ws, state=yard.top / "state", use_openat2=request.param == "openat2") as workspace:
        yield workspace


def chain(yard: Yard, length: int, target: str) -> str:
    """A link to a link to a link …"""
    for number in range(length):
        yard.link(f"chain{number}", target if number == 0 else f"chain{number - 1}")
    return str(yard.ws / f"chain{length - 1}")


def fifo(yard: Yard) -> str:
    os.mkfifo(yard.ws / "fifo")
    return str(yard.ws / "fifo")


def unix_socket(yard: Yard) -> str:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(yard.ws / "socket"))
    return str(yard.ws / "socket")


def device(yard: Yard) -> str:
    try:
        os.mknod(yard.ws / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can make devices")
    return str(yard.ws / "zero")


def open_secret(yard: Yard) -> str:
    """A descriptor somebody in this process happens to have open."""
    fd = os.open(yard.outside / "secret", os.O_RDONLY)
    yard.close.callback(os.close, fd)
    return f"/proc/self/fd/{fd}"


def link_below(yard: Yard, target: str, rest: str) -> str:
    return f"{yard.link('way', target)}/{rest}"


ESCAPES = {
    "dots": lambda yard: f"{yard.ws}/../outside/secret",
    "dots behind a directory": lambda yard: f"{yard.ws}/sub/../../outside/secret",
    "dots behind a file": lambda yard: f"{yard.ws}/a.txt/../../outside/secret",
    "dots behind nothing": lambda yard: f"{yard.ws}/nothing/../../outside/secret",
    "many dots": lambda yard: f"{yard.ws}{'/..' * 100}{yard.outside}/secret",
    "dots and slashes": lambda yard: f"{yard.ws}//.//..//outside///secret",
    "the parent itself": lambda yard: f"{yard.ws}/..",
    "the absolute path": lambda yard: f"{yard.outside}/secret",
    "a prefix sibling": lambda yard: f"{yard.ws}_evil/secret",
    "a prefix sibling by dots": lambda yard: f"{yard.ws}/../ws_evil/secret",
    "dots behind something outside": lambda yard: f"{yard.outside}/../ws/a.txt",
    "two slashes": lambda yard: f"//{yard.outside}/secret",
    "a dot first": lambda yard: f"/.{yard.outside}/secret",
    "a system file": lambda yard: "/etc/passwd",
    "the root": lambda yard: "/",
    "the root of a process": lambda yard: f"/proc/self/root{yard.outside}/secret",
    "the directory of a process": lambda yard: "/proc/self/cwd/secret",
    "a descriptor": open_secret,
    "the environment": lambda yard: "/proc/self/environ",
    "stdin": lambda yard: "/dev/stdin",
    "a relative link to a file": lambda yard: yard.link("l", "../outside/secret"),
    "an absolute link to a file": lambda yard: yard.link("l", yard.outside / "secret"),
    "a relative link to a directory": lambda yard: link_below(yard, "../outside", "secret"),
    "an absolute link to a directory": lambda yard: link_below(yard, str(yard.outside), "secret"),
    "a link to a prefix sibling": lambda yard: link_below(yard, f"{yard.ws}_evil", "secret"),
    "a link to the parent": lambda yard: link_below(yard, "..", "outside/secret"),
    "a link to the root": lambda yard: link_below(yard, "/", f"{yard.outside}/secret"),
    "a link to the root of a process": lambda yard: link_below(yard, "/proc/self/root", f"{yard.outside}/secret"),
    "a link to a descriptor": lambda yard: yard.link("l", open_secret(yard)),
    "a link through inside and out again": lambda yard: yard.link("l", "sub/../../outside/secret"),
    "a link through the root and back": lambda yard: yard.link("l", f"{yard.ws}/../outside/secret"),
    "a chain of links": lambda yard: chain(yard, 10, "../outside/secret"),
    "a dangling link": lambda yard: yard.link("l", "../outside/new"),
    "something new behind a link": lambda yard: link_below(yard, "../outside", "new/deep/file"),
    "a loop": lambda yard: yard.link("loop", "loop"),
    "a loop of directories": lambda yard: link_below(yard, "way/way", "a.txt"),
    "too many links": lambda yard: chain(yard, 41, "a.txt"),
    "a fifo": fifo,
    "a link to a fifo": lambda yard: yard.link("l", fifo(yard)),
    "a socket": unix_socket,
    "a device": device,
    "a link to a device": lambda yard: yard.link("l", "/dev/zero"),
    "a link to a terminal": lambda yard: yard.link("l", "/dev/tty"),
    "a file as a directory": lambda yard: f"{yard.ws}/a.txt/",
    "below a file": lambda yard: f"{yard.ws}/a.txt/b",
    "a NUL": lambda yard: f"{yard.ws}/a.txt\0/../../outside/secret",
    "nothing": lambda yard: "",
    "a relative path": lambda yard: "a.txt",
    "a relative path with dots": lambda yard: "../outside/secret",
    "the home": lambda yard: "~/secret",
    "an address": lambda yard: f"file://{yard.outside}/secret",
    "a very long path": lambda yard: f"{yard.ws}/{'x/' * 3000}",
    "a very long name": lambda yard: f"{yard.ws}/{'x' * 300}",
    "a lone surrogate": lambda yard: f"{yard.ws}/\udcff",
    "the journal": lambda yard: f"{yard.top}/state/files/0123456789abcdef-1.edits",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
def test_no_path_leads_out(escape, yard: Yard, workspace: Workspace) -> None:
    path = escape(yard)
    before = yard.snapshot()
    attempts = [
        lambda: read(workspace, path),
        lambda: write(workspace, path, "taken over\n"),
        lambda: edit(workspace, x.WriteEdit(path=path, content="taken over\n")),
        lambda: edit(workspace, x.DeleteEdit(path=path)),
        lambda: entries(workspace, path),
        lambda: create(workspace, path),
    ]
    for attempt in attempts:
        started = time.monotonic()
        with pytest.raises((InvalidParams, ResourceNotFound)):
            attempt()
        assert time.monotonic() - started < QUICK
    assert yard.snapshot() == before


# Two guards, each of which holds alone: the way itself, and a look at where it has led.
ALONE = {"the way": (paths, "is_beneath", lambda path, top: True), "the last look": (linux, "BENEATH", 0)}


@pytest.mark.parametrize("guard", ALONE.values(), ids=ALONE)
def test_each_guard_against_ways_out_holds_without_the_other(guard, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(*guard)
    for number, escape in enumerate(ESCAPES.values()):
        (tmp_path / str(number)).mkdir()
        yard = Yard(tmp_path / str(number))
        with yard.close, Workspace(yard.ws, state=yard.top / "state") as workspace:
            path, before = escape(yard), yard.snapshot()
            for attempt in (read, entries, create, lambda *to: write(*to, "taken over\n")):
                with pytest.raises((InvalidParams, ResourceNotFound)):
                    attempt(workspace, path)
            assert yard.snapshot() == before


def test_without_both_guards_a_link_leads_out(yard: Yard, monkeypatch) -> None:
    """So that the test above is about them."""
    for guard in ALONE.values():
        monkeypatch.setattr(*guard)
    with Workspace(yard.ws, state=yard.top / "state") as workspace:
        assert read(workspace, link_below(yard, "../outside", "secret")) == SECRET


def test_an_error_says_nothing_about_what_is_outside(yard: Yard, workspace: Workspace) -> None:
    errors = []
    for name in ("secret", "no such file", "", "secret/below"):
        with pytest.raises(InvalidParams) as caught:
            workspace.reading(f"{yard.outside}/{name}")
        errors.append((caught.value.code, caught.value.message, caught.value.data["kind"]))
    assert set(errors) == {(-32602, errors[0][1], "outside_workspace")}


def test_the_journal_is_out_of_reach_even_inside_the_workspace(yard: Yard) -> None:
    with Workspace(yard.top, state=yard.ws) as workspace:
        for path in (f"{yard.ws}/files", f"{yard.ws}/files/x.edits", f"{yard.ws}/sub/../files/x.edits"):
            with pytest.raises(InvalidParams) as caught:
                workspace.writing(path)
            assert caught.value.data["kind"] == "outside_workspace"


def test_a_hard_link_can_be_read_but_its_other_names_keep_what_they_have(yard: Yard, workspace: Workspace) -> None:
    os.link(yard.outside / "secret", yard.ws / "linked")
    path = str(yard.ws / "linked")
    before = yard.snapshot()
    assert read(workspace, path) == SECRET
    write(workspace, path, "mine\n")
    edit(workspace, x.WriteEdit(path=path, content="mine again\n"))
    assert (yard.ws / "linked").read_text() == "mine again\n"
    assert {name: value[2] for name, value in yard.snapshot().items()} == {
        name: value[2] for name, value in before.items()
    }


def test_a_pseudo_file_is_refused(yard: Yard) -> None:
    with Workspace("/proc/self", state=yard.top / "state") as workspace:
        for name in ("environ", "status", "mem", "mounts"):
            with pytest.raises(InvalidParams) as caught:
                workspace.reading(f"/proc/self/{name}")
            assert caught.value.data["kind"] in ("not_a_file", "outside_workspace")


def test_a_file_without_a_size_may_be_endless_and_is_refused(yard: Yard, monkeypatch) -> None:
    """As on a file system nobody has heard of."""
    monkeypatch.setattr(linux, "is_pseudo", lambda fd: False)
    with Workspace("/proc/self", state=yard.top / "state") as workspace:
        for path in ("/proc/self/status", "/proc/self/environ"):
            with workspace.reading(path) as file, pytest.raises(InvalidParams) as caught:
                file.read()
            assert caught.value.data["kind"] == "not_a_file"


# A root that is replaced


def rename_and_recreate(yard: Yard) -> None:
    yard.ws.rename(yard.top / "moved")
    yard.ws.mkdir()
    (yard.ws / "a.txt").write_text(SECRET)


def rename_and_link(yard: Yard) -> None:
    yard.ws.rename(yard.top / "moved")
    (yard.outside / "a.txt").write_text(SECRET)
    yard.ws.symlink_to(yard.outside)


def exchange_with_another(yard: Yard) -> None:
    (yard.outside / "a.txt").write_text(SECRET)
    yard.ws.rename(yard.top / "moved")
    yard.outside.rename(yard.ws)


@pytest.mark.parametrize("replace", [rename_and_recreate, rename_and_link, exchange_with_another])
def test_a_replaced_root_is_a_stranger(replace, yard: Yard, workspace: Workspace) -> None:
    yard.link("absolute", yard.ws / "a.txt")
    replace(yard)
    for _ in range(100):
        assert read(workspace, f"{yard.ws}/a.txt") == "inside\n"
        assert read(workspace, f"{yard.ws}/absolute") == "inside\n"
    with workspace.reading(f"{yard.ws}/a.txt") as file:
        assert file.path == f"{yard.top}/moved/a.txt"
    write(workspace, f"{yard.ws}/a.txt", "new\n")
    write(workspace, f"{yard.ws}/b/c.txt", "new\n")
    assert (yard.top / "moved" / "a.txt").read_text() == "new\n"
    assert (yard.top / "moved" / "b" / "c.txt").read_text() == "new\n"
    assert (yard.ws / "a.txt").read_text() == SECRET
    assert not (yard.ws / "b").exists()


def test_a_deleted_root_has_no_files(yard: Yard, workspace: Workspace) -> None:
    (yard.ws / "a.txt").unlink()
    (yard.ws / "sub").rmdir()
    yard.ws.rmdir()
    yard.ws.mkdir()
    (yard.ws / "a.txt").write_text(SECRET)
    with pytest.raises(ResourceNotFound):
        workspace.reading(f"{yard.ws}/a.txt")
    with pytest.raises(ResourceNotFound):
        workspace.writing(f"{yard.ws}/new.txt")
    assert os.listdir(yard.ws) == ["a.txt"]


# What must be possible


def legitimate(yard: Yard) -> dict[str, str]:
    """Paths that lead to files inside, and what these hold."""
    cases: dict[str, str] = {}

    def add(name: str, content: str = "some text\n", way: str = "") -> None:
        path = yard.ws / name
        os.makedirs(path.parent, exist_ok=True)
        path.write_bytes(content.encode())
        cases[f"{yard.ws}/{way or name}"] = content

    names = [
        "plain.txt",
        "with space.txt",
        " leading",
        "trailing ",
        "ünïcödé.txt",
        "日本語.txt",
        "emoji 🎉.txt",
        "-dash",
    ]
    names += [
        ".hidden",
        "..two dots",
        "...",
        "dots..in..name",
        "tab\tname",
        "new\nline",
        "quo'te",
        'quo"te',
        "semi;colon",
    ]
    names += [
        "$HOME",
        "~",
        "%2e%2e",
        "back\\slash",
        "*",
        "a:b",
        "#hash",
        "e\u0301 combining",
        "\u200bzero width",
        "C:",
    ]
    names += ["x" * 255, "é" * 127, ".dragoman", "con", "nul", "a" * 100 + "/" + "b" * 100, "Ünder/Größe/naïve"]
    names += ["node_modules/.bin/x", ".git/config", "مرحبا", "שלום", "한국어", "Ελληνικά"]
    for name in names:
        add(name)
    add("empty.txt", "")
    add("ten MiB.txt", "0123456789abcde\n" * (10 * 1024 * 1024 // 16))
    add("no newline.txt", "no newline")
    add("crlf.txt", "a\r\nb\r\n")
    add("bom.txt", "\ufeffa\n")
    add("/".join(["deep"] * 300) + "/f.txt")
    add("dotted/f.txt", way="dotted/./f.txt")
    add("up/f.txt", way="up/../up/f.txt")
    add("slashes/f.txt", way="slashes////f.txt")
    add("out and in.txt", way="../ws/out and in.txt")
    add("sub/dir/f.txt", "in a directory\n")
    cases[f"/{yard.ws}/sub/dir/f.txt"] = "in a directory\n"
    cases[f"{yard.ws}/./sub/dir/../dir/f.txt"] = "in a directory\n"
    links = {
        "to a file": "sub/dir/f.txt",
        "absolute": yard.ws / "sub/dir/f.txt",
        "out and in": "../ws/sub/dir/f.txt",
        "far out and in": f"../../{yard.top.name}/ws/sub/dir/f.txt",
        "by dots": "sub/../sub/dir/f.txt",
        "to a link": "to a file",
    }
    for name, target in links.items():
        cases[yard.link(name, target)] = "in a directory\n"
    directories = {"dir": "sub/dir", "absolute dir": yard.ws / "sub/dir", "dir dots": "sub/../sub/dir", "self": "."}
    for name, target in directories.items():
        below = "sub/dir/f.txt" if name == "self" else "f.txt"
        cases[f"{yard.link(name, target)}/{below}"] = "in a directory\n"
    (yard.ws / "sub" / "up again").symlink_to("..")
    cases[f"{yard.ws}/sub/up again/sub/dir/f.txt"] = "in a directory\n"
    cases[chain(yard, 40, "sub/dir/f.txt")] = "in a directory\n"
    return cases


def test_every_file_inside_can_be_read_and_written(yard: Yard, workspace: Workspace) -> None:
    cases = legitimate(yard)
    assert len(cases) >= 60
    for path, content in cases.items():
        with workspace.reading(path) as file:
            assert file.read() == content, path
    for path, content in cases.items():
        is_link = os.path.islink(path)
        with workspace.writing(path) as target:
            assert target.exists
            target.commit(content)
        with open(path, newline="") as file:
            assert file.read() == content, path
        assert os.path.islink(path) == is_link


def test_the_path_of_a_handle_is_the_real_one(yard: Yard, workspace: Workspace) -> None:
    yard.link("l", "sub/../a.txt")
    yard.link("d", "sub")
    with workspace.reading(f"{yard.ws}/l") as file:
        assert file.path == f"{yard.ws}/a.txt"
        assert file.operation.path == file.path
    with workspace.writing(f"{yard.ws}/d/new/b.txt") as target:
        assert target.path == f"{yard.ws}/sub/new/b.txt"
        assert target.operation("x").creates
    with workspace.directory(f"{yard.ws}/d") as directory:
        assert directory.path == f"{yard.ws}/sub"
    with workspace.directory(f"{yard.ws}/sub/..") as directory:
        assert directory.path == str(yard.ws)


def test_where_the_system_cannot_say_where_files_are_the_walk_can(yard: Yard, monkeypatch) -> None:
    """As on a system without /proc and the like."""
    monkeypatch.setattr(paths, "path_of", lambda fd: None)
    cases = legitimate(yard)
    with Workspace(yard.ws, state=yard.top / "state") as workspace:
        for path, content in cases.items():
            with workspace.reading(path) as file:
                assert (file.path, file.read()) == (os.path.realpath(path), content)
        with workspace.writing(f"{yard.ws}/absolute dir/../new/f") as target:
            assert target.path == f"{yard.ws}/sub/new/f"
        for name in ("dots", "an absolute link to a file", "a link to the parent"):
            with pytest.raises(InvalidParams):
                workspace.reading(ESCAPES[name](yard))


def test_a_workspace_goes_by_the_name_it_was_given_and_by_its_real_one(yard: Yard) -> None:
    (yard.top / "alias").symlink_to(yard.ws)
    with Workspace(yard.top / "alias", state=yard.top / "state") as workspace:
        assert workspace.directories == (str(yard.ws),)
        for path in (f"{yard.top}/alias/a.txt", f"{yard.ws}/a.txt"):
            with workspace.reading(path) as file:
                assert file.path == f"{yard.ws}/a.txt"


def test_relative_paths_start_at_the_first_directory_where_they_are_allowed(yard: Yard) -> None:
    with Workspace(yard.ws, [yard.outside], state=yard.top / "state", relative=True) as workspace:
        assert read(workspace, "a.txt") == "inside\n"
        assert read(workspace, "./sub/../a.txt") == "inside\n"
        assert read(workspace, "../outside/secret") == SECRET
        for path in ("../ws_evil/secret", "~/secret", "secret"):
            with pytest.raises(RpcError):
                workspace.reading(path)


@pytest.mark.parametrize("use_openat2", [True, False])
def test_additional_directories_are_inside_and_links_may_lead_from_one_to_another(
    use_openat2: bool, yard: Yard
) -> None:
    yard.link("relative", "../outside/secret")
    yard.link("absolute", yard.outside / "secret")
    yard.link("dir", "../outside")
    (yard.outside / "back").symlink_to(yard.ws / "a.txt")
    with Workspace(yard.ws, [yard.outside], state=yard.top / "state", use_openat2=use_openat2) as workspace:
        for name in ("relative", "absolute", "dir/secret", "../outside/secret"):
            with workspace.reading(f"{yard.ws}/{name}") as file:
                assert (file.path, file.read()) == (f"{yard.outside}/secret", SECRET)
        assert read(workspace, f"{yard.outside}/back") == "inside\n"
        with pytest.raises(InvalidParams):
            workspace.reading(f"{yard.ws}_evil/secret")
        write(workspace, f"{yard.ws}/dir/new", "new\n")
    assert (yard.outside / "new").read_text() == "new\n"


@pytest.mark.parametrize("use_openat2", [True, False])
def test_an_exception_is_a_single_file_or_a_tree_and_read_only_unless_said(use_openat2: bool, yard: Yard) -> None:
    tree = yard.top / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "f").write_text("in the tree\n")
    (yard.outside / "sibling").write_text(SECRET)
    (yard.outside / "notes").write_text("notes\n")
    exceptions = [
        Exemption(yard.outside / "secret"),
        Exemption(yard.outside / "notes", writable=True),
        Exemption(yard.outside / "not yet", writable=True),
        Exemption(tree),
        Exemption(tree / "deep", writable=True),
    ]
    yard.link("l", yard.outside / "notes")
    with Workspace(yard.ws, exceptions=exceptions, state=yard.top / "state", use_openat2=use_openat2) as workspace:
        assert read(workspace, f"{yard.outside}/secret") == SECRET
        assert read(workspace, f"{yard.ws}/l") == "notes\n"
        assert read(workspace, f"{tree}/deep/f") == "in the tree\n"
        for name in ("sibling", "", "secret/..", "secret/../sibling", "notes/x"):
            with pytest.raises(RpcError):
                workspace.reading(f"{yard.outside}/{name}")
        for path in (f"{yard.outside}/secret", f"{tree}/f"):
            with pytest.raises(InvalidParams) as caught:
                workspace.writing(path)
            assert caught.value.data["kind"] == "read_only"
        with pytest.raises(InvalidParams):
            create(workspace, f"{tree}/new")
        for path in (yard.outside / "notes", yard.outside / "not yet", tree / "deep" / "g"):
            write(workspace, path, "written\n")
            assert path.read_text() == "written\n"
        (yard.outside / "notes").unlink()
        (yard.outside / "notes").symlink_to("sibling")
        with pytest.raises(InvalidParams):
            workspace.reading(f"{yard.outside}/notes")
        for target in (".", "./", "..", "sub/..", yard.outside):
            (yard.outside / "notes").unlink()
            (yard.outside / "notes").symlink_to(target)
            with pytest.raises(RpcError):
                workspace.directory(f"{yard.outside}/notes")
        (yard.outside / "notes").unlink()
        (yard.outside / "notes").mkdir()
        (yard.outside / "notes" / "f").write_text(SECRET)
        for path in (f"{yard.outside}/notes", f"{yard.outside}/notes/f"):
            with pytest.raises(RpcError):
                workspace.directory(path)
            with pytest.raises(RpcError):
                workspace.reading(path)
    assert (yard.outside / "sibling").read_text() == SECRET


def test_a_directory_that_is_not_there_cannot_be_lent(yard: Yard) -> None:
    with pytest.raises(FileNotFoundError):
        Workspace(yard.ws / "missing", state=yard.top / "state")
    with pytest.raises(NotADirectoryError):
        Workspace(yard.ws, [yard.ws / "a.txt"], state=yard.top / "state")


def test_the_whole_file_system_can_be_lent(yard: Yard) -> None:
    with Workspace("/", state=yard.top / "state") as workspace:
        for path in (yard.outside / "secret", f"/..{yard.outside}/secret", f"{yard.ws}/../outside/secret"):
            assert read(workspace, path) == SECRET
        with pytest.raises(RpcError):
            workspace.reading("/dev/zero")
        with pytest.raises(RpcError):
            workspace.reading("/proc/self/environ")
