"""Landlock, a second confinement of the sandbox by the kernel, where the kernel has it.

Mounts decide which files exist inside; Landlock decides, by independent means, which of them may be read, written
and executed.  So a directory that was mounted by mistake can neither be read nor written.  Its rules can only be
made inside, after the mounts, by the first program.  It also confines signals and abstract sockets to the sandbox.

TCP is left to the network namespace: rules name ports and not hosts, and test servers listen inside.
"""

import ctypes
import functools
import struct
import sys
from collections.abc import Sequence
from typing import NamedTuple

from .first_program import FIRST_FREE, NOT_HELD, FirstProgram

# Rights, and the version that introduced the last of them
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = (1 << bit for bit in range(4))
_MAKE_DEVICES = 1 << 6 | 1 << 11
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_SINCE = {1: (1 << 13) - 1, 2: _REFER, 3: _TRUNCATE, 5: _DEVICE_CONTROL}
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL  # all others apply to directories
_SCOPES = 0b11  # abstract sockets, signals

READ = _EXECUTE | _READ_FILE | _READ_DIRECTORY
# existing files, without creating any
USE = _READ_FILE | _READ_DIRECTORY | _WRITE_FILE | _TRUNCATE | _DEVICE_CONTROL
WRITE = (1 << 16) - 1 & ~_MAKE_DEVICES

SCOPES_SINCE = 6
LEAST = 2  # the first version forbids moving files between directories

_ASK_VERSION, _BENEATH_PATH = 1, 1
_AT_WORKING_DIRECTORY, _LOOK, _CLOSE_ON_EXEC = -100, 0o10000000, 0o2000000
_EINVAL = -22


class PathRule(NamedTuple):
    """The rights for a path inside and everything below it."""

    path: str
    rights: int


@functools.cache
def version() -> int:
    """The kernel's version of Landlock; 0 if it has none, or one that is too old."""
    if sys.platform != "linux":
        return 0
    found = int(ctypes.CDLL(None).syscall(444, None, 0, _ASK_VERSION))
    return found if found >= LEAST else 0


def described(version: int) -> str:
    """The rules in force, as a sentence for the log."""
    if not version:
        return "the kernel has no Landlock (or one before 5.19), so only the mounts of bubblewrap confine commands"
    parts = [
        "files",
        *(["devices"] if version >= 5 else []),
        *(["signals", "abstract sockets"] if version >= 6 else []),
    ]
    return f"Landlock (version {version}) confines commands besides the mounts of bubblewrap: {', '.join(parts)}"


def restrict(program: FirstProgram, rules: Sequence[PathRule], version: int) -> None:
    """Make a first program, and its command, obey the rules; the program ends if that fails."""
    known = sum(rights for since, rights in _SINCE.items() if since <= version)
    handled = struct.pack("<QQQ", known, 0, _SCOPES if version >= SCOPES_SINCE else 0)
    size = len(handled) if version >= SCOPES_SINCE else 8  # known to an older kernel
    ruleset, opened = FIRST_FREE, FIRST_FREE + 1
    program.close_others()
    program.call("landlock_create_ruleset", program.put(handled), size, 0)
    _end(program, unless=ruleset)
    for path, rights in rules:  # a missing path gets no rule: `opened` is then not a descriptor
        flags = _LOOK | _CLOSE_ON_EXEC
        program.call("openat", _AT_WORKING_DIRECTORY, program.text(path), flags)
        for allowed, only in ((rights & known, None), (rights & known & _OF_FILES, _EINVAL)):
            attribute = program.put(struct.pack("<Qi", allowed, opened))
            program.call("landlock_add_rule", ruleset, _BENEATH_PATH, attribute, 0, given=only)
        program.call("close", opened)
    for stream in range(3):  # may be opened again, as /dev/stdin; the host's /dev/null is not the one inside
        attribute = program.put(struct.pack("<Qi", USE & _OF_FILES & known, stream))
        program.call("landlock_add_rule", ruleset, _BENEATH_PATH, attribute, 0)
    program.call("landlock_restrict_self", ruleset, 0)
    _end(program, unless=0)
    program.call("close", ruleset)


def _end(program: FirstProgram, unless: int) -> None:
    program.complain("Landlock cannot be set up in this sandbox", unless=unless)
    # The message changes the last call's result, which is `unless` only if there was no message.
    program.call("exit_group", NOT_HELD, unless=unless)
