"""The system calls a sandboxed command cannot make, as a program for the kernel's filter.

Namespaces decide what a command sees; this takes away what reaches around them (kernel keys, other processes'
memory, address families that know no network namespace) and the kernel's least tested doors.
"""

import errno
import platform
import struct

# The kernel's name for a machine, and its numbers of the calls `socket` and `ioctl`.
_MACHINES = {
    "x86_64": (0xC000003E, 41, 16),
    "aarch64": (0xC00000B7, 198, 29),
}
FORBIDDEN: dict[str, tuple[int, int]] = {  # x86_64, aarch64
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
}
FAMILIES = (1, 2, 10, 16)  # unix, the two of the internet, netlink: what a network namespace contains
KEYSTROKES = (0x5412, 0x541C)  # ioctls that type into a terminal: TIOCSTI, TIOCLINUX

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_CALL, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24  # where the kernel puts what was called, and its arguments
_OTHER_ABI = 0x40000000  # x86_64 calls by other numbers


def seccomp_filter() -> bytes | None:
    """The filter for this machine; None where we know none."""
    machine = platform.machine()
    if machine not in _MACHINES:
        return None
    name, socket, ioctl = _MACHINES[machine]
    program = [_step(_LOAD, _MACHINE), _step(_EQUAL, name, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, _CALL)]
    if machine == "x86_64":
        program += [_step(_AT_LEAST, _OTHER_ABI, 0, 1), _refuse(errno.ENOSYS)]
    for number in forbidden_calls().values():
        program += [_step(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    families = [_step(_EQUAL, family, len(FAMILIES) - i, 0) for i, family in enumerate(FAMILIES)]
    program += _for(socket, [_step(_LOAD, _FIRST), *families, _refuse(errno.EAFNOSUPPORT), _step(_RETURN, _ALLOW)])
    keys = [part for key in KEYSTROKES for part in (_step(_EQUAL, key, 0, 1), _refuse(errno.EPERM))]
    program += _for(ioctl, [_step(_LOAD, _SECOND), *keys, _step(_RETURN, _ALLOW)])
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def forbidden_calls() -> dict[str, int]:
    """The numbers of what the filter forbids on this machine."""
    machine = platform.machine()
    if machine not in _MACHINES:
        return {}
    column = list(_MACHINES).index(machine)
    return {name: numbers[column] for name, numbers in FORBIDDEN.items()}


def _for(number: int, steps: list[bytes]) -> list[bytes]:
    return [_step(_EQUAL, number, 0, len(steps)), *steps]


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _REFUSE | error)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
