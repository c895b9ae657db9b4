"""The first program in a sandbox: a list of system calls, the last of which is `execve`.

Some steps are only possible inside, after the mounts and before the command; Landlock, for example, forbids the
mounts that bubblewrap makes.  An interpreter would take longer to start than the whole sandbox, so an executable is
made here: a loop of sixteen instructions, and the table of calls that it makes.

    table entry     number of the call, WHEN, value, five arguments
    WHEN            IF: only if the previous call returned `value`; UNLESS: only if it did not
"""

import errno
import os
import platform
import struct
from collections.abc import Mapping, Sequence

# The loop, assembled from `first_program.x86_64.s` and `first_program.aarch64.s`; a test assembles them again.
_LOOPS = {
    "x86_64": bytes.fromhex(
        "488d1d3900000031ed31c0483b6b100f94c0480343084883f802751c488b03488b7b18488b7320488b5328"
        "4c8b53304c8b43380f054889c54883c340ebcb6690"
    ),
    "aarch64": bytes.fromhex(
        "13020010140080d2681640a9660a40f99f0206ebe6179f9aa500068bbf0800f1c1000054608641a9628e42a9"
        "641e40f9010000d4f40300aa73020191f3ffff17"
    ),
}
_MACHINES = {"x86_64": 62, "aarch64": 183}  # numbers of machines in executables
CALLS = {  # x86_64, aarch64
    "close": (3, 57),
    "close_range": (436, 436),
    "execve": (59, 221),
    "exit_group": (231, 94),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "openat": (257, 56),
    "prlimit64": (302, 261),
    "write": (1, 64),
}
FIRST_FREE = 3  # the descriptor that the first opening call gets after `close_others`
SHELL = "/bin/sh"
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
NOT_HELD = 126  # exit code if a confinement of the command fails
NOT_RUN = 127  # exit code if the command cannot be run, as in a shell
_REASONS = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC, errno.E2BIG, errno.EPERM, errno.ELOOP)

_IF, _UNLESS = 1, 2
_NEVER = 1 << 62  # a value that no call returns
_CODE, _DATA = 0x400000, 0x10000000  # addresses
_PAGE = 0x10000  # the largest page of these machines
_EXECUTABLE = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_ENTRY = struct.Struct("<QQqQQQQQ")


class FirstProgram:
    """Collects system calls; `image` is the program that makes them."""

    def __init__(self, machine: str = "") -> None:
        self._machine = machine or platform.machine()
        self._column = list(_LOOPS).index(self._machine)
        self._table = bytearray()
        self._data = bytearray()

    def put(self, data: bytes) -> int:
        """Put bytes into memory; returns their address."""
        address = _DATA + len(self._data)
        self._data += data + bytes(-len(data) % 8)
        return address

    def text(self, text: str) -> int:
        return self.put(os.fsencode(text) + b"\0")

    def call(self, name: str, *arguments: int, given: int | None = None, unless: int = _NEVER) -> None:
        """Add a call; made only if the previous one returned `given`, or did not return `unless`."""
        when, value = (_UNLESS, unless) if given is None else (_IF, given)
        words = [argument % (1 << 64) for argument in (*arguments, *[0] * (5 - len(arguments)))]
        self._table += _ENTRY.pack(CALLS[name][self._column], when, value, *words)

    def close_others(self) -> None:
        """Close all descriptors but the standard ones, so that the next numbers are known."""
        self.call("close_range", FIRST_FREE, 0xFFFFFFFF, 0)

    def limit(self, kind: int, values: tuple[int, int]) -> None:
        """Limit a resource; the program ends if that fails."""
        self.call("prlimit64", 0, kind, self.put(struct.pack("<qq", *values)), 0)
        self.call("exit_group", NOT_HELD, unless=0)

    def complain(self, text: str, given: int | None = None, unless: int = _NEVER) -> None:
        """Write a text to stderr."""
        said = os.fsencode(f"{text}\n")
        self.call("write", 2, self.put(said), len(said), given=given, unless=unless)

    def become(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        """Run a command, found like `execvp` but without empty entries of the PATH; report why if it fails."""
        program, shell = argv[0], self.text(SHELL)
        variables = self._list([self.text(f"{name}={value}") for name, value in env.items()])
        words = [self.text(word) for word in argv]
        all_words = self._list(words)
        for place in [program] if "/" in program else _places(program, env.get("PATH", DEFAULT_PATH)):
            path = self.text(place)
            self.call("execve", path, all_words, variables)
            script = self._list([shell, path, *words[1:]])
            self.call("execve", shell, script, variables, given=-errno.ENOEXEC)
        for number in _REASONS:
            self.complain(f"{program}: {os.strerror(number)}", given=-number)
        self.call("exit_group", NOT_RUN)

    def _list(self, addresses: Sequence[int]) -> int:
        return self.put(struct.pack(f"<{len(addresses) + 1}Q", *addresses, 0))

    def image(self) -> bytes:
        """The program as an executable file."""
        loop = _LOOPS[self._machine]
        head = _EXECUTABLE.size + 2 * _SEGMENT.size
        end = head + len(loop) + len(self._table)
        start = -(-end // _PAGE) * _PAGE  # the address of the data
        kind = b"\x7fELF\x02\x01\x01" + bytes(9)
        sizes = _EXECUTABLE.size, _SEGMENT.size, 2, 0, 0, 0
        entry = _CODE + head
        return b"".join(
            (
                _EXECUTABLE.pack(kind, 2, _MACHINES[self._machine], 1, entry, _EXECUTABLE.size, 0, 0, *sizes),
                _SEGMENT.pack(1, 5, 0, _CODE, _CODE, end, end, _PAGE),  # readable and executable
                _SEGMENT.pack(1, 4, start, _DATA, _DATA, len(self._data), len(self._data), _PAGE),  # readable
                loop,
                self._table,
                bytes(start - end),
                self._data,
            )
        )


def _places(program: str, path: str) -> list[str]:
    return [os.path.join(directory, program) for directory in path.split(":") if directory]
