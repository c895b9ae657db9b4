"""Checks, before anything runs in a sandbox, that our own files lie outside of it.

A sandbox confines commands and agents to some directories.  It protects nothing if our own files are inside too: a
program that can write our programs, rules or state controls what we do next, and one that can read our tokens can
act as us.  So each directory that can be written or seen inside is compared with all files of ours.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ...foundation.directories import config_directory, home_directory, state_directory
from ...foundation.places import Path, is_beneath
from ...foundation.programs import own_places

ELSEWHERE = "choose a directory that does not contain it"
INSTALL = "install Dragoman outside of it (pipx, or an environment elsewhere), or choose another directory"
PROJECT = "choose a project's directory in it"
MOVE = "keep it elsewhere, or choose another directory"


class Own(Struct, frozen=True):
    """A file or directory of ours, by its real path: what it is, and what to do if it lies inside."""

    path: str
    what: str
    advice: str = MOVE
    secret: bool = True  # it must not be seen inside, either
    whole: bool = True  # no directory in it may be written, either; false: directories in it are others'


class Writable(Struct, frozen=True):
    """A directory that can be written inside, or all directories of a pattern with `{principal}`."""

    path: str

    def contains(self, path: str) -> bool:
        if "{principal}" not in self.path:
            return is_beneath(path, self.path)
        pattern = re.escape(self.path).replace(re.escape("{principal}"), "[^/]+").replace("/[^/]+", "/(?!\\.)[^/]+")
        return re.match(rf"{pattern}(/|$)", path) is not None

    def lies_in(self, path: str) -> bool:
        fixed = (
            self.path.partition("{principal}")[0].rpartition("/")[0] if "{principal}" in self.path else self.path
        )
        return is_beneath(fixed or "/", path)


def own_things(*further: Own) -> list[Own]:
    """All that is ours: our programs, the user's home, settings, state and sockets, and the given ones."""
    found = [Own(place, "Dragoman itself", INSTALL, secret=False) for place in own_places()]
    found.append(Own(sys.base_prefix, "the Python that runs Dragoman", INSTALL, secret=False))
    found.append(Own(str(home_directory()), "your home directory", PROJECT, whole=False))
    found.append(Own(str(config_directory()), "the directory of your settings and rules"))
    found.append(Own(str(state_directory()), "the directory of sessions, approvals and the audit log"))
    sockets = (os.environ.get(name, "") for name in ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR"))
    found += [Own(path, "a socket of yours", ELSEWHERE, whole=False) for path in sockets if os.path.isabs(path)]
    return [Own(os.path.realpath(o.path), o.what, o.advice, o.secret, o.whole) for o in (*found, *further)]


def overlap(writable: Iterable[Writable], visible: Iterable[Path] = (), own: Sequence[Own] = ()) -> str:
    """A sentence about the first of our files that lies inside, with advice; empty if none does."""
    return next(_overlaps([*writable], [os.path.realpath(path) for path in visible], own), "")


def _overlaps(writable: Sequence[Writable], visible: Sequence[str], own: Sequence[Own]) -> Iterator[str]:
    for root in writable:
        for thing in own:
            if root.contains(thing.path):
                yield f"{thing.path} is {thing.what} and could be changed from {root.path}: {thing.advice}"
            elif thing.whole and root.lies_in(thing.path):
                yield f"{root.path} could be changed and is in {thing.path}, {thing.what}: choose another directory"
    for path in visible:
        for thing in own:
            if thing.secret and (is_beneath(thing.path, path) or (thing.whole and is_beneath(path, thing.path))):
                yield f"{thing.path} is {thing.what} and could be read in {path}: make less visible"
