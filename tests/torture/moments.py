"""A process that changes files and is killed, or disturbed by the user, at a chosen moment.

A moment is a call that changes something on the disk: the work runs in a forked child, in which these calls are
counted.  So every moment can be had, and the same one again.
"""

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dragoman.host.files import linux

NEVER = 10**9
WAYS = ("exchange", "link", "claim")  # what a file system has: rename flags, hard links, neither

_CHANGING = [
    *((os, name) for name in ("write", "fsync", "mkdir", "rmdir", "rename", "link", "unlink")),
    *((linux, name) for name in ("exchange", "rename_new")),
]


@contextmanager
def moments(act: Callable[[int], None]) -> Iterator[None]:
    """Have `act` called before each call that changes something on the disk, with its number, counted from 1."""
    count = 0

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            act(count)
            return function(*arguments, **options)

        return call

    before = [(module, name, getattr(module, name)) for module, name in _CHANGING]
    supporting = set(os.supports_dir_fd)
    for module, name, function in before:
        counted = counting(function)
        setattr(module, name, counted)
        if function in supporting:
            os.supports_dir_fd.add(counted)
    try:
        yield
    finally:
        os.supports_dir_fd.intersection_update(supporting)
        for module, name, function in before:
            setattr(module, name, function)


def lacking(way: str) -> None:
    """Have the calls fail that this way does not have, from here on in this process."""

    def unsupported(*_: object, **__: object) -> None:
        raise OSError(22, "Invalid argument")

    if way != "exchange":
        linux.exchange = linux.rename_new = unsupported
    if way == "claim":
        os.link = unsupported


def in_child(work: Callable[[], int]) -> int:
    """What work gives that is done by a child of its own; minus the signal that has killed it."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = work()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
