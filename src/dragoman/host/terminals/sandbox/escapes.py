"""Run inside a sandbox by `trial.py`: tries to escape, and reports its successes as JSON.

Every attempt is harmless if it succeeds: system calls get arguments that the kernel refuses after it has accepted
the caller, and the files that are written were made for this.  Standard library only; it is passed as text.
"""

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import sys
import termios
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
REFUSED = (errno.EPERM, errno.ENOSYS)
CLONE = {"x86_64": 56, "aarch64": 220}
NEW_USER_NAMESPACE = 0x10000000
FAMILIES = {"packet": 17, "tipc": 30, "alg": 38, "vsock": 40}
NETLINK, AUDIT = 16, 9
SOCKETPAIR = {"x86_64": 53, "aarch64": 199}

Attempt = tuple[str, Callable[[], object]]


def attempts(told: dict[str, Any]) -> Iterator[Attempt]:
    """The attempts: each returns a true value if it escapes, otherwise a false one, or raises OSError."""
    for name, number in told["forbidden"].items():
        yield f"the system call {name} can be made", partial(calls, number)
    for path in told["unwritable"]:
        yield f"{path} can be written", partial(writes, path)
    for path in told["unmakeable"]:
        yield f"{path} can be made", partial(makes, path)
    for path in told["unreadable"]:
        yield f"{path} can be read", partial(reads, path)
    for path in told["protected"]:
        yield f"the protected path {path} can be changed", partial(changes, path)
    for kind, name in told["namespaces"].items():
        yield f"it shares the host's {kind} namespace", partial(shares, kind, name)
    for family, kind, address in told["addresses"]:
        yield f"{address!r} can be reached", partial(reaches, family, kind, address)
    for name, family in FAMILIES.items():
        yield f"it can make a socket of family {name}", partial(socket.socket, family, socket.SOCK_DGRAM)
        yield f"it can ask for a pair of sockets of family {name}", partial(pairs, family)
    yield "it can talk to the kernel's auditor", lambda: socket.socket(NETLINK, socket.SOCK_RAW, AUDIT)
    yield "it can send raw packets", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    yield (
        "it sees the host through a process",
        lambda: any(reads(f"/proc/{p}/root{told['secret']}") for p in processes()),
    )
    yield "it has descriptors besides the standard ones", lambda: descriptors() - {0, 1, 2}
    yield "it has variables that it was not given", lambda: variables() - {*told["variables"], "PWD"}
    yield from privileges()


def privileges() -> Iterator[Attempt]:
    yield "it is root", lambda: 0 in os.getresuid()
    yield "it can become root", lambda: os.setuid(0) or True  # type: ignore[func-returns-value]
    yield "it has capabilities", lambda: any(int(line.split()[1], 16) for line in status("Cap"))
    yield "it can gain privileges", lambda: status("NoNewPrivs")[0].split()[1] != "1"
    yield "it can change its root directory", lambda: os.chroot(".") or True  # type: ignore[func-returns-value]
    yield "it can make a user namespace", nests
    yield "it can make devices", makes_device
    yield "it can lend out its user's rights", lends_rights
    yield "it can make whoever opens a file wait", leases
    yield "it sees disks", lambda: [name for name in os.listdir("/dev") if is_disk(f"/dev/{name}")]
    yield "it sees the kernel's objects", lambda: os.path.exists("/sys/kernel")
    yield "it can change the system's files", changes_mode
    yield "it can link to the system's files", lambda: works(partial(os.link, "/usr/bin/env", "linked"))
    yield "it can rename the host", lambda: agrees(libc.sethostname(b"x", ctypes.c_long(-1)))
    yield "it can set the clock", lambda: agrees(libc.adjtimex((ctypes.c_uint * 64)(0x4000)))
    yield "it can type into a terminal", types
    yield "its memory can be dumped", lambda: resource.getrlimit(resource.RLIMIT_CORE) != (0, 0)
    yield "it cannot write in the workspace", lambda: not makes("written")
    yield "it cannot run programs", lambda: os.spawnv(os.P_WAIT, "/usr/bin/env", ["env", "true"]) != 0


def calls(number: int) -> bool:
    """Whether the kernel accepts a system call; all its arguments are invalid."""
    return agrees(libc.syscall(number, *[ctypes.c_long(-1)] * 6))


def pairs(family: int) -> bool:
    """Whether the kernel tries to make a pair of sockets of a family, which its error shows for an unknown one."""
    number = SOCKETPAIR.get(os.uname().machine, -1)
    found = libc.syscall(number, family, socket.SOCK_STREAM, 0, (ctypes.c_int * 2)())
    return bool(found >= 0 or ctypes.get_errno() != errno.EAFNOSUPPORT)


def agrees(result: int) -> bool:
    return result >= 0 or ctypes.get_errno() not in REFUSED


def works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def writes(path: str) -> bool:
    return works(lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))


def makes(path: str) -> bool:
    return works(lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)))


def reads(path: str) -> bool:
    return works(lambda: os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK)))


def changes(path: str) -> bool:
    """Whether a protected path, or one of its parents, can be changed."""
    first = path.split("/")[0]
    os.makedirs("other", exist_ok=True)
    tries: list[Callable[[], object]] = [
        lambda: os.open(f"{path}/new", os.O_CREAT | os.O_WRONLY),
        lambda: os.mkdir(f"{path}/new"),
        lambda: os.open(path, os.O_WRONLY),
        lambda: os.chmod(path, 0o777),
        lambda: os.utime(path),
        lambda: os.unlink(path),
        lambda: os.rmdir(path),
        lambda: os.rename(path, "moved"),
        lambda: os.rename(first, "moved"),
        lambda: os.rename("other", path),
        lambda: os.rename("other", first),
        lambda: os.symlink("other", path),
        lambda: os.makedirs(path),
        lambda: os.link(path, "linked"),
    ]
    return any(works(attempt) for attempt in tries) or libc.umount2(path.encode(), 2) == 0


def changes_mode() -> bool:
    mode = os.stat("/usr/bin/env").st_mode
    return works(lambda: os.chmod("/usr/bin/env", stat.S_IMODE(mode)))


def makes_device() -> bool:
    return works(lambda: os.mknod("device", stat.S_IFBLK | 0o600, os.makedev(8, 0)))


def lends_rights() -> bool:
    """Whether a program can be made that runs with its owner's rights."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    plain = os.open("plain", os.O_CREAT | os.O_WRONLY, 0o755)
    tries: list[Callable[[], object]] = [
        *(partial(os.chmod, "plain", mode) for mode in (0o4755, 0o2755)),
        lambda: os.fchmod(plain, 0o4755),
        lambda: os.open("lent", flags, 0o4755),
        lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755),
        lambda: os.mknod("made", stat.S_IFREG | 0o4755),
    ]
    lent = any(works(attempt) for attempt in tries)
    os.close(plain)
    return lent


def leases() -> bool:
    """Whether a file can be leased, so that opening it blocks."""
    fd = os.open("plain", os.O_RDONLY | os.O_CREAT, 0o600)
    try:
        return works(lambda: fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK))
    finally:
        os.close(fd)


def is_disk(path: str) -> bool:
    return stat.S_ISBLK(os.lstat(path).st_mode)


def shares(kind: str, name: str) -> bool:
    return os.readlink(f"/proc/self/ns/{kind}") == name


def reaches(family: int, kind: int, address: Any) -> bool:
    with socket.socket(family, kind) as wire:
        wire.settimeout(2)
        wire.connect(address if isinstance(address, str) else tuple(address))
        wire.send(b"x")  # sending a datagram shows nothing; the host checks whether it arrives
        return kind == socket.SOCK_STREAM


def types() -> bool:
    """Whether a character can be put into a terminal's input."""
    return any(
        works(partial(types_into, place)) for place in ("/dev/stdin", "/dev/stdout", "/dev/tty", "/dev/console")
    )


def types_into(path: str) -> None:
    fcntl.ioctl(os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK), termios.TIOCSTI, b"!")


def nests() -> bool:
    number = CLONE.get(os.uname().machine)
    pid = -1 if number is None else libc.syscall(number, NEW_USER_NAMESPACE | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    return bool(pid > 0)


def processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def descriptors() -> set[int]:
    listed = [int(name) for name in os.listdir("/proc/self/fd")]
    return {fd for fd in listed if os.path.lexists(f"/proc/self/fd/{fd}")}


def variables() -> set[str]:
    with open("/proc/self/environ", encoding="utf-8") as file:
        return {entry.partition("=")[0] for entry in file.read().split("\0") if entry}


def status(beginning: str) -> list[str]:
    with open("/proc/self/status", encoding="utf-8") as file:
        return [line for line in file if line.startswith(beginning)]


def leave_a_daemon(path: str) -> None:
    """Start a process that leaves its session, group and parent, and keeps a pipe open while it lives."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.open(path, os.O_WRONLY)
            os.write(writing, b"x")
            for fd in (0, 1, 2):
                os.close(fd)
            signal.pause()
        os._exit(0)
    os.read(reading, 1)


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
    sys.stdout.write(json.dumps({"tried": tried, "managed": managed}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
