"""What a test has left behind: descriptors and processes."""

import contextlib
import os


def descriptors() -> set[tuple[int, str]]:
    """This process's open descriptors and what they are."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:  # the one that read the directory
            continue
    return found


def children() -> set[int]:
    """The ids of this process's children, also of those nobody has waited for."""
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{thread}/children") as file:
            found.update(map(int, file.read().split()))  # unless the thread has just ended
    return found


def descendants() -> set[int]:
    """The ids of this process's children, their children, and so on."""
    found, unseen = set(), children()
    while unseen:
        found |= unseen
        unseen = {child for pid in unseen for child in _children_of(pid)} - found
    return found


def _children_of(pid: int) -> list[int]:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]
    return []
