"""The attributes of a file: mode, owner, extended attributes."""

import errno
import os

from .linux import UNSUPPORTED

_NOT_KEPT = ("security.capability", "security.ima", "security.evm")  # the attributes that vouch for the old content


def keep_attributes(old: int, new: int) -> None:
    """Give an open file the mode, the owner and the extended attributes of another."""
    status = os.fstat(old)
    mode = status.st_mode & 0o1777  # set-user-id vouched for the old content
    try:
        os.fchown(new, status.st_uid, status.st_gid)
    except PermissionError:
        mode &= ~0o070 | (mode & 0o007) << 3  # the group differs: it gets the rights of everybody
    if hasattr(os, "listxattr"):
        _keep_extended_attributes(old, new)
    os.fchmod(new, mode)


def _keep_extended_attributes(old: int, new: int) -> None:
    try:
        names = os.listxattr(old)
    except OSError as exc:
        if exc.errno not in UNSUPPORTED:
            raise
        return
    for name in names:
        if name in _NOT_KEPT:
            continue
        try:
            os.setxattr(new, name, os.getxattr(old, name))
        except OSError as exc:
            if exc.errno not in (*UNSUPPORTED, errno.EACCES, errno.ENODATA):
                raise
