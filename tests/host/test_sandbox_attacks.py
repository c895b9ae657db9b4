"""Ways out of a sandbox that an outsider tried; each gives something true where it gets anywhere."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest
from ordinary import OWNER, run_as_ordinary_user

from dragoman.host.terminals import Sandbox, Terminals, execution

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="the system has no Python"),
]
PATIENCE = 60
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


@pytest.mark.timeout(900)
@pytest.mark.skipif(os.geteuid() != 0, reason="this is run as an ordinary user")
def test_nor_from_a_sandbox_of_an_ordinary_user() -> None:
    run_as_ordinary_user(__file__, "-k", "nowhere")
