"""What is mounted where in a sandbox, as arguments for bubblewrap.

Sources are descriptors, so what was looked at is what is mounted.  A host that is root hands them to the keeper,
which shows them under STAGE to the user it becomes; otherwise bubblewrap gets them, and compares.  All arguments go
through a file in memory: everyone on the machine can read an argument list, and there are secrets among these.
"""

import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .children import Order
from .keeper import STAGE
from .placeholders import Placeholders
from .seccomp import seccomp_filter

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
SETTINGS = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "debian_version", "fonts", "gai.conf", "group"),
    *("host.conf", "hosts", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf"),
    *("localtime", "lsb-release", "magic", "maven", "mime.types", "nsswitch.conf", "os-release", "passwd", "perl"),
    *("pki", "protocols", "python3", "resolv.conf", "services", "shells", "ssl", "terminfo", "timezone", "xdg"),
)
HOME = "/home/sandbox"
SCRATCH = 1024 * 1024 * 1024  # bytes that each of /tmp, /run, /dev/shm and /home can hold, in memory
FIRST_DESCRIPTOR = 3
PROCESSES = 2  # bubblewrap's own, around a command


class Unprotectable(Exception):
    """A protected path is a symbolic link, over which nothing can be mounted."""


@dataclass
class Wrapped:
    """What to run for a command, and with which descriptors."""

    argv: Sequence[str]
    env: Mapping[str, str]
    processes: int = 0  # around the command
    kept: list[int] = field(default_factory=list)  # descriptors for the command, from 3 up
    staged: list[int] = field(default_factory=list)  # those to be shown under STAGE
    covered: list[tuple[int, str]] = field(default_factory=list)  # protected directories: parent and name
    placeholders: list[tuple[int, str]] = field(default_factory=list)  # those of them that we made
    directories: Placeholders | None = None

    def order(self, *, limits: Mapping[str, int], tty: bool = False) -> Order:
        """What to tell the keeper."""
        return Order(
            argv=self.argv,
            env=tuple(self.env.items()),
            tty=tty,
            limits=limits,
            wrappers=self.processes,
            kept=len(self.kept),
            staged=len(self.staged),
            placeholders=[name for _, name in self.placeholders],
        )

    @property
    def descriptors(self) -> list[int]:
        """What the order counts, after the standard streams and the directory."""
        return [*self.kept, *self.staged, *(parent for parent, _ in self.placeholders)]

    def close(self) -> None:
        """Let go of the descriptors once the command has been started."""
        for fd in (*self.kept, *self.staged):
            os.close(fd)

    def unwrap(self) -> None:
        """Remove what was made for the command once it is over."""
        for parent, name in self.covered:
            if self.directories:
                self.directories.give_back(parent, name)
            os.close(parent)
        self.covered.clear()


class Plan:
    """Collects arguments and descriptors; ours to close until they are wrapped around a command."""

    def __init__(self, directories: Placeholders) -> None:
        self.args: list[str] = []
        self.wrapped = Wrapped((), {}, PROCESSES, directories=directories)
        self._directories = directories
        self._staging = os.geteuid() == 0
        self._pinned: set[str] = set()  # mounted, so that they cannot be renamed
        self._sealed: set[str] = set()  # and cannot be changed

    def surround(self, env: Mapping[str, str], *, network: bool, interactive: bool) -> None:
        """Everything but the workspace."""
        self.args += ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]
        self.args += ["--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"]
        if network:
            self.args.append("--share-net")
        if not interactive:  # an interactive command makes one itself, with its terminal
            self.args.append("--new-session")
        for name, value in env.items():
            self.args += ["--setenv", name, value]
        for path in SYSTEM:
            if os.path.islink(path):
                self.args += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                self.args += ["--ro-bind", path, path]
        for name in SETTINGS:
            self.args += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        self.args += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
        for path in ("/tmp", "/run", "/home", "/dev/shm"):
            self.args += ["--perms", "1777", "--size", str(SCRATCH), "--tmpfs", path]
        self.args += ["--perms", "0700", "--dir", HOME, "--symlink", "/tmp", "/var/tmp"]

    def bind(self, fd: int, path: str, *, writable: bool) -> None:
        """Show what a descriptor stands for at a path."""
        option = "--bind" if writable else "--ro-bind"
        if self._staging:
            self.args += [option, f"{STAGE}/{len(self.wrapped.staged)}", path]
            self.wrapped.staged.append(os.dup(fd))
        else:
            self.args += [f"{option}-fd", self._keep(os.dup(fd)), path]

    def protect(self, root: int, root_path: str, relative: str) -> None:
        """Have a path below a root not be changed, nor made, nor its parents renamed."""
        path, parent = root_path.rstrip("/"), root
        *above, last = relative.split("/")
        with contextlib.ExitStack() as opened:
            for name in above:
                path = f"{path}/{name}"
                fd = _looked_up(parent, name, path, opened)
                if path in self._sealed:
                    return
                if fd is None or not _is_directory(fd) or self._directories.made(parent, name):
                    self._seal(parent, name, path, fd)
                    return
                if path not in self._pinned:
                    self._pinned.add(path)
                    self.bind(fd, path, writable=True)
                parent = fd
            path = f"{path}/{last}"
            if path not in self._sealed:
                self._seal(parent, last, path, _looked_up(parent, last, path, opened))

    def _seal(self, parent: int, name: str, path: str, fd: int | None) -> None:
        self._sealed.add(path)
        if fd is None or _is_directory(fd):
            made = self._directories.take(parent, name)
            entry = (os.dup(parent), name)
            self.wrapped.covered.append(entry)
            if made:
                self.wrapped.placeholders.append(entry)
                self.args += ["--perms", "0555", "--tmpfs", path, "--remount-ro", path]
                return
        if fd is not None:
            self.bind(fd, path, writable=False)

    def wrap(self, prefix: Sequence[str], bwrap: str, cwd: str, argv: Sequence[str]) -> Wrapped:
        """The command with all of this around it."""
        self.args += ["--remount-ro", "/", "--chdir", cwd]
        if program := seccomp_filter():
            self.args += ["--seccomp", self._keep(_in_memory(program))]
        arguments = self._keep(_in_memory(b"".join(os.fsencode(arg) + b"\0" for arg in self.args)))
        self.wrapped.argv = [*prefix, bwrap, "--args", arguments, "--", *argv]
        return self.wrapped

    def _keep(self, fd: int) -> str:
        self.wrapped.kept.append(fd)
        return str(FIRST_DESCRIPTOR + len(self.wrapped.kept) - 1)


def _looked_up(parent: int, name: str, path: str, opened: contextlib.ExitStack) -> int | None:
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except FileNotFoundError:
        return None
    opened.callback(os.close, fd)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        raise Unprotectable(path)
    return fd


def _is_directory(fd: int) -> bool:
    return stat.S_ISDIR(os.fstat(fd).st_mode)


def _in_memory(data: bytes) -> int:
    fd = os.memfd_create("sandbox", os.MFD_CLOEXEC)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
