"""Find processes, tell which command they belong to, and signal them and no others.

A mark identifies the processes of a command wherever they are in the tree.  It is the hard limit of a resource that
Linux has not counted for decades (file locks).  Children inherit it, other processes can read it, and only root can
raise it again.
"""

import contextlib
import ctypes
import os
import re
import resource
import secrets
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator

LINUX = sys.platform == "linux"
PATIENCE = 5.0  # seconds for killed processes to end
PAUSE = 0.02  # seconds between two searches for processes
SET_CHILD_SUBREAPER = 36
FILE_LOCKS = 10  # the limit that serves as a mark
FREE = 1 << 62  # the highest mark, where there is no limit yet
LEAST = 1 << 20  # the lowest mark; below it, two marks might be equal

libc = ctypes.CDLL(None, use_errno=True)
_LISTS_CHILDREN = os.path.exists("/proc/thread-self/children")  # not every kernel has it
_LOCKS = re.compile(rb"^Max file locks +\S+ +(\d+)", re.MULTILINE)


def adopt_orphans() -> None:
    if LINUX:
        libc.prctl(SET_CHILD_SUBREAPER, 1)


def reaped(options: int = os.WNOHANG) -> tuple[int, int] | None:
    """A child whose state has changed, and its status; None if there is none now."""
    try:
        pid, status = os.waitpid(-1, options)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


# The tree


def own_children() -> list[int]:
    """The children of this process, including ended ones; only found where orphans are adopted."""
    return _children_of(os.getpid()) if LINUX else []


def kill_children(leaving_out: Collection[int] = ()) -> bool:
    """Kill the children of this process; returns whether there are any.

    It is fast enough to catch a process that forks and exits endlessly.
    """
    killed = [pid for pid in own_children() if pid not in leaving_out]
    for pid in killed:  # its number is not reused before we have waited for it
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return bool(killed)


def descendants(leaving_out: Collection[int] = ()) -> list[tuple[int, int, int]]:
    """Each living process below this one, with its parent and depth, except those below `leaving_out`."""
    found, level, depth = list[tuple[int, int, int]](), [os.getpid()], 0
    while LINUX and level:
        children = [(pid, parent) for parent in level for pid in _children_of(parent) if pid not in leaving_out]
        found += [(pid, parent, depth) for pid, parent in children if parent_of(pid) is not None]
        level, depth = [pid for pid, _ in children], depth + 1
    return found


def _children_of(pid: int) -> list[int]:
    if not _LISTS_CHILDREN:
        return [child for child in _all() if parent_of(child) == pid]
    found = list[int]()
    with contextlib.suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def parent_of(pid: int) -> int | None:
    """The parent of a living process."""
    found = _state_of(pid)
    return None if found is None else found[0]


def _state_of(pid: int) -> tuple[int, int] | None:
    """The parent and session of a living process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return None if state == b"Z" else (int(parent), int(session))


# Signals


def send_to(found: Iterable[tuple[int, int, int]], number: int) -> None:
    """Signal these processes, and none that has got one of their numbers since."""
    for pid, parent, _ in found:
        with _held(pid) as handle:
            if handle is not None and parent_of(pid) == parent:
                signal.pidfd_send_signal(handle, number)


def send_within(session: int, pid: int, number: int) -> None:
    """Signal a process of a session, unless its number belongs to another process by now."""
    if not hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            os.kill(pid, number)
        return
    with _held(pid) as handle:
        if handle is not None and (_state_of(pid) or (0, 0))[1] == session:
            signal.pidfd_send_signal(handle, number)


@contextlib.contextmanager
def _held(pid: int) -> Iterator[int | None]:
    """Hold a process by a pidfd; failing to signal it is not an error: it has ended, or is another user's."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    with contextlib.suppress(OSError):
        yield handle
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


# Marks


def new_mark() -> int:
    """A mark that no other command has; 0 where marks are not available."""
    if not LINUX:
        return 0
    hard = resource.getrlimit(FILE_LOCKS)[1]
    room = FREE if hard == resource.RLIM_INFINITY else hard  # a command may itself be a host
    return 0 if room < LEAST else room // 2 + secrets.randbelow(room // 4)


def carry_mark(mark: int) -> None:
    """Give a mark to this process, and so to all that it will start."""
    if mark and LINUX:
        with contextlib.suppress(OSError, ValueError):  # then it can be found only by its place in the tree
            resource.setrlimit(FILE_LOCKS, (mark, mark))


def take_off_mark() -> None:
    """Replace the owner's mark, since a keeper ends by itself, in order, after its owner."""
    if LINUX and (hard := resource.getrlimit(FILE_LOCKS)[1]) != resource.RLIM_INFINITY:
        carry_mark(_keepers_mark(hard))


def _keepers_mark(mark: int) -> int:
    """The mark of keepers below a mark; it is above the marks of all commands, which can only be lowered."""
    return mark - 1 if mark else 0


def end_with_keepers(mark: int) -> list[int]:
    """Kill all processes that have a mark, and wait until keepers below have ended their commands.

    Returns the remaining processes.  Blocks, so call it in a thread.
    """
    left, deadline = end_marked(mark), time.monotonic() + PATIENCE
    while (keepers := _marked(_keepers_mark(mark))) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return [*left, *keepers]


def end_marked(mark: int, patience: float = PATIENCE) -> list[int]:
    """Kill all processes that have a mark; returns those that remain.  Blocks, so call it in a thread."""
    deadline, found = time.monotonic() + patience, _marked(mark)
    while found and time.monotonic() < deadline:
        for pid in found:
            with _held(pid) as handle:
                if handle is not None and _mark_of(pid) == mark:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
        time.sleep(PAUSE)
        found = _marked(mark)
    return found


def _marked(mark: int) -> list[int]:
    if not mark:
        return []
    others = [pid for pid in _all() if pid != os.getpid()]
    return [pid for pid in others if _mark_of(pid) == mark and parent_of(pid) is not None]


def _mark_of(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/limits", "rb") as file:
            found = _LOCKS.search(file.read())
    except OSError:
        return None
    return int(found[1]) if found else None
