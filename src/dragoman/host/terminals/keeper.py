"""A program of its own, started by `children.py`: runs commands, and none of what they start outlives its owner.

    keeper              one a host; ends what is left when a supervisor was killed
    └─ supervisor       one a command; adopts whatever the command leaves behind, daemons included
       └─ command

Why a program of its own: only a parent learns how a child ended, only a parent that adopts orphans finds a daemon
that left its process group, only a process that outlives the host can clean up after `kill -9` of it, and a small
process without threads can fork safely and fast.  It therefore imports the standard library and nothing else.

To the keeper goes one byte with descriptors for each command: the supervisor's link, the command's stdin, stdout,
stderr and directory, and what else the order counts.  Over the link go the order, as a line of JSON, and then
single bytes: a signal's number, or 0 to end everything.  Back come lines of JSON: `pid` or `failed`, then `exit`,
and `left` for what cannot be ended.  The link closes when all is over.  Owner gone, link closed: all are killed.
"""

import array
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import sys
import termios
import time
from collections.abc import Collection
from typing import Any, NoReturn

LINUX = sys.platform == "linux"
PATIENCE = 5.0  # seconds for killed processes to be gone
MOST_DESCRIPTORS = 200  # handed to one command
SET_PARENT_DEATH_SIGNAL, SET_CHILD_SUBREAPER = 1, 36
STAGE = "/tmp"  # covered, for the command alone, by what it is to see of places its user cannot reach

libc = ctypes.CDLL(None, use_errno=True)


class Woken:
    """Says through a descriptor that a child may have ended."""

    def __init__(self) -> None:
        self.fd, self._end = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)

    def hear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 4096)

    def wait(self, seconds: float) -> None:
        select.select([self.fd], [], [], seconds)
        self.hear()


def keep(control: socket.socket, owner: int | None) -> None:
    """Fork a supervisor for every command that is asked for; return when the owner is gone and nothing is left."""
    adopt_orphans()
    woken, supervisors = Woken(), set[int]()
    waiting = polling(control.fileno(), woken.fd, owner)
    while True:
        ready = [fd for fd, _ in waiting.poll()]
        if woken.fd in ready:
            woken.hear()
            bury(supervisors, woken)
        if owner in ready:
            break
        if control.fileno() in ready:
            fds = receive(control)
            if fds is None:
                break
            go, going = os.pipe()
            if (pid := fork_or_none()) == 0:
                control.close()
                os.close(going)
                run_supervisor(go, fds, owner)
            for fd in (*fds, go, going):
                os.close(fd)
            if pid is not None:
                supervisors.add(pid)
    control.close()
    while supervisors:  # each has noticed by itself
        woken.wait(PATIENCE)
        bury(supervisors, woken)


def bury(supervisors: set[int], woken: Woken) -> None:
    """Reap supervisors; what one that was killed has left behind is ours now, and is killed."""
    orphaned = False
    while (ended := reaped()) is not None:
        orphaned |= ended[0] in supervisors and ended[1] != 0
        supervisors.discard(ended[0])
    deadline = time.monotonic() + PATIENCE
    while orphaned and time.monotonic() < deadline:
        found = descendants(leaving_out=supervisors)
        send_to(found, signal.SIGKILL)
        while (ended := reaped()) is not None:
            supervisors.discard(ended[0])
        orphaned = bool(found)
        if orphaned:
            woken.wait(0.05)


def run_supervisor(go: int, fds: list[int], owner: int | None) -> NoReturn:
    status = 1
    try:
        os.read(go, 1)  # until the keeper has closed its copies: the command's streams end with the command
        os.close(go)
        Supervisor(socket.socket(fileno=fds[0]), fds[1:], owner).run()
        status = 0
    finally:
        os._exit(status)


class Supervisor:
    def __init__(self, link: socket.socket, fds: list[int], owner: int | None) -> None:
        self._link, self._fds, self._owner = link, fds, owner
        self._woken = Woken()
        self._command = 0  # while it runs
        self._group = 0
        self._skipped = 0  # levels of the tree that are not the command but what it was wrapped in
        self._placeholders: list[tuple[int, str]] = []  # where each is, and its name

    def run(self) -> None:
        order, told = self._order()
        if order is None:
            return
        adopt_orphans()
        self._skipped = order["wrappers"]
        names = order["placeholders"]
        parents = self._fds[len(self._fds) - len(names) :]
        self._placeholders = [(os.dup(parent), name) for parent, name in zip(parents, names, strict=True)]
        self._command, problem = start(order, self._fds)
        self._group = self._command
        for fd in self._fds:
            os.close(fd)
        if problem:
            self._tell(failed=problem)
        else:
            self._tell(pid=self._command)
            if not self._watch(told):
                self._end()
                self._remove_placeholders()

    def _order(self) -> tuple[dict[str, Any] | None, bytes]:
        """The order, and what was told after it; None when the owner is gone."""
        heard = b""
        while b"\n" not in heard:
            piece = self._link.recv(1 << 16)
            if not piece:
                return None, b""
            heard += piece
        line, _, told = heard.partition(b"\n")
        return json.loads(line), told

    def _watch(self, told: bytes) -> bool:
        """Do as told until nothing is left; False when the owner is gone before that."""
        waiting = polling(self._link.fileno(), self._woken.fd, self._owner)
        self._obey(told)
        while self._reap():
            ready = [fd for fd, _ in waiting.poll()]
            self._woken.hear()
            if self._owner in ready:
                return False
            if self._link.fileno() in ready:
                try:
                    told = self._link.recv(256)
                except OSError:
                    return False
                if not told:
                    return False
                self._obey(told)
        return True

    def _obey(self, told: bytes) -> None:
        for number in told:
            if number:
                self._signal(number)
            else:
                self._end()

    def _reap(self) -> bool:
        """Take note of who has ended; False when nobody is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not LINUX and group_exists(self._group)  # nobody adopts there
            if pid == 0:
                return True
            if pid == self._command:
                self._command = 0
                self._tell(exit=os.waitstatus_to_exitcode(status))

    def _signal(self, number: int) -> None:
        if LINUX:
            found = descendants()
            send_to([entry for entry in found if entry[2] >= self._skipped] or found, number)
        else:
            send_to_group(self._group, number)

    def _end(self) -> None:
        """Kill everything, also what forks meanwhile; tell what could not be."""
        deadline = time.monotonic() + PATIENCE
        while self._reap():
            if self._command or not LINUX:
                send_to_group(self._group, signal.SIGKILL)
            found = descendants()
            send_to(found, signal.SIGKILL)
            if time.monotonic() > deadline:
                self._tell(left=[pid for pid, _, _ in found])
                return
            self._woken.wait(0.05)

    def _remove_placeholders(self) -> None:
        """Remove what a dead owner cannot; only empty directories can be, so nothing is lost."""
        if self._placeholders and self._owner is not None and select.select([self._owner], [], [], 1)[0]:
            for parent, name in self._placeholders:
                with contextlib.suppress(OSError):  # something is in it, or another host uses it
                    lock = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.rmdir(name, dir_fd=parent)

    def _tell(self, **news: Any) -> None:
        with contextlib.suppress(OSError):  # the owner is gone, which `_watch` sees by itself
            self._link.sendall(json.dumps(news).encode() + b"\n")


# Starting a command


def start(order: dict[str, Any], fds: list[int]) -> tuple[int, str]:
    """Fork and execute; gives the process id, and what went wrong if something did."""
    heard, low = os.pipe()
    said = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, MOST_DESCRIPTORS)  # out of the command's way
    os.close(low)
    parent = os.getpid()
    pid = fork_or_none()
    if pid is None:
        return 0, "there are too many processes"
    if pid == 0:
        try:
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
        limit(name, most)
    os.execvpe(argv[0], argv, env)


def place(fds: list[int], said: int) -> None:
    """Give descriptors the numbers from 0 up, and close all others but the one that closes by itself."""
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, len(fds)) for fd in fds]  # none is overwritten below
    for number, fd in enumerate(moved):
        os.dup2(fd, number, inheritable=True)
    os.closerange(len(fds), said)
    os.closerange(said + 1, max(said, *moved) + 1)


def limit(name: str, most: int) -> None:
    kind = getattr(resource, f"RLIMIT_{name}")
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # A second between the two: the first is a signal that says what happened.
    resource.setrlimit(kind, (most, most + 1 if name == "CPU" and hard == resource.RLIM_INFINITY else most))


def stage(fds: list[int]) -> None:
    """Show directories and files as STAGE/0, STAGE/1, ...: to this process alone, by descriptor, not by name.

    For root only, before it becomes a user who may not be able to walk to where they are.
    """
    clone, recursive, of_fd, from_fd, here = 1, 0x8000, 0x1000, 4, -100
    open_tree, move_mount, new_namespace, private = 428, 429, 0x20000, 0x4000 | 1 << 18
    trees = [checked(libc.syscall(open_tree, fd, b"", clone | recursive | of_fd | os.O_CLOEXEC)) for fd in fds]
    checked(libc.unshare(new_namespace))
    checked(libc.mount(None, b"/", None, private, None))
    checked(libc.mount(b"tmpfs", STAGE.encode(), b"tmpfs", 0, b"mode=755"))
    for number, (fd, tree) in enumerate(zip(fds, trees, strict=True)):
        path = f"{STAGE}/{number}"
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        checked(libc.syscall(move_mount, tree, b"", here, path.encode(), from_fd))


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


# Who is there, and telling them


def adopt_orphans() -> None:
    if LINUX:
        libc.prctl(SET_CHILD_SUBREAPER, 1)


def reaped() -> tuple[int, int] | None:
    """A child that has ended and how; None when there is none now."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def parent_of(pid: int) -> int | None:
    """A living process's parent."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state == b"Z" else int(parent)


def descendants(leaving_out: Collection[int] = ()) -> list[tuple[int, int, int]]:
    """Each living process below this one with its parent and how deep it is, those below `leaving_out` excepted."""
    if not LINUX:
        return []
    below: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := parent_of(int(name))) is not None:
            below.setdefault(parent, []).append(int(name))
    found, level, depth = list[tuple[int, int, int]](), [os.getpid()], 0
    while level:
        children = [(pid, parent) for parent in level for pid in below.get(parent, ()) if pid not in leaving_out]
        found += [(pid, parent, depth) for pid, parent in children]
        level, depth = [pid for pid, _ in children], depth + 1
    return found


def send_to(found: list[tuple[int, int, int]], number: int) -> None:
    """Signal these processes, and no other that has got one's number since."""
    for pid, parent, _ in found:
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        with contextlib.suppress(OSError):  # gone, or another user's: told as left
            if parent_of(pid) == parent:
                signal.pidfd_send_signal(handle, number)
        os.close(handle)


def send_to_group(leader: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(leader, number)


def group_exists(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except OSError:
        return False
    return True


def fork_or_none() -> int | None:
    try:
        return os.fork()
    except OSError:
        return None


def polling(*fds: int | None) -> select.poll:
    poll = select.poll()
    for fd in fds:
        if fd is not None:
            poll.register(fd, select.POLLIN)
    return poll


def receive(control: socket.socket) -> list[int] | None:
    """The descriptors that came with one byte; None at the end."""
    fds = array.array("i")
    space = socket.CMSG_SPACE(253 * fds.itemsize)
    data, ancillary, _, _ = control.recvmsg(1, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    return list(fds) if data else None


def main() -> None:
    control, owner = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    if os.getppid() != owner:
        return
    keep(control, os.pidfd_open(owner) if hasattr(os, "pidfd_open") else None)


if __name__ == "__main__":
    main()
