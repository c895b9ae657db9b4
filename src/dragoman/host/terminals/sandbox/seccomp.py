"""The system calls that a sandboxed command cannot make, as a program for the kernel's filter.

Namespaces decide what a command sees.  The filter removes calls that bypass them (kernel keys, other processes'
memory, address families without network namespaces), and rarely used calls that are tested little.
"""

import errno
import platform
import struct

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # the kernel's names for them
LOOKED_AT: dict[str, tuple[int | None, int | None]] = {  # calls that depend on their arguments: x86_64, aarch64
    "socket": (41, 198),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "fcntl": (72, 25),
    "openat2": (437, 437),
    "open": (2, None),
    "openat": (257, 56),
    "creat": (85, None),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "mknod": (133, None),
    "mknodat": (259, 33),
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
    "open_tree_attr": (467, 467),
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
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
}
FAMILIES = (1, 2, 10, 16)  # unix, IPv4, IPv6, netlink: the families that a network namespace contains
NETLINK, ROUTING = 16, 0  # the only netlink protocol that programs need: it lists addresses
KEYSTROKES = (0x5412, 0x541C)  # ioctls that type into a terminal: TIOCSTI, TIOCLINUX
LEASE = 1024  # leases of files, which block processes outside that open them
# Set-user-ID bits, with which others outside could run a file as its owner; and the calls with a file's mode.
BORROWED_RIGHTS = 0o6000
MODES = {"creat": 1, "chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
FLAGS_AND_MODES = {"open": (1, 2), "openat": (2, 3)}
CREATING = 0o20000100  # flags with which a mode counts: O_CREAT, O_TMPFILE

_LOAD, _EQUAL, _AT_LEAST, _HAS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_CALL, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets of the call's number and its arguments
_OTHER_ABI = 0x40000000  # x86_64 calls of another ABI


def is_known_machine() -> bool:
    """Whether there is a filter for this machine."""
    return platform.machine() in _MACHINES


def seccomp_filter() -> bytes:
    """The filter for this machine, which must be a known one."""
    machine = platform.machine()
    program = [_step(_LOAD, _MACHINE), _step(_EQUAL, _MACHINES[machine], 1, 0), _step(_RETURN, _KILL)]
    program.append(_step(_LOAD, _CALL))
    if machine == "x86_64":
        program += [_step(_AT_LEAST, _OTHER_ABI, 0, 1), _refuse(errno.ENOSYS)]
    for forbidden in forbidden_calls().values():
        program += [_step(_EQUAL, forbidden, 0, 1), _refuse(errno.EPERM)]
    for name, numbers in LOOKED_AT.items():
        if (number := numbers[_column()]) is not None:
            steps = _looking(name)
            program += [_step(_EQUAL, number, 0, len(steps)), *steps]
    return b"".join([*program, _step(_RETURN, _ALLOW)])


def _looking(name: str) -> list[bytes]:
    """The decision about a call, by its arguments."""
    allow = _step(_RETURN, _ALLOW)
    match name:
        case "socket" | "socketpair":
            families = [_step(_EQUAL, family, len(FAMILIES) - i, 0) for i, family in enumerate(FAMILIES)]
            known = [_argument(0), *families, _refuse(errno.EAFNOSUPPORT), _step(_EQUAL, NETLINK, 0, 2)]
            return [*known, _argument(2), _step(_EQUAL, ROUTING, 0, 1), allow, _refuse(errno.EPROTONOSUPPORT)]
        case "ioctl":
            keys = [part for key in KEYSTROKES for part in (_step(_EQUAL, key, 0, 1), _refuse(errno.EPERM))]
            return [_argument(1), *keys, allow]
        case "fcntl":
            return [_argument(1), _step(_EQUAL, LEASE, 0, 1), _refuse(errno.EPERM), allow]
        case "openat2":  # its mode is in memory, out of the filter's sight; programs then use another call
            return [_refuse(errno.ENOSYS)]
        case "open" | "openat":
            flags, mode = FLAGS_AND_MODES[name]
            return [_argument(flags), _step(_HAS, CREATING, 0, 3), *_without_borrowed_rights(mode)]
        case _:
            return _without_borrowed_rights(MODES[name])


def _without_borrowed_rights(mode: int) -> list[bytes]:
    return [_argument(mode), _step(_HAS, BORROWED_RIGHTS, 0, 1), _refuse(errno.EPERM), _step(_RETURN, _ALLOW)]


def forbidden_calls() -> dict[str, int]:
    """The numbers of the calls that the filter forbids on this machine."""
    return {name: numbers[_column()] for name, numbers in FORBIDDEN.items()}


def _column() -> int:
    return list(_MACHINES).index(platform.machine())


def _argument(index: int) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * index)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _REFUSE | error)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
