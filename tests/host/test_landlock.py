"""Landlock beside bubblewrap: a mistake in the mounts is not the end."""

import asyncio
import logging
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ordinary import run_as_ordinary_user
from patience import PATIENCE

from dragoman.foundation.places import Place, open_place
from dragoman.host.terminals import Sandbox, Terminals, execution
from dragoman.host.terminals.sandbox import first_program, landlock
from dragoman.host.terminals.sandbox.first_program import FirstProgram

OWNER = (1000, 1000)

bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
landlocked = pytest.mark.skipif(landlock.version() == 0, reason="the kernel has no Landlock")
pytestmark = pytest.mark.usefixtures("nothing_left")


class Careless(Sandbox):
    """A sandbox in which a directory too many is mounted."""

    def __init__(self, stray: Place, **how: object) -> None:
        super().__init__(**how)  # type: ignore[arg-type]
        self._stray = stray

    def wrap(self, *args: object, **how: object) -> object:  # type: ignore[override]
        return super().wrap(*args, **how, strays={"/stray": self._stray})  # type: ignore[arg-type]


def owned(directory: Path) -> Path:
    directory.mkdir()
    (directory / "file").write_text("content\n")
    if os.geteuid() == 0:
        for path in (directory, directory / "file"):
            os.chown(path, *OWNER)
    return directory


@pytest.fixture
def stray(tmp_path: Path) -> Iterator[Place]:
    with open_place(owned(tmp_path / "stray")) as place:
        yield place


async def said(sandbox: Sandbox, command: str, workspace: Path) -> str:
    async with Terminals(sandbox=sandbox) as terminals:
        terminal = await terminals.create("s", execution(command, cwd=str(workspace)))
        async with asyncio.timeout(PATIENCE):
            await terminal.wait()
        return terminal.output().output


USES = (
    "cat /stray/file; ls /stray; /stray/program; echo x >> /stray/file; echo x > /stray/new; mkdir /stray/new;"
    " ln -s x /stray/new; mkfifo /stray/new; truncate -s 0 /stray/file; rm -f /stray/file; mv /stray/file mine;"
    " ln /stray/file mine; cp file /stray/new; cp /stray/file /tmp/mine; cp /stray/file mine"
)


@bubblewrap
@landlocked
async def test_a_directory_that_is_mounted_by_mistake_can_neither_be_read_nor_written(
    stray: Place, tmp_path: Path
) -> None:
    workspace = owned(tmp_path / "workspace")
    shutil.copy("/bin/true", tmp_path / "stray" / "program")
    before = sorted(os.listdir(stray.path))
    told = await said(Careless(stray), f"{USES}; cat /tmp/mine; ls; cat file", workspace)
    assert told.endswith("/tmp/mine: No such file or directory\nfile\ncontent\n"), told
    assert told.count("content") == 1 and told.count("ermission denied") >= 10, told
    assert (sorted(os.listdir(stray.path)), (tmp_path / "stray" / "file").read_text()) == (before, "content\n")


@bubblewrap
async def test_without_landlock_it_could_and_the_log_says_that_there_is_none(
    stray: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    monkeypatch.setattr(landlock, "version", lambda: 0)
    told = await said(Careless(stray), "cat /stray/file && echo x > /stray/new", owned(tmp_path / "workspace"))
    assert told == "content\n" and (tmp_path / "stray" / "new").exists()
    assert [r.message for r in caplog.records if "Landlock" in r.message] == [
        "the kernel has no Landlock (or one before 5.19), so only the mounts of bubblewrap confine commands"
    ]


@bubblewrap
@landlocked
async def test_the_log_says_what_landlock_holds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    assert await said(Sandbox(), "cat file", owned(tmp_path / "workspace")) == "content\n"
    assert [r.message for r in caplog.records if "Landlock" in r.message] == [
        landlock.described(landlock.version())
    ]
    assert landlock.described(7) == (
        "Landlock (version 7) confines commands besides the mounts of bubblewrap: "
        "files, devices, signals, abstract sockets"
    )


@bubblewrap
@landlocked
async def test_a_landlock_that_lets_everything_through_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "restrict", lambda *_: None)
    with pytest.raises(
        Exception, match=r"this one can be escaped: /stray/file can be written; /stray/new can be made"
    ):
        await said(Sandbox(), "true", owned(tmp_path / "workspace"))


@bubblewrap
@landlocked
async def test_rules_that_the_kernel_does_not_take_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox()
    sandbox._escapes = []  # as if it had been tried
    monkeypatch.setattr(landlock, "_SCOPES", 1 << 60)
    told = await said(sandbox, "echo ran > file", owned(tmp_path / "workspace"))
    assert told == "Landlock cannot be set up in this sandbox\n"
    assert (tmp_path / "workspace" / "file").read_text() == "content\n"


@bubblewrap
@pytest.mark.skipif(landlock.version() < landlock.SCOPES_SINCE, reason="the kernel's Landlock has no scopes")
async def test_a_sandbox_with_the_host_s_network_does_not_reach_its_abstract_sockets(tmp_path: Path) -> None:
    name = f"dragoman-{secrets.token_hex(8)}"
    program = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + {name!r})"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        command = f'/usr/bin/python3 -c "{program}"; ls -d /sys'
        told = await said(Sandbox(network=True), command, owned(tmp_path / "workspace"))
        assert "PermissionError" in told
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()


@bubblewrap
async def test_a_file_can_be_moved_linked_truncated_and_run_in_the_workspace(tmp_path: Path) -> None:
    command = (
        "mkdir a b && mv file a/ && ln a/file b/other && truncate -s 3 b/other && cat a/file && cp /bin/true b/run"
        " && b/run && mkfifo b/pipe && echo 'echo a script' > b/script && chmod +x b/script; b/script;"
        " cat /dev/stdin; echo kept > /dev/shm/x && cat /dev/shm/x && head -c 3 /dev/zero | wc -c"
        " && cat /proc/self/comm"
    )
    told = await said(Sandbox(), command, owned(tmp_path / "workspace"))
    assert told.startswith("con") and told.endswith("a script\nkept\n3\ncat\n"), told


# The first program


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_loop_of_the_first_program_is_what_its_source_says(machine: str, tmp_path: Path) -> None:
    tools = "" if os.uname().machine == machine else f"{machine}-linux-gnu-"
    if not shutil.which(f"{tools}as"):
        pytest.skip(f"there is no assembler for {machine}")
    source = Path(first_program.__file__).with_name(f"first_program.{machine}.s")
    made, flat = tmp_path / "made", tmp_path / "flat"
    subprocess.run([f"{tools}as", source, "-o", made], check=True)
    subprocess.run([f"{tools}objcopy", "-O", "binary", "-j", ".text", made, flat], check=True)
    assert flat.read_bytes() == first_program._LOOPS[machine]


@pytest.mark.parametrize(
    ("argv", "code", "out", "err"),
    [
        (["echo", "a", "b c"], 0, "a b c\n", ""),
        (["env"], 0, "PATH=/nowhere:/usr/bin:/bin\nNAME=välue\n", ""),
        (["no-such-program"], 127, "", "no-such-program: No such file or directory\n"),
        (["/etc/passwd"], 127, "", "/etc/passwd: Permission denied\n"),
        (["./script", "x"], 0, "./script x\n", ""),
        (["sh", "-c", "ls /proc/self/fd | wc -l"], 0, "4\n", ""),
    ],
)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_first_program_becomes_the_command(
    argv: list[str], code: int, out: str, err: str, machine: str, tmp_path: Path
) -> None:
    runner = [] if os.uname().machine == machine else [f"qemu-{machine}"]
    if runner and not shutil.which(runner[0]):
        pytest.skip(f"programs for {machine} cannot be run here")
    (tmp_path / "script").write_text("echo $0 $1\n")
    (tmp_path / "script").chmod(0o755)
    program = FirstProgram(machine)
    program.close_others()
    program.become(argv, {"PATH": "/nowhere:/usr/bin:/bin", "NAME": "välue"})
    path = tmp_path / "program"
    path.write_bytes(program.image())
    path.chmod(0o755)
    done = subprocess.run(
        [*runner, path], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, pass_fds=[2]
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests above were an ordinary user's")
def test_landlock_holds_for_an_ordinary_user_too() -> None:
    run_as_ordinary_user(__file__, "-k", "neither_be_read or abstract or moved")
