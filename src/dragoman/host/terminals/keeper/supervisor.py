"""Runs one command: adopts the processes it leaves behind, and ends all when told, or when the owner has ended."""

import array
import contextlib
import json
import os
import select
import signal
import socket
import time
from typing import Any, NoReturn

from .commands import start
from .control_groups import ControlGroup, kill_group, new_group
from .processes import (
    LINUX,
    PATIENCE,
    adopt_orphans,
    descendants,
    group_exists,
    kill_children,
    send_to,
    send_to_group,
)
from .protected_paths import ProtectedPaths

AT_ONCE = 250  # descriptors sent with one byte; the kernel allows 253
MORE = b"+"


class ChildSignals:
    """Signals through a descriptor that a child may have ended, or was stopped."""

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


def polling(*fds: int | None) -> select.poll:
    poll = select.poll()
    for fd in fds:
        if fd is not None:
            poll.register(fd, select.POLLIN)
    return poll


def receive(wire: socket.socket, fds: list[int]) -> bytes:
    """One byte and the descriptors that came with it; empty at the end."""
    came = array.array("i")
    space = socket.CMSG_SPACE(AT_ONCE * came.itemsize)
    data, ancillary, _, _ = wire.recvmsg(1, space, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            came.frombytes(content[: len(content) - len(content) % came.itemsize])
    for fd in came:
        os.set_inheritable(fd, False)
    fds += came
    return data


def run_supervisor(go: int, fds: list[int], owner: int | None, above: str | None) -> NoReturn:
    status = 1
    try:
        # wait until the keeper has closed its copies, so that the command's streams end with the command
        os.read(go, 1)
        os.close(go)
        Supervisor(socket.socket(fileno=fds[0]), owner).run(above)
        status = 0
    finally:
        os._exit(status)


class Supervisor:
    def __init__(self, link: socket.socket, owner: int | None) -> None:
        self._link, self._owner = link, owner
        self._fds: list[int] = []
        self._child_signals = ChildSignals()
        self._command = 0  # while it runs
        self._group = 0
        self._control_group: ControlGroup | None = None
        self._skipped = 0  # levels of the tree that belong to the wrapper around the command
        self._protected: ProtectedPaths | None = None

    def run(self, above: str | None) -> None:
        """Run one command, if possible in a control group below another one."""
        spec, told = self._read_spec()
        if spec is None:
            return
        adopt_orphans()
        self._skipped = spec["wrappers"]
        if group := new_group(above, spec["mark"]):
            self._control_group = group
            self._tell(group=group.path)  # before there is a command that could kill us
        try:
            if roots := spec["protected"]:
                self._protected = ProtectedPaths(self._fds[-len(roots) :], roots)
            self._command, problem = start(spec, self._fds, self._control_group)
        except OSError as exc:
            problem = f"the protected paths cannot be watched: {exc.strerror}"
        self._group = self._command
        for fd in self._fds:
            os.close(fd)
        if problem:
            self._leave_group()
            self._tell(failed=problem)
        else:
            self._tell(pid=self._command, supervisor=os.getpid())
            is_over = self._watch(told)
            if not is_over:
                self._end()
            if self._protected and (set_aside := self._protected.settle()):
                self._tell(set_aside=set_aside)
            self._leave_group()
            if is_over:
                self._tell(left=[])

    def _leave_group(self) -> None:
        if self._control_group:
            self._control_group.close()
            self._control_group = None

    def _read_spec(self) -> tuple[dict[str, Any] | None, bytes]:
        """The command to run, and the bytes after it; None when the owner has ended or withdrew it."""
        heard = b""
        while b"\n" not in heard:
            if heard:
                piece = self._link.recv(1 << 16)
            elif (piece := receive(self._link, self._fds)) == MORE:
                continue
            if not piece:
                return None, b""
            heard += piece
        line, _, told = heard.partition(b"\n")
        with contextlib.suppress(BlockingIOError):  # it may have waited here for a long time
            more = self._link.recv(256, socket.MSG_DONTWAIT)
            told += more or b"\0"
        return (None, b"") if 0 in told else (json.loads(line), told)

    def _watch(self, told: bytes) -> bool:
        """Obey the host until no process is left; False when the owner has ended before that."""
        protected = self._protected.fd if self._protected else None
        waiting = polling(self._link.fileno(), self._child_signals.fd, self._owner, protected)
        self._obey(told)
        while self._reap():
            ready = [fd for fd, _ in waiting.poll()]
            self._child_signals.hear()
            if self._owner in ready:
                return False
            if self._protected and protected in ready and self._protected.has_changed():
                self._end()
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
        """Note the processes that have ended; False when none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not LINUX and group_exists(self._group)  # orphans are not adopted there
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
        """Kill all processes, including those that fork meanwhile; report those that remain."""
        deadline = time.monotonic() + PATIENCE
        while self._reap():
            if self._command or not LINUX:
                send_to_group(self._group, signal.SIGKILL)
            if self._control_group:
                kill_group(self._control_group.path)
            kill_children()
            found = descendants()
            send_to(found, signal.SIGKILL)
            if time.monotonic() > deadline:
                self._tell(left=[pid for pid, _, _ in found])
                return
            self._child_signals.wait(0.05)

    def _tell(self, **news: object) -> None:
        with contextlib.suppress(OSError):  # the owner has ended, which `_watch` notices by itself
            self._link.sendall(json.dumps(news).encode() + b"\n")
