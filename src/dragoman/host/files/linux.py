"""System calls Python has no name for; where there is none, they raise OSError(ENOSYS)."""

import ctypes
import errno
import functools
import os
import platform
import sys
from typing import Any

# The errors of a call that the file system or the kernel does not support.
UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.ENOTSUP}

BENEATH, NO_MAGICLINKS = 0x08, 0x02  # flags of openat2
_NO_REPLACE, _EXCHANGE = 1, 2  # flags of renameat2

_OPENAT2 = 437  # the same on every architecture
_RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276}
_EMPTY_PATH, _BIRTH = 0x1000, 0x800  # statx: of the descriptor itself; the time it was made

# File systems whose regular files are interfaces of the kernel: reading one may never end, or have an effect.
_PSEUDO = {
    0x9FA0,  # proc
    0x62656572,  # sysfs
    0x64626720,  # debugfs
    0x74726163,  # tracefs
    0x27E0EB,  # cgroup
    0x63677270,  # cgroup2
    0x73636673,  # securityfs
    0x6165676C,  # pstore
    0xCAFE4A11,  # bpf
    0x62656570,  # configfs
    0x42494E4D,  # binfmt_misc
    0xDE5E81E4,  # efivarfs
    0xF97CFF8C,  # selinux
    0x6E736673,  # nsfs
}


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def openat2(dir_fd: int, path: str, flags: int, resolve: int) -> int:
    """Open a path; the kernel itself keeps its resolution beneath the directory."""
    if platform.machine() not in _RENAMEAT2:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _How(flags | os.O_CLOEXEC, 0, resolve)
    return _call(
        _OPENAT2, ctypes.c_int(dir_fd), os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
    )


def exchange(dir_fd: int, one: str, other: str) -> None:
    """Swap the files of two names in one step."""
    _rename(dir_fd, one, other, _EXCHANGE)


def rename_new(dir_fd: int, old: str, new: str) -> None:
    """Rename to a free name; raises FileExistsError if it is not free."""
    _rename(dir_fd, old, new, _NO_REPLACE)


def sync_filesystem(fd: int) -> None:
    """Sync the whole file system that a file is on."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if ctypes.CDLL(None, use_errno=True).syncfs(fd) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def born(fd: int) -> int:
    """The time at which a file or directory was created, in ns; 0 if it is unknown.

    Inode numbers are soon reused; with the time, a removed file can be told from one created in its place.
    """
    if sys.platform != "linux" or not hasattr(_libc(), "statx"):
        return 0
    about = ctypes.create_string_buffer(256)
    if _libc().statx(ctypes.c_int(fd), b"", _EMPTY_PATH, _BIRTH, about) != 0:
        return 0
    known = ctypes.c_uint32.from_buffer(about).value
    seconds, nanoseconds = ctypes.c_int64.from_buffer(about, 80).value, ctypes.c_uint32.from_buffer(about, 88).value
    return seconds * 10**9 + nanoseconds if known & _BIRTH else 0


def is_pseudo(fd: int) -> bool:
    """Whether a file is an interface of the kernel and not on a disk."""
    if sys.platform != "linux":
        return False
    about = ctypes.create_string_buffer(256)
    if _libc().fstatfs(ctypes.c_int(fd), about) != 0:
        return False
    kind = ctypes.c_long.from_buffer(about).value
    return kind & 0xFFFFFFFF in _PSEUDO


def _rename(dir_fd: int, old: str, new: str, flags: int) -> None:
    number = _RENAMEAT2.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    directory = ctypes.c_int(dir_fd)
    _call(number, directory, os.fsencode(old), directory, os.fsencode(new), ctypes.c_uint(flags))


def _call(number: int, *arguments: object) -> int:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    result: int = _libc().syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


@functools.cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
