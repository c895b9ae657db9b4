"""Ways out of a sandbox that an outsider tried; each gives something true where it gets anywhere."""

import asyncio
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from ordinary import OWNER, run_as_ordinary_user
from patience import PATIENCE

from dragoman.host.terminals import Sandbox, SandboxUnavailable, Terminals, execution

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="the system has no Python"),
]
ATTACKS = {
    "io_uring": "call(425, 8, bytes(120)) >= 0",
    "userfaultfd": "call(323 if X86 else 282, 0) >= 0 or os.path.exists('/dev/userfaultfd')",
    "a copied descriptor": "call(438, call(434, os.getppid(), 0), 1, 0) >= 0",
    "a traced sibling": "call(101 if X86 else 117, 16, os.getppid(), 0, 0) >= 0",
    "kernel keys": "call(250 if X86 else 219, 0, -3, 1) >= 0",
    "shared memory of the host": "call(29 if X86 else 194, told['key'], 0, 0) >= 0",
    "a process of the host": "os.path.exists('/proc/%d' % told['host'])",
    "a program in memory that sees more": "in_memory(told['secret']) == 0",
    "a stream opened as another": "any(os.path.isfile('/proc/self/fd/%d/..' % n) for n in range(3))",
    "changes of the host's files": "libc.inotify_add_watch(libc.inotify_init(), told['secret'].encode(), 2) >= 0",
    "a control group": "writes('/sys/fs/cgroup/cgroup.procs') or os.path.exists('/sys/fs/cgroup')",
    "the keys of the kernel": "writes('/proc/sysrq-trigger')",
    "where memory is dumped": "writes('/proc/sys/kernel/core_pattern')",
    "a higher limit of dumps": "resource.setrlimit(resource.RLIMIT_CORE, (1, 1)) is None",
    "the clock": "time.clock_settime(time.CLOCK_REALTIME, time.time()) is None",
    "a mount that spreads": "call(165 if X86 else 40, b'none', b'/tmp', b'tmpfs', 0, 0) >= 0",
    "a mark of others' processes": "writes('/proc/%d/oom_score_adj' % told['host'])",
    "the root directory's own name": "os.rename(told['workspace'], told['workspace'] + '2') is None",
}
PROGRAM = """
import ctypes, json, os, resource, sys, time
libc = ctypes.CDLL(None, use_errno=True)
told, X86 = json.loads(sys.argv[1]), os.uname().machine == "x86_64"
def call(number, *words):
    return libc.syscall(number, *[ctypes.c_long(w) if isinstance(w, int) else w for w in words])
def writes(path):
    os.close(os.open(path, os.O_WRONLY))
    return True
def in_memory(path):
    fd = os.memfd_create("x")
    with open("/bin/cat", "rb") as program:
        os.write(fd, program.read())
    return os.waitstatus_to_exitcode(os.system(f"exec /proc/{os.getpid()}/fd/{fd} {path} >/dev/null 2>&1"))
managed = []
for name, attack in told["attacks"].items():
    try:
        if eval(attack):
            managed.append(name)
    except (OSError, ValueError):
        pass
print(json.dumps(managed))
"""


async def test_an_outsider_gets_nowhere(tmp_path: Path) -> None:
    workspace, secret = tmp_path / "workspace", tmp_path / "secret"
    workspace.mkdir()
    secret.write_text("secret")
    secret.chmod(0o644)
    (workspace / "try.py").write_text(PROGRAM)
    told = {
        "attacks": ATTACKS,
        "secret": str(secret),
        "host": os.getpid(),
        "workspace": str(workspace),
        "key": 0x22,
    }
    (workspace / "told").write_text(json.dumps(told))
    if os.geteuid() == 0:
        os.chown(workspace, *OWNER)
    async with Terminals(sandbox=Sandbox()) as terminals, asyncio.timeout(PATIENCE):
        command = '/usr/bin/python3 try.py "$(cat told)"'
        terminal = await terminals.create("s", execution(command, cwd=str(workspace)))
        await terminal.wait()
    assert terminal.output().output == "[]\n"


# What the host, its sandbox and the supervisor read in a workspace, and what else can be there.
READ = (
    *(
        ".dragoman/permissions.toml",
        ".git",
        ".git/HEAD",
        ".git/index",
        ".git/config",
        ".git/commondir",
        ".git/info",
    ),
    *(".git/modules", ".gitignore", ".envrc", ".mcp.json", ".vscode", "sub/.git", "bare/HEAD", "file"),
)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as wire:
        wire.bind(f"/proc/self/fd/{(fd := os.open(path.parent, os.O_PATH))}/{path.name}")
        os.close(fd)


def stretch(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**40)


KINDS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a socket": bind,
    "a directory": Path.mkdir,
    "a file larger than the disk": stretch,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a file that nobody may read": lambda path: path.touch(0),
    "a directory that nobody may enter": lambda path: path.mkdir(0),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_is_where_files_are_read_a_command_runs_or_is_refused_with_a_sentence(
    tmp_path: Path, kind: str
) -> None:
    sandbox = Sandbox()
    sandbox._escapes = []  # test_sandbox.py has its trials
    refused = {}
    async with Terminals(sandbox=sandbox) as terminals:
        for number, name in enumerate(READ):
            path = tmp_path / str(number) / name
            path.parent.mkdir(parents=True)
            KINDS[kind](path)
            if os.geteuid() == 0:
                for each in (tmp_path / str(number), *(tmp_path / str(number)).rglob("*")):
                    os.chown(each, *OWNER, follow_symlinks=False)
            async with asyncio.timeout(PATIENCE):
                try:
                    command = execution("echo ran", cwd=str(tmp_path / str(number)))
                    terminal = await terminals.create("s", command)
                except SandboxUnavailable as exc:
                    refused[name] = exc.message
                else:
                    await terminal.wait()
                    assert terminal.output().output == "ran\n", name
            if kind == "a directory that nobody may enter":
                path.chmod(0o700)  # for whoever removes it
    is_link, is_closed = kind.startswith("a link"), kind.endswith("nobody may enter") and os.geteuid() != 0
    assert bool(refused) is (is_link or is_closed)
    for name, why in refused.items():
        sentence = "is a symbolic link, which cannot be protected" if is_link else "Permission denied"
        assert sentence in why, name


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="this is run as an ordinary user")
def test_nor_from_a_sandbox_of_an_ordinary_user() -> None:
    run_as_ordinary_user(__file__, "-k", "nowhere or sentence")
