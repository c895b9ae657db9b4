"""Turn a process into a command: its descriptors, session, limits, mark and program."""

import contextlib
import fcntl
import os
import resource
import signal
import termios
from typing import Any

from .control_groups import ControlGroup
from .mounts import Unsealable, seal_around, stage
from .processes import LINUX, carry_mark, libc

MOST_DESCRIPTORS = 900  # descriptors given to one command
SET_PARENT_DEATH_SIGNAL = 1


UNSEALED = b"\0"  # reported by a process that could not make all else read-only


def start(spec: dict[str, Any], fds: list[int], group: ControlGroup | None) -> tuple[int, str]:
    """Fork and execute; returns the process id, and the error, if any.

    Where only bubblewrap may make namespaces, nothing is made read-only before bubblewrap makes its sandbox.
    """
    pid, problem = _start(spec, fds, group)
    if problem == UNSEALED:
        os.waitpid(pid, 0)
        pid, problem = _start({**spec, "writable": []}, fds, group)
    return pid, problem.decode(errors="replace")


def _start(spec: dict[str, Any], fds: list[int], group: ControlGroup | None) -> tuple[int, bytes]:
    heard, low = os.pipe()
    said = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, len(fds))  # a number that the command does not use
    os.close(low)
    parent = os.getpid()
    pid = fork_or_none()
    if pid is None:
        return 0, b"there are too many processes"
    if pid == 0:
        try:
            if group:
                group.enter()
            become(spec, fds, said, parent)
        except Unsealable:
            os.write(said, UNSEALED)
        except OSError as exc:
            os.write(said, f"{exc.strerror or exc}".encode()[:1000])
        except BaseException as exc:
            os.write(said, f"{type(exc).__name__}: {exc}".encode()[:1000])
        finally:
            os._exit(127)
    os.close(said)
    problem = os.read(heard, 1000)  # closed when the command's own program runs
    os.close(heard)
    return pid, problem


def become(spec: dict[str, Any], fds: list[int], said: int, parent: int) -> None:
    """Turn this process into the command."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):  # a signal that the C library reserves
            signal.signal(number, signal.SIG_DFL)
    os.setsid()
    if spec["tty"]:
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    if LINUX:
        libc.prctl(SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    directory, kept, staged = fds[3], fds[4 : 4 + spec["kept"]], fds[4 + spec["kept"] :]
    os.fchdir(directory)
    if spec["staged"]:
        stage(staged[: spec["staged"]])
    if spec["writable"]:
        seal_around([kept[number] for number in spec["writable"]])
    place([*fds[:3], *kept], said)
    argv, env = spec["argv"], dict(spec["env"])
    for name, most in spec["limits"].items():
        resource.setrlimit(*limit(name, most))
    carry_mark(spec["mark"])
    os.execvpe(argv[0], argv, env)


def place(fds: list[int], said: int) -> None:
    """Give descriptors the numbers from 0 up, and close all others except the one that closes on exec."""
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, len(fds)) for fd in fds]  # so that none is overwritten below
    for number, fd in enumerate(moved):
        os.dup2(fd, number, inheritable=True)
    os.closerange(len(fds), said)
    os.closerange(said + 1, max(said, *moved) + 1)


def limit(name: str, most: int) -> tuple[int, tuple[int, int]]:
    """A resource limit as the kernel takes it: the resource and both values."""
    kind: int = getattr(resource, f"RLIMIT_{name}")
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # The hard limit is a second later: the soft one sends a signal that tells the cause.
    return kind, (most, most + 1 if name == "CPU" and hard == resource.RLIM_INFINITY else most)


def fork_or_none() -> int | None:
    try:
        return os.fork()
    except OSError:
        return None
