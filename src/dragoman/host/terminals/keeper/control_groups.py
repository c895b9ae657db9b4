"""A control group (version 2) for each command, where the system allows one.

A process stays in its group even if it changes its parent, its session or its mark, and the kernel kills the whole
group at once.  Where there is no such hierarchy, or it cannot be written, these functions do nothing.

The supervisor keeps its command's group locked.  An unlocked group is therefore left over: the next keeper ends its
processes and removes it.
"""

import contextlib
import fcntl
import itertools
import os
import re
import time
from collections.abc import Iterator

from .processes import PAUSE

REMOVAL = 2.0  # seconds for the removal of an empty group
PREFIX = "dragoman-"
MOST = 1000  # groups that are searched or removed at a time, since a command can make groups below its own
TRIES = 3  # attempts to make one, since a starting keeper may take a new group for a left-over one


class ControlGroup:
    """The group of one command, locked and open while its supervisor runs."""

    def __init__(self, path: str, lock: int, procs_fd: int) -> None:
        self.path, self._lock, self._procs_fd = path, lock, procs_fd

    def enter(self) -> None:
        """Move this process into the group, and so all processes that it will start."""
        with contextlib.suppress(OSError):  # then it can be found only by its parent and its mark
            os.write(self._procs_fd, b"0")

    def close(self) -> None:
        """Remove it; for a moment, the kernel still counts processes that have ended."""
        os.close(self._procs_fd)
        end_group(self.path, REMOVAL)
        os.close(self._lock)


def own_group() -> str | None:
    """The directory of this process's group, if groups can be made in it."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            within = next(line.split(":", 2)[2].rstrip("\n") for line in file if line.startswith("0::"))
        for root, place in _hierarchies():
            directory = os.path.normpath(f"{place}/{os.path.relpath(within, root)}")
            if (within + "/").startswith(root.rstrip("/") + "/") and os.access(directory, os.W_OK):
                return directory
    return None


def _hierarchies() -> Iterator[tuple[str, str]]:
    """Each mount of version 2: the group at its root, and the mount point."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        for line in file:
            about, _, kind = line.partition(" - ")
            if kind.startswith("cgroup2 "):
                root, place = about.split()[3:5]
                yield root, re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place)


def new_group(above: str | None, mark: int) -> ControlGroup | None:
    """Make a group below another one; None if that is not possible."""
    with contextlib.suppress(OSError):
        for number in range(TRIES if above else 0):
            path = f"{above}/{PREFIX}{mark:x}-{number}"
            os.mkdir(path)
            if (lock := _locked(path)) is None:
                continue
            try:
                return ControlGroup(path, lock, os.open(f"{path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
            except OSError:
                os.close(lock)
                _remove(path)
    return None


def _locked(path: str) -> int | None:
    """A descriptor that locks a group; None if the group is locked by another, or removed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.isdir(path):
            return fd
    except OSError:
        pass
    os.close(fd)
    return None


def kill_group(path: str | None) -> None:
    """Kill all processes in a group, including those that are just being started."""
    if path:
        with contextlib.suppress(OSError), open(f"{path}/cgroup.kill", "w", encoding="utf-8") as file:
            file.write("1")


def end_group(path: str | None, patience: float) -> list[int]:
    """Kill all processes in a group and remove it; returns those that remain.  Blocks: call it in a thread."""
    deadline = time.monotonic() + patience
    while path and os.path.isdir(path):
        kill_group(path)
        if _remove(path):
            break
        if time.monotonic() > deadline:
            return _members(path)
        time.sleep(PAUSE)
    return []


def end_left_over(above: str | None) -> None:
    """Kill and remove groups whose supervisors have ended."""
    for path in _below(above) if above else ():
        name = os.path.basename(path)
        if name.startswith(PREFIX) and (lock := _locked(path)) is not None:
            kill_group(path)
            _remove(path)
            os.close(lock)


def _remove(path: str) -> bool:
    """Remove a group and the groups below it; False while a process runs there."""
    groups = [path]
    for group in groups:  # the list grows; parents come before their children
        groups += _below(group)[: max(0, MOST - len(groups))]
    for group in reversed(groups):
        with contextlib.suppress(OSError):
            os.rmdir(group)
    return not os.path.isdir(path)


def _below(path: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        groups = (entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        return list(itertools.islice(groups, MOST))
    return []


def _members(path: str) -> list[int]:
    """The processes in a group itself, without those in groups below it."""
    with contextlib.suppress(OSError, ValueError), open(f"{path}/cgroup.procs", encoding="utf-8") as file:
        return [int(line) for line in file]
    return []
