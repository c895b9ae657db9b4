"""Turns a process into a command: its descriptors, session, limits, mark and program."""

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import signal
import stat
import struct
import termios
from typing import Any

from .control_groups import ControlGroup
from .processes import LINUX, libc, wear

MOST_DESCRIPTORS = 900  # handed to one command
SET_PARENT_DEATH_SIGNAL = 1
STAGE = "/tmp"  # covered, for the command alone, by what it is to see of places its user cannot reach


def start(order: dict[str, Any], fds: list[int], group: ControlGroup | None) -> tuple[int, str]:
    """Fork and execute; gives the process id, and what went wrong if something did."""
    heard, low = os.pipe()
    said = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, len(fds))  # out of the command's way
    os.close(low)
    parent = os.getpid()
    pid = fork_or_none()
    if pid is None:
        return 0, "there are too many processes"
    if pid == 0:
        try:
            if group:
                group.enter()
            become(order, fds, said, parent)
        except OSError as exc:
            os.write(said, f"{exc.strerror or exc}".encode()[:1000])
        except BaseException as exc:
            os.write(said, f"{type(exc).__name__}: {exc}".encode()[:1000])
        finally:
            os._exit(127)
    os.close(said)
    problem = os.read(heard, 1000)  # ends when the command's own program runs
    os.close(heard)
    return pid, problem.decode(errors="replace")


def become(order: dict[str, Any], fds: list[int], said: int, parent: int) -> None:
    """Turn this process into the command."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):  # one the C library keeps for itself
            signal.signal(number, signal.SIG_DFL)
    os.setsid()
    if order["tty"]:
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    if LINUX:
        libc.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    directory, kept, staged = fds[3], fds[4 : 4 + order["kept"]], fds[4 + order["kept"] :]
    os.fchdir(directory)
    if order["staged"]:
        stage(staged[: order["staged"]])
    place([*fds[:3], *kept], said)
    argv, env = order["argv"], dict(order["env"])
    for name, most in order["limits"].items():
        resource.setrlimit(*limit(name, most))
    wear(order["mark"])
    os.execvpe(argv[0], argv, env)


def place(fds: list[int], said: int) -> None:
    """Give descriptors the numbers from 0 up, and close all others but the one that closes by itself."""
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, len(fds)) for fd in fds]  # none is overwritten below
    for number, fd in enumerate(moved):
        os.dup2(fd, number, inheritable=True)
    os.closerange(len(fds), said)
    os.closerange(said + 1, max(said, *moved) + 1)


def limit(name: str, most: int) -> tuple[int, tuple[int, int]]:
    """A limit of a resource as the kernel takes it: which, and both its values."""
    kind: int = getattr(resource, f"RLIMIT_{name}")
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # A second between the two: the first is a signal that says what happened.
    return kind, (most, most + 1 if name == "CPU" and hard == resource.RLIM_INFINITY else most)


def stage(fds: list[int]) -> None:
    """Show directories and files as STAGE/0, STAGE/1, ...: to this process alone, by descriptor, not by name.

    For root only, before it becomes a user who may not be able to walk to where they are.  All else becomes
    read-only to it: bubblewrap makes what it is to mount on, and follows links that somebody else in the workspace
    puts there meanwhile, out of the workspace too.
    """
    clone, recursive, of_fd, from_fd, here = 1, 0x8000, 0x1000, 4, -100
    open_tree, move_mount, new_namespace, private = 428, 429, 0x20000, 0x4000 | 1 << 18
    trees = [checked(libc.syscall(open_tree, fd, b"", clone | recursive | of_fd | os.O_CLOEXEC)) for fd in fds]
    checked(libc.unshare(new_namespace))
    checked(libc.mount(None, b"/", None, private, None))
    seal(recursive)
    checked(libc.mount(b"tmpfs", STAGE.encode(), b"tmpfs", 0, b"mode=755"))
    for number, (fd, tree) in enumerate(zip(fds, trees, strict=True)):
        path = f"{STAGE}/{number}"
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        checked(libc.syscall(move_mount, tree, b"", here, path.encode(), from_fd))


def seal(recursive: int) -> None:
    """Have all mounts be read-only but /proc, where bubblewrap says who is who inside; from Linux 5.12 on."""
    mount_setattr, here, read_only = 442, -100, 1
    for path, flags, on, off in ((b"/", recursive, read_only, 0), (b"/proc", 0, 0, read_only)):
        wanted = struct.pack("=QQQQ", on, off, 0, 0)
        result = libc.syscall(mount_setattr, here, path, flags, wanted, ctypes.c_size_t(len(wanted)))
        if result < 0 and ctypes.get_errno() == errno.ENOSYS:
            return
        checked(result)


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def fork_or_none() -> int | None:
    try:
        return os.fork()
    except OSError:
        return None
