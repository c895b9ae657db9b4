"""The mounts with which bubblewrap starts: a read-only system, and the workspace.

bubblewrap creates its mount points, and follows links that another process in the workspace puts there meanwhile,
even out of the workspace.  So all else is made read-only for it, in a mount namespace that is made before.
"""

import ctypes
import errno
import os
import stat
import struct

from .processes import libc

STAGE = "/tmp"  # for the command alone, covered by mounts of places that its user cannot reach
CLONE, RECURSIVE, OF_FD = 1, 0x8000, 0x1000  # of open_tree
FROM_FD, ONTO_FD = 4, 0x40  # of move_mount
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # on every machine
NEW_MOUNTS, NEW_USER = 0x20000, 0x10000000  # of unshare
PRIVATE = 0x4000 | 1 << 18  # of mount, with all that is below
READ_ONLY = 1
HERE = -100


class Unsealable(Exception):
    """This system does not let an ordinary user make namespaces, or mount in them."""


def stage(fds: list[int]) -> None:
    """Mount directories and files as STAGE/0, STAGE/1, ... for this process alone, by descriptor, not by name.

    For root only, before it becomes a user who may have no access to their parents.
    """
    trees = [_tree(fd) for fd in fds]
    _checked(libc.unshare(NEW_MOUNTS))
    _checked(libc.mount(None, b"/", None, PRIVATE, None))
    _seal()
    _checked(libc.mount(b"tmpfs", STAGE.encode(), b"tmpfs", 0, b"mode=755"))
    for number, (fd, tree) in enumerate(zip(fds, trees, strict=True)):
        path = f"{STAGE}/{number}"
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        _checked(libc.syscall(MOVE_MOUNT, tree, b"", HERE, path.encode(), FROM_FD))


def seal_around(fds: list[int]) -> None:
    """Make everything read-only for this process except what some descriptors refer to; raises Unsealable.

    For an ordinary user, in a user namespace.  A descriptor from outside cannot be mounted there, so each path is
    opened again and compared.
    """
    paths = sorted((os.readlink(f"/proc/self/fd/{fd}"), fd) for fd in fds)
    _leave()
    opened = list[int]()
    top = ""
    for path, fd in paths:
        if top and f"{path}/".startswith(f"{top}/"):
            continue  # it stays writable together with the mount that it is in
        top = path
        again = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not os.path.sameopenfile(again, fd):
            raise OSError(f"{path} was replaced while its sandbox was being made")
        opened.append(again)
    trees = [_tree(fd) for fd in opened]
    _seal()
    for fd, tree in zip(opened, trees, strict=True):
        _checked(libc.syscall(MOVE_MOUNT, tree, b"", fd, b"", FROM_FD | ONTO_FD))


def _leave() -> None:
    """Enter new user and mount namespaces, keeping our user and group."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        _checked(libc.unshare(NEW_USER | NEW_MOUNTS))
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        _checked(libc.mount(None, b"/", None, PRIVATE, None))
    except PermissionError as exc:
        raise Unsealable from exc


def _tree(fd: int) -> int:
    """A mount of what a descriptor refers to, with all mounts below it."""
    return _checked(libc.syscall(OPEN_TREE, fd, b"", CLONE | RECURSIVE | OF_FD | os.O_CLOEXEC))


def _seal() -> None:
    """Make all mounts read-only except /proc, where bubblewrap maps users; needs Linux 5.12."""
    for path, flags, on, off in ((b"/", RECURSIVE, READ_ONLY, 0), (b"/proc", 0, 0, READ_ONLY)):
        wanted = struct.pack("=QQQQ", on, off, 0, 0)
        result = libc.syscall(MOUNT_SETATTR, HERE, path, flags, wanted, ctypes.c_size_t(len(wanted)))
        if result < 0 and ctypes.get_errno() == errno.ENOSYS:
            return
        _checked(result)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
