"""Run inside a sandbox by `trial.py`: tries to get out, and prints what it managed as JSON.

Everything here is harmless where it succeeds: calls get arguments that the kernel refuses after it has agreed to the
caller, and files that are written were made for it.  Standard library only; it is handed over as text.
"""

import ctypes
import errno
import json
import os
import resource
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
REFUSED = (errno.EPERM, errno.ENOSYS)
TYPED = b"!"


def attempts(told: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What to try, and how: each gives something true when it gets out, and otherwise nothing, or an OSError."""
    for name, number in told["forbidden"].items():
        yield f"the system call {name} can be made", lambda number=number: calls(number)
    for path in told["unwritable"]:
        yield f"{path} can be written", lambda path=path: writes(path)
    for path in told["unreadable"]:
        yield f"{path} can be read", lambda path=path: reads(path)
    for path in told["protected"]:
        yield f"{path} can be changed", lambda path=path: changes(path)
    for kind, name in told["namespaces"].items():
        yield f"it shares the host's {kind} namespace", lambda kind=kind, name=name: os.readlink(f"/proc/self/ns/{kind}") == name
    for family, kind, address in told["addresses"]:
        yield f"{address} can be reached", lambda f=family, k=kind, a=address: reaches(f, k, a)
    for family in (17, 38, 40):
        yield f"a socket of family {family} can be made", lambda family=family: socket.socket(family, socket.SOCK_DGRAM)
    yield "raw packets can be sent", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    yield "it sees a host's root through a process", lambda: any(reads(f"/proc/{p}/root{told['secret']}") for p in processes())
    yield "it sees a host's secret in a process", lambda: any(seen(p, told["word"]) for p in processes())
    yield "it has descriptors besides the standard ones", lambda: descriptors() - {0, 1, 2}
    yield "it has capabilities", lambda: any(int(line.split()[1], 16) for line in status("Cap"))
    yield "it can gain privileges", lambda: status("NoNewPrivs")[0].split()[1] != "1"
    yield "it can become root", lambda: os.setuid(0) or True
    yield "it can change its root", lambda: os.chroot(".") or True
    yield "it can make devices", lambda: os.mknod("device", stat.S_IFBLK | 0o600, os.makedev(8, 0)) or True
    yield "it sees disks", lambda: [n for n in os.listdir("/dev") if stat.S_ISBLK(os.stat(f"/dev/{n}").st_mode)]
    yield "it sees the kernel's devices", lambda: os.path.exists("/sys/kernel") or os.path.exists("/dev/mem")
    yield "it can change the mode of the system's files", lambda: os.chmod("/usr/bin/env", 0o777) or True
    yield "it can link to the system's files", lambda: os.link("/usr/bin/env", "linked") or True
    yield "it can raise its priority", lambda: os.setpriority(os.PRIO_PROCESS, 0, -20) or True
    yield "it can rename the host", lambda: libc.sethostname(b"x", -1) == 0 or ctypes.get_errno() not in REFUSED
    yield "it can set the clock", lambda: libc.adjtimex(ctypes.byref((ctypes.c_uint * 64)(0x4000))) >= 0
    yield "it can type into a terminal", types
    yield "it can make a user namespace", nests
    yield "its memory can be dumped", lambda: resource.getrlimit(resource.RLIMIT_CORE) != (0, 0)
    yield "the workspace cannot be written", lambda: not writes("written")
    yield "no program can be run", lambda: os.spawnv(os.P_WAIT, "/usr/bin/env", ["env", "true"]) != 0


def calls(number: int) -> bool:
    """Whether the kernel agrees to the call; with arguments that it then refuses."""
    result = libc.syscall(number, *[ctypes.c_long(-1)] * 6)
    return result >= 0 or ctypes.get_errno() not in REFUSED


def writes(path: str) -> bool:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o600))
    return True


def reads(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def changes(path: str) -> bool:
    """Whether anything at all can be done to a protected path, or to what it is in."""
    first = path.split("/")[0]
    tries: list[Callable[[], Any]] = [
        lambda: writes(f"{path}/new"),
        lambda: os.mkdir(f"{path}/new"),
        lambda: os.open(path, os.O_WRONLY),
        lambda: os.chmod(path, 0o777),
        lambda: os.utime(path),
        lambda: os.unlink(path),
        lambda: os.rmdir(path),
        lambda: os.rename(path, "moved"),
        lambda: os.rename(first, "moved"),
        lambda: os.symlink("/", path),
        lambda: (os.mkdir("other"), os.rename("other", path)),
        lambda: (os.mkdir("another"), os.rename("another", first)),
        lambda: libc.umount2(path.encode(), 2) == 0 or fail(),
        lambda: os.makedirs(path),
        lambda: os.link(path, "linked-too") if os.path.isfile(path) else fail(),
    ]
    return any(works(attempt) for attempt in tries)


def works(attempt: Callable[[], Any]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def fail() -> None:
    raise OSError(ctypes.get_errno(), "refused")


def reaches(family: int, kind: int, address: Any) -> bool:
    target = address if isinstance(address, str) else tuple(address)
    with socket.socket(family, kind) as wire:
        wire.settimeout(2)
        wire.connect(target)
        wire.send(b"x")  # for the host to hear, where a datagram tells us nothing
        return kind == socket.SOCK_STREAM


def types() -> bool:
    """Whether a character can be put into the input of a terminal that is not ours alone."""
    import fcntl
    import termios

    for place in (0, 1, 2, "/dev/tty", "/dev/console"):
        try:
            fd = place if isinstance(place, int) else os.open(place, os.O_RDWR | os.O_NOCTTY)
            fcntl.ioctl(fd, termios.TIOCSTI, TYPED)
        except OSError:
            continue
        return True
    return False


def nests() -> bool:
    """Whether a process in a user namespace of its own can be made."""
    pid = libc.syscall({"x86_64": 56, "aarch64": 220}.get(os.uname().machine, -1), 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return pid > 0


def seen(process: str, word: str) -> bool:
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{process}/{name}", "rb") as file:
                if word.encode() in file.read():
                    return True
        except OSError:
            continue
    return False


def processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def descriptors() -> set[int]:
    found = {int(name) for name in os.listdir("/proc/self/fd")}
    return {fd for fd in found if os.path.exists(f"/proc/self/fd/{fd}")}


def status(beginning: str) -> list[str]:
    with open("/proc/self/status") as file:
        return [line for line in file if line.startswith(beginning) and not line.startswith("CapAmb:x")]


def leave_a_daemon(path: str) -> None:
    """Start a process that leaves session, group and parent, and holds a pipe open for as long as it lives."""
    ready, done = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.open(path, os.O_WRONLY)
            os.write(done, b"x")
            for fd in (0, 1, 2):
                os.close(fd)
            signal.pause()
        os._exit(0)
    os.read(ready, 1)


def main() -> None:
    told = json.loads(sys.argv[1])
    managed, tried = [], 0
    for name, attempt in attempts(told):
        tried += 1
        try:
            if attempt():
                managed.append(name)
        except OSError:
            continue
    leave_a_daemon(told["pipe"])
    print(json.dumps({"tried": tried, "managed": managed}))


if __name__ == "__main__":
    main()
