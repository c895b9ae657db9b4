"""The keeper: forks a supervisor for every command, and ends the processes that a supervisor leaves behind."""

import os
import signal
import socket
import sys
import time

from .commands import fork_or_none
from .control_groups import end_left_over, own_group
from .processes import PATIENCE, adopt_orphans, descendants, kill_children, reaped, send_to, take_off_mark
from .supervisor import ChildSignals, polling, receive, run_supervisor

AGAIN = 0.1  # seconds until processes that should have ended are killed again


class KeeperProgram:
    def __init__(self, control: socket.socket, owner: int | None) -> None:
        self._control, self._owner = control, owner
        self._child_signals = ChildSignals()
        self._supervisors: set[int] = set()
        self._group = own_group()

    def keep(self) -> None:
        """Run commands until the owner has ended and no process is left."""
        adopt_orphans()
        take_off_mark()
        end_left_over(self._group)
        waiting, has_orphans = polling(self._control.fileno(), self._child_signals.fd, self._owner), False
        while True:
            ready = [fd for fd, _ in waiting.poll(AGAIN * 1000 if has_orphans else None)]
            self._child_signals.hear()
            has_orphans = self._reap()
            if self._owner in ready:
                break
            if self._control.fileno() in ready:
                fds = list[int]()
                if not receive(self._control, fds):
                    break
                self._supervise(fds)
        self._control.close()
        self._end()

    def _supervise(self, fds: list[int]) -> None:
        go, going = os.pipe()
        if (pid := fork_or_none()) == 0:
            self._control.close()
            os.close(going)
            run_supervisor(go, fds, self._owner, self._group)
        for fd in (*fds, go, going):
            os.close(fd)
        if pid is not None:
            self._supervisors.add(pid)

    def _reap(self) -> bool:
        """Reap supervisors and continue stopped ones; kill the processes that a killed one has left to us.

        Returns whether any of those are left.
        """
        while (changed := reaped(os.WNOHANG | os.WUNTRACED)) is not None:
            pid, status = changed
            if not os.WIFSTOPPED(status):
                self._supervisors.discard(pid)
            elif pid in self._supervisors:  # by its command, since no one else has a reason
                os.kill(pid, signal.SIGCONT)
        has_orphans = kill_children(leaving_out=self._supervisors)
        if has_orphans:
            send_to(descendants(leaving_out=self._supervisors), signal.SIGKILL)
        return has_orphans

    def _end(self) -> None:
        """Wait until every supervisor has ended its processes; kill those that do not."""
        for pid in self._supervisors:
            os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + PATIENCE + 1
        while (self._reap() or self._supervisors) and time.monotonic() < deadline + 1:
            if time.monotonic() > deadline:
                for pid in self._supervisors:
                    os.kill(pid, signal.SIGKILL)
            self._child_signals.wait(AGAIN)


def main() -> None:
    control, owner = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    if os.getppid() != owner:
        return
    KeeperProgram(control, os.pidfd_open(owner) if hasattr(os, "pidfd_open") else None).keep()
