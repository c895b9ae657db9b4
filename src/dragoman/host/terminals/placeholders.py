"""Empty directories that stand where protected paths do not exist yet, so that something can be mounted over them.

Each is removed with its last user.  Whoever uses one, in this process or another, holds a lock on it meanwhile: a
directory that is removed under a sandbox uncovers what was to be covered.
"""

import contextlib
import fcntl
import os
from dataclasses import dataclass


@dataclass
class _Place:
    parent: int  # descriptor of the directory it is in
    lock: int | None
    made: bool  # by us, so it is ours to remove
    users: int = 0


class Placeholders:
    """All directories that stand for protected paths now, each known by where it is and its name."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int, str], _Place] = {}

    def take(self, parent: int, name: str) -> bool:
        """Use a directory, which is made if nothing is there; True for one that we made."""
        key = _key(parent, name)
        if key not in self._places:
            made = _make(parent, name)
            self._places[key] = _Place(os.dup(parent), _locked(parent, name), made)
        self._places[key].users += 1
        return self._places[key].made

    def made(self, parent: int, name: str) -> bool:
        """Whether this is a directory that we made."""
        place = self._places.get(_key(parent, name))
        return place is not None and place.made

    def give_back(self, parent: int, name: str) -> None:
        """Stop using it; the last user removes what we made."""
        place = self._places[_key(parent, name)]
        place.users -= 1
        if place.users:
            return
        del self._places[_key(parent, name)]
        with contextlib.suppress(OSError):  # something is in it, or somebody else uses it
            if place.made and place.lock is not None:
                fcntl.flock(place.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rmdir(name, dir_fd=place.parent)
        if place.lock is not None:
            os.close(place.lock)
        os.close(place.parent)


def _key(parent: int, name: str) -> tuple[int, int, str]:
    status = os.fstat(parent)
    return status.st_dev, status.st_ino, name


def _make(parent: int, name: str) -> bool:
    try:
        os.mkdir(name, 0o755, dir_fd=parent)
    except OSError:  # it is there, or nobody could make it, the command included
        return False
    return True


def _locked(parent: int, name: str) -> int | None:
    with contextlib.suppress(OSError):
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return fd
    return None
