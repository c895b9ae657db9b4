"""Unix sockets as addresses: a file to listen at, which its group alone may open, and who is at the other end."""

import asyncio
import errno
import os
import socket
import stat
import struct
from typing import NamedTuple

from ...errors import Error

SCHEME = "unix"
CREDENTIALS = struct.Struct("3i")  # of the other end: process, user, group
BACKLOG = 1024


class PeerCredentials(NamedTuple):
    """The user at the other end of a Unix socket, as the kernel knows it from when the socket was connected."""

    uid: int


def credentials_of(transport: asyncio.BaseTransport) -> PeerCredentials | None:
    """Whose process is at the other end; None for other sockets, and for systems that do not tell."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family != getattr(socket, "AF_UNIX", None) or not hasattr(socket, "SO_PEERCRED"):
        return None
    try:
        _, uid, _ = CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    except OSError:  # it is closed already
        return None
    return PeerCredentials(uid)


def listen_at(path: str, group: str = "") -> socket.socket:
    """A listening socket at a path: for its owner alone, or for a group as well.

    A socket that nobody listens at is replaced; raises an OSError for one that is in use, and for other files.
    """
    owner = -1 if not group else _group(group)
    if _is_stale(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        before = os.umask(0o177)  # from the first moment on
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        if group:
            os.chown(path, -1, owner)
            os.chmod(path, 0o660)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def name_of(listener: socket.socket) -> str:
    """The path of a Unix socket; empty for other sockets."""
    name = listener.getsockname()
    return name if isinstance(name, str) else ""


def _group(name: str) -> int:
    from ...foundation.unix import grp  # which is not there on every system

    try:
        return int(name) if name.isdecimal() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise Error(f"there is no group {name!r} on this machine") from None


def _is_stale(path: str) -> bool:
    """Whether there is a socket that nobody listens at."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "there is a file that is no socket")
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
