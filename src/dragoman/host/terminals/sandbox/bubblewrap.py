"""The mounts of a sandbox, as arguments for bubblewrap.

Sources are descriptors, so that exactly the checked files are mounted.  A host that is root gives them to the
keeper, which mounts them under STAGE for the user it becomes; otherwise bubblewrap gets them and compares.  All
arguments are in a file in memory, since everyone on the machine can read an argument list. bubblewrap runs the
first program, also a file in memory, which sets up Landlock where the kernel has it, contains the variables, and
becomes the command.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..children import CommandSpec
from ..keeper.commands import limit
from ..keeper.mounts import STAGE
from . import landlock
from .first_program import FirstProgram
from .landlock import READ, USE, WRITE, PathRule
from .seccomp import seccomp_filter

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
SETTINGS = (
    *("alternatives", "ca-certificates", "ca-certificates.conf", "debian_version", "fonts", "gai.conf", "group"),
    *("host.conf", "hosts", "java", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf"),
    *("localtime", "lsb-release", "magic", "maven", "mime.types", "nsswitch.conf", "os-release", "passwd", "perl"),
    *("pki", "protocols", "python3", "resolv.conf", "services", "shells", "ssl", "terminfo", "timezone", "xdg"),
)
HOME = "/home/sandbox"
SCRATCH_PLACES = ("/tmp", "/var/tmp", "/dev/shm", HOME)
SCRATCH = 1024 * 1024 * 1024  # bytes of each of them, in memory
MOST_COPIED = 1024 * 1024  # bytes of a file of settings
FIRST_DESCRIPTOR = 3
EXECUTABLE = 0x10  # flag: a file in memory that can be executed
PROCESSES = 2  # bubblewrap's own processes around a command


class Unprotectable(Exception):
    """A protected path cannot be covered by a mount; the text says which, and why."""


@dataclass
class Wrapped:
    """The program to run for a command, with its descriptors."""

    argv: Sequence[str]
    env: Mapping[str, str]
    processes: int = 0  # processes around the command
    kept: list[int] = field(default_factory=list)  # descriptors for the command, from 3 up
    staged: list[int] = field(default_factory=list)  # descriptors to mount under STAGE
    writable: list[int] = field(default_factory=list)  # positions in `kept` of writable ones
    roots: list[int] = field(default_factory=list)  # roots with protected paths
    # each root's path, and its protected paths
    protected: list[tuple[str, Sequence[str]]] = field(default_factory=list)

    def spec(self, *, limits: Mapping[str, int], tty: bool = False) -> CommandSpec:
        """The spec for the keeper."""
        return CommandSpec(
            argv=self.argv,
            env=tuple(self.env.items()),
            tty=tty,
            limits=limits,
            wrappers=self.processes,
            kept=len(self.kept),
            staged=len(self.staged),
            writable=self.writable,
            protected=self.protected,
        )

    @property
    def descriptors(self) -> list[int]:
        """The descriptors that the spec counts, after the standard streams and the directory."""
        return [*self.kept, *self.staged, *self.roots]

    def protects(self, path: str) -> bool:
        """Whether a change of this path would count as the command's."""
        for root, paths in self.protected:
            inside = path.removeprefix(f"{root}/")
            if inside != path and any(_is_part(inside, known) or _is_part(known, inside) for known in paths):
                return True
        return False

    def close(self) -> None:
        """Close the descriptors once the command has been started."""
        for fd in self.descriptors:
            os.close(fd)


class MountPlan:
    """Collects arguments and descriptors, and owns them until they are wrapped around a command."""

    def __init__(self) -> None:
        self.args: list[str] = []
        self.rules: list[PathRule] = []  # all that Landlock allows
        self.wrapped = Wrapped((), {}, PROCESSES)
        self._staging = os.geteuid() == 0
        self._pinned: set[str] = set()  # covered by mounts, so that they cannot be renamed
        self._sealed: set[str] = set()  # and so that they cannot be changed

    def surround(self, *, network: bool, interactive: bool) -> None:
        """Mount everything but the workspace."""
        self.args += ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]
        self.args += ["--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv"]
        if network:
            self.args.append("--share-net")
        if not interactive:  # an interactive command makes its own session, with its terminal
            self.args.append("--new-session")
        for path in SYSTEM:
            if os.path.islink(path):
                self.args += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                self.args += ["--ro-bind", path, path]
        for name in SETTINGS:
            self._set(f"/etc/{name}")
        self.args += ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"]
        # The sandbox's own first process: writing its memory could fake the command's exit.
        self.args += ["--perms", "0555", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
        for path in SCRATCH_PLACES:
            self.args += ["--perms", "1777", "--size", str(SCRATCH), "--tmpfs", path]
        self.args += ["--dir", "/run", "--remount-ro", "/dev"]
        self.rules += [PathRule(path, READ) for path in (*SYSTEM, *(f"/etc/{name}" for name in SETTINGS))]
        self.rules += [PathRule(path, USE) for path in ("/proc", "/dev")]
        self.rules += [PathRule(path, WRITE) for path in SCRATCH_PLACES]

    def _set(self, path: str) -> None:
        """Show a setting of the system inside; a small file is copied, since a mount slows down further ones."""
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            status = os.fstat(fd)
            if stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IROTH and status.st_size <= MOST_COPIED:
                self.args += ["--perms", "0444", "--file", self._keep(fd), path]
                return
            os.close(fd)
        self.args += ["--ro-bind-try", path, path]

    def show(self, fd: int, path: str, *, writable: bool) -> None:
        """Mount what a descriptor refers to at a path, read-only or writable."""
        self.bind(fd, path, writable=writable)
        self.rules.append(PathRule(path, WRITE if writable else READ))

    def bind(self, fd: int, path: str, *, writable: bool) -> None:
        """Mount what a descriptor refers to at a path."""
        option = "--bind" if writable else "--ro-bind"
        if self._staging:
            self.args += [option, f"{STAGE}/{len(self.wrapped.staged)}", path]
            self.wrapped.staged.append(os.dup(fd))
        else:
            if writable:
                self.wrapped.writable.append(len(self.wrapped.kept))
            self.args += [f"{option}-fd", self._keep(os.dup(fd)), path]

    def link(self, name: str, path: str) -> None:
        """Make a path a link to another one."""
        self.args += ["--symlink", path, name]

    def protect(self, root: int, root_path: str, paths: Sequence[str]) -> None:
        """Keep paths below a root from being changed, and their parents from being renamed; watch missing paths."""
        if paths:
            self.wrapped.roots.append(os.dup(root))
            self.wrapped.protected.append((root_path.rstrip("/"), paths))
        for path in paths:
            self._cover(root, root_path.rstrip("/"), path)

    def _cover(self, root: int, path: str, relative: str) -> None:
        parent = root
        *above, last = relative.split("/")
        if ".." in (*above, last):  # a mount there could be written inside
            raise Unprotectable(f"{relative} leads out of {path}, where nothing is protected")
        with contextlib.ExitStack() as opened:
            for name in above:
                path = f"{path}/{name}"
                fd = _looked_up(parent, name, path, opened)
                if fd is None or path in self._sealed:
                    return
                if not _is_directory(fd):
                    self._seal(fd, path)
                    return
                if path not in self._pinned:
                    self._pinned.add(path)
                    self.bind(fd, path, writable=True)
                parent = fd
            path = f"{path}/{last}"
            there = _looked_up(parent, last, path, opened)
            if there is not None and path not in self._sealed:
                self._seal(there, path)

    def _seal(self, fd: int, path: str) -> None:
        self._sealed.add(path)
        self.bind(fd, path, writable=False)

    def begin(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str, version: int, limits: Mapping[str, int]
    ) -> None:
        """Begin the program inside: the command, confined by a version of Landlock unless that is 0.

        The limits are for the command only, since bubblewrap itself may open and write more than they allow.
        """
        program = FirstProgram()
        if version:
            landlock.restrict(program, self.rules, version)
        program.close_others()
        for name, most in limits.items():
            program.limit(*limit(name, most))
        program.become(argv, {**env, "PWD": cwd})
        self._first = self._keep(_in_memory(program.image(), executable=True))
        self.args += ["--chdir", cwd]

    def wrap(self, prefix: Sequence[str], bwrap: str) -> Wrapped:
        """Wrap the program inside with all these mounts."""
        self.args += ["--remount-ro", "/"]
        self.args += ["--seccomp", self._keep(_in_memory(seccomp_filter()))]
        arguments = self._keep(_in_memory(b"".join(os.fsencode(arg) + b"\0" for arg in self.args)))
        self.wrapped.argv = [*prefix, bwrap, "--args", arguments, "--", f"/proc/self/fd/{self._first}"]
        return self.wrapped

    def _keep(self, fd: int) -> str:
        self.wrapped.kept.append(fd)
        return str(FIRST_DESCRIPTOR + len(self.wrapped.kept) - 1)


def _looked_up(parent: int, name: str, path: str, opened: contextlib.ExitStack) -> int | None:
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise Unprotectable(f"{path} cannot be protected: {exc.strerror}") from exc
    opened.callback(os.close, fd)
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        raise Unprotectable(f"{path} is a symbolic link, which cannot be protected")
    return fd


def _is_part(path: str, of: str) -> bool:
    return f"{of}/".startswith(f"{path}/")


def _is_directory(fd: int) -> bool:
    return stat.S_ISDIR(os.fstat(fd).st_mode)


def runs_from_memory() -> bool:
    """Whether this system executes files in memory."""
    try:
        os.close(_in_memory(b"", executable=True))
    except OSError:
        return False
    return True


def _in_memory(data: bytes, *, executable: bool = False) -> int:
    try:
        fd = os.memfd_create("sandbox", os.MFD_CLOEXEC | (EXECUTABLE if executable else 0))
    except OSError as exc:
        if exc.errno != errno.EINVAL:
            raise
        fd = os.memfd_create("sandbox", os.MFD_CLOEXEC)  # before Linux 6.3, all of them were executable
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
