"""Commands that stop and kill the processes that watch over them, and daemons that do not want to be found.

As in `host_terminals`, whether somebody lives is told by a pipe.  `python -m torture.hostile_commands DIRECTORY`
tries them all at once, as whoever runs it; `DIRECTORY ATTACK ...` tries these, and a single one alone.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from dragoman.host.terminals import TerminalLimits, Terminals, execution
from dragoman.host.terminals import children as host_side
from torture.host_terminals import Pulse

PATIENCE = 60.0  # seconds; an experiment that waits longer has failed

BEGINNING = """
import os, signal, sys, time

def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])

def send(number, *pids):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

def leave():
    if os.fork():
        time.sleep(1000)
    os.setsid()
    if os.fork():
        os._exit(0)

def hold(pid):
    import ctypes
    ctypes.CDLL(None).ptrace(16, pid, 0, 0)  # PTRACE_ATTACH

def wander():
    while True:
        if os.fork():
            os._exit(0)
        os.setsid()

supervisor = os.getppid()
keeper = parent(supervisor)
pulse = os.open(sys.argv[1], os.O_WRONLY)
"""
UP, STAY = "os.write(pulse, b'u')", "time.sleep(1000)"
STOP, KILL = "send(signal.SIGSTOP, ", "send(signal.SIGKILL, "
ATTACKS = {
    "it stops its supervisor": f"{STOP}supervisor); {UP}; {STAY}",
    "it stops the keeper": f"{STOP}keeper); {UP}; {STAY}",
    "it stops both": f"{STOP}keeper, supervisor); {UP}; {STAY}",
    "it holds its supervisor as a debugger does": f"hold(supervisor); {UP}; {STAY}",
    "it kills its supervisor": f"leave(); {UP}; {KILL}supervisor); {STAY}",
    "it kills the keeper": f"leave(); {KILL}keeper); {UP}; {STAY}",
    "a daemon kills keeper and supervisor": f"leave(); {UP}; {KILL}keeper, supervisor); {STAY}",
    "a daemon kills supervisor and keeper": f"leave(); {UP}; {KILL}supervisor, keeper); {STAY}",
    "a daemon stops keeper and kills supervisor": f"leave(); {STOP}keeper); {UP}; {KILL}supervisor); {STAY}",
    "a daemon stops supervisor and kills keeper": f"leave(); {STOP}supervisor); {KILL}keeper); {UP}; {STAY}",
    "it ignores every signal": "for number in range(1, 65):\n"
    "    if number not in (9, 19, 32, 33): signal.signal(number, signal.SIG_IGN)\n"
    f"leave(); {UP}; {STAY}",
    "it is a crowd of daemons": f"for _ in range(20):\n    if not os.fork(): leave(); {UP}; {STAY}\n{STAY}",
    "it forks and exits without end": f"{UP}\nfor _ in range(4):\n    if not os.fork(): leave(); wander()\n{STAY}",
}
# With these no other command can be started, so what is tried is only that they end.
SIEGES = {
    "a daemon stops both again and again": f"leave()\n{UP}\nwhile True: {STOP}keeper, supervisor)",
}

# These are found where the host can make control groups, and nowhere else.
HIDING = {
    "a daemon kills keeper and supervisor and changes its mark": "import resource; leave()\n"
    f"resource.setrlimit(10, (1000, 1000)); {UP}; {KILL}keeper, supervisor); {STAY}",
    "all of a crowd have other marks": "import resource; beside = [os.pipe() for _ in range(20)]\n"
    "for number, (_, up) in enumerate(beside):\n    if not os.fork():\n"
    f"        leave(); resource.setrlimit(10, (number, number)); os.write(up, b'u'); {UP}; {STAY}\n"
    f"for up, _ in beside: os.read(up, 1)\n{KILL}keeper, supervisor); {STAY}",
}


async def endure(directory: Path, attack: str, *, is_alone: bool = False) -> None:
    """Start an attack, run another command unless it is alone, and close: nothing is left, no wait is for ever."""
    directory.mkdir()
    pulse = Pulse(directory)
    directory.chmod(0o755)
    async with (
        pulse.felt() as felt,
        Terminals(limits=TerminalLimits(grace=0.2)) as terminals,
        asyncio.timeout(PATIENCE),
    ):
        code = {**ATTACKS, **SIEGES, **HIDING}[attack]
        operation = execution(sys.executable, ["-I", "-S", "-c", BEGINNING + code, str(pulse.path)], cwd="/")
        attacker = await terminals.create("attacker", operation)
        await felt.begun(20 if "crowd" in attack else 1)
        if re.search(r"SIGKILL[^)]*supervisor", code):
            await attacker.wait()
        if not is_alone and attack not in SIEGES:
            other = await terminals.create("other", execution("echo", ["here"], cwd="/"))
            ended = await other.wait()
            assert ended and ended.exit_code == 0
            assert other.output().output == "here\n"
        await terminals.close("attacker")
        assert attacker.status
        await felt.ended()


async def endure_all(directory: Path, attacks: Iterable[str]) -> None:
    host_side.OVERDUE = 1.0
    attacks = list(attacks)
    async with asyncio.TaskGroup() as together:
        for number, attack in enumerate(attacks):
            together.create_task(endure(directory / str(number), attack, is_alone=len(attacks) == 1))


async def run_host(*argv: str) -> None:
    """Run a host in a process of its own, which has to succeed."""
    host = await asyncio.create_subprocess_exec(
        *argv,
        cwd=Path(__file__).parents[1],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await host.communicate()
    assert host.returncode == 0, printed.decode()


def as_nobody() -> list[str]:
    """What makes a command that of an ordinary user; the interpreter may be root's, so this one may see it."""
    setpriv = shutil.which("setpriv")
    assert setpriv, "needs util-linux"
    may_read = [f"--{kind}-caps=-all,+dac_read_search" for kind in ("inh", "ambient")]
    return [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", *may_read]


if __name__ == "__main__":
    asyncio.run(endure_all(Path(sys.argv[1]), sys.argv[2:] or {**ATTACKS, **SIEGES}))
