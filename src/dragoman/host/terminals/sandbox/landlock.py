"""A second wall in a sandbox, of the kernel's own: Landlock, where it has that.

Mounts say what is there; Landlock says, once more and by other means, what of it may be read, written and run.  So
a directory that was mounted by mistake can neither be read nor written.  Its rules can only be made inside, after
the mounts, by the first program that runs there.  It also keeps signals and abstract sockets within the sandbox.

TCP is left to the network namespace: rules know ports and not hosts, and servers of tests listen inside.
"""

import ctypes
import functools
import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

from .first_program import FIRST_FREE, NOT_HELD, FirstProgram

# Rights, and the version that brought the last of them
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = (1 << bit for bit in range(4))
_MAKE_DEVICES = 1 << 6 | 1 << 11
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_SINCE = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _DEVICE_CONTROL}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL  # all others are of directories
_SCOPES = 0b11  # abstract sockets, signals

READ = _EXECUTE | _READ_FILE | _READ_DIRECTORY
USE = _READ_FILE | _READ_DIRECTORY | _WRITE_FILE | _TRUNCATE | _DEVICE_CONTROL  # what is there, without making more
WRITE = (1 << 16) - 1 & ~_MAKE_DEVICES

SCOPES_SINCE = 6
LEAST = 2  # the first version forbids to move files between directories

_ASK_VERSION, _BENEATH_PATH = 1, 1
_AT_WORKING_DIRECTORY, _LOOK, _CLOSE_ON_EXEC = -100, 0o10000000, 0o2000000
_EINVAL = -22


class PathRule(NamedTuple):
    """What may be done with a path inside, and all that is below it."""

    path: str
    rights: int


@functools.cache
def version() -> int:
    """The kernel's version of Landlock; 0 where it has none, or one that is too old to be of use."""
    if sys.platform != "linux":
        return 0
    found = int(ctypes.CDLL(None).syscall(444, None, 0, _ASK_VERSION))
    return found if found >= LEAST else 0


def described(version: int) -> str:
    """What is in force, as a sentence for the log."""
    if not version:
        return "the kernel has no Landlock (or one before 5.19), so the mounts of bubblewrap stand alone"
    parts = [
        "files",
        *(["devices"] if version >= 5 else []),
        *(["signals", "abstract sockets"] if version >= 6 else []),
    ]
    return f"Landlock (version {version}) holds beside the mounts of bubblewrap: {', '.join(parts)}"


def restrict(program: FirstProgram, rules: Sequence[PathRule], version: int) -> None:
    """Have a first program keep to some rules, and its command with it; it ends where that cannot be."""
    known = sum(rights for since, rights in _SINCE.items() if since <= version)
    handled = struct.pack("<QQQ", known, 0, _SCOPES if version >= SCOPES_SINCE else 0)
    size = len(handled) if version >= SCOPES_SINCE else 8  # which an older kernel knows
    ruleset, opened = FIRST_FREE, FIRST_FREE + 1
    program.close_others()
    program.call("landlock_create_ruleset", program.put(handled), size, 0)
    _end(program, unless=ruleset)
    for path, rights in rules:  # what is not there has no rule: `opened` is no descriptor then
        flags = _LOOK | _CLOSE_ON_EXEC
        program.call("openat", _AT_WORKING_DIRECTORY, program.text(path), flags)
        for allowed, only in ((rights & known, None), (rights & known & _OF_FILES, _EINVAL)):
            attribute = program.put(struct.pack("<Qi", allowed, opened))
            program.call("landlock_add_rule", ruleset, _BENEATH_PATH, attribute, 0, given=only)
        program.call("close", opened)
    for stream in range(3):  # which may be opened again, as /dev/stdin; the host's /dev/null is not the one inside
        attribute = program.put(struct.pack("<Qi", USE & _OF_FILES & known, stream))
        program.call("landlock_add_rule", ruleset, _BENEATH_PATH, attribute, 0)
    program.call("landlock_restrict_self", ruleset, 0)
    _end(program, unless=0)
    program.call("close", ruleset)


def _end(program: FirstProgram, unless: int) -> None:
    program.complain("Landlock does not hold in this sandbox", unless=unless)
    # The words above change what the last call gave, which is `unless` only where there were none.
    program.call("exit_group", NOT_HELD, unless=unless)
