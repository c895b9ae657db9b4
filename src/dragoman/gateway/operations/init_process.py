"""The first process of a container: it reaps orphaned processes, while its child is the gateway.

A process that an agent leaves behind becomes a child of process 1.  Nobody else waits for it, so it would stay as a
zombie.
"""

import os
import signal

PASSED_ON = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


def become_init() -> None:
    """As process 1, wait for orphans and continue in a child; any other process just continues."""
    if os.getpid() != 1:
        return
    numbers = {number for name in PASSED_ON if (number := getattr(signal, name, None)) is not None}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # so that no signal is lost before the child handles it
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # it gets a terminal's Ctrl-C once, from its parent
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        return
    for number in numbers:
        signal.signal(number, lambda got, _: os.kill(child, got))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    os._exit(_exit_code_of(child))


def _exit_code_of(child: int) -> int:
    """Reap every process that ends, until the child ends."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
