"""A sandbox of bubblewrap: commands can write in the workspace only, and see little else.

Inside, the system is read-only; protected paths of the workspace cannot be changed or created; the home, /tmp and
/run are empty; there are no other processes, no network unless it is allowed, no privileges, and no system calls
that `seccomp.py` forbids.  Where the kernel has Landlock (`landlock.py`), it enforces the same rules for files, so
that one mistake in the mounts does not open the sandbox.  All processes end with the sandbox, daemons included.  It
never runs as root: a host that is root becomes the user who owns the workspace.

`Sandbox.check` tries once to escape (`trial.py`).  Unless every attempt fails, no command runs.
"""

import asyncio
import contextlib
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from ....errors import InternalError, InvalidParams
from ....foundation.places import Path, Place, is_beneath, name_of, open_unlinked
from ....foundation.programs import find_program, is_inside
from ...isolation.boundaries import Writable, overlap, own_things
from ...isolation.linked_files import HardLinks, Linked, separate
from ..keeper.commands import MOST_DESCRIPTORS
from . import covers, landlock
from .bubblewrap import HOME, SYSTEM, MountPlan, Unprotectable, Wrapped, runs_from_memory
from .seccomp import is_known_machine

log = logging.getLogger("dragoman")

NO_WORKSPACE = ("/usr", "/etc", "/proc", "/dev", "/sys", "/run")  # nor a parent of one of them
SPARE_DESCRIPTORS = 10  # for the command's streams, its directory and the sandbox's description
PROGRAMS = ("bwrap", "setpriv", "setsid")
NEEDED = ("--bind-fd", "--disable-userns", "--size", "--seccomp")


class SandboxUnavailable(InternalError):
    """Commands have to run in a sandbox, and none works here, so no command runs."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"commands run only in a sandbox, and {reason}", {"kind": "sandbox_unavailable"})


class Sandbox:
    """The sandbox's settings: what a command may see and change besides the workspace; by default nothing."""

    def __init__(
        self,
        *,
        network: bool = False,
        read_only: Iterable[Path] = (),
        protected: Iterable[str] | None = None,
        user: tuple[int, int] | None = None,
        hard_links: HardLinks = "break",
    ) -> None:
        """`read_only`: further visible paths, such as a toolchain in a home; links are followed now.

        `protected`: paths below the workspace that cannot be changed, by default those that `covers.py` knows and
        finds.  `user`: the user that a host running as root becomes.  `hard_links`: how to treat files in the
        workspace that have another name outside: "break" copies them, "refuse" runs no command, "keep" lets
        commands change them.
        """
        self.network, self.user, self.hard_links = network, user, hard_links
        self.read_only = tuple(os.path.join(os.getcwd(), os.fspath(path)) for path in read_only)
        self._visible = {path: os.path.realpath(path) for path in self.read_only}
        self.programs = {
            name: find_program(name) for name in PROGRAMS
        }  # found once, so that other programs of these names are not run later
        self._looks = protected is None
        self.protected = tuple(sorted(map(os.path.normpath, covers.ALWAYS if protected is None else protected)))
        self.landlock = landlock.version()  # 0 for none
        self._checking = asyncio.Lock()
        self._escapes: list[str] | None = None  # the trial's findings; None before the trial

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables in which the environment inside differs from the host's."""
        return {"HOME": HOME, "TMPDIR": "/tmp"}

    async def check(self, roots: Sequence[Place] = ()) -> None:
        """Try once to escape; raises SandboxUnavailable unless every attempt fails.

        `roots` are the directories where commands will write: no program from there is run outside the sandbox.
        """
        paths = [_where(root) for root in roots]
        for name, program in self.programs.items():
            if program and any(is_inside(program, path) for path in paths):
                raise SandboxUnavailable(f"{name} lies in the workspace; take its directory off the PATH")
        if why := overlap(map(Writable, paths), self.read_only, own_things()):
            raise SandboxUnavailable(why)
        async with self._checking:
            if self._escapes is None:
                if missing := await asyncio.to_thread(_missing, self.programs["bwrap"]):
                    raise SandboxUnavailable(missing)
                self._escapes = await self._tried()
                log.info("%s", landlock.described(self.landlock))
        if self._escapes:
            raise SandboxUnavailable(f"this one can be escaped: {'; '.join(self._escapes)}")

    async def survey(self, roots: Sequence[Place]) -> dict[Place, Sequence[str]]:
        """Find the further paths to protect below each root, for `wrap`.

        The result is by root and not by path, so that a renamed root is protected as well.
        """
        if not self._looks:
            return {}
        try:
            return {root: await asyncio.to_thread(covers.existing, root.working_directory) for root in roots}
        except covers.Endless as exc:
            raise SandboxUnavailable(str(exc)) from exc

    async def separate(self, roots: Sequence[Place]) -> None:
        """Copy files that have hard links outside the workspace; refuse to run commands if that fails."""
        uid = os.geteuid() or (self.user or (os.fstat(roots[0].fd).st_uid,))[0]
        try:
            await asyncio.to_thread(separate, roots, uid, self.hard_links)
        except Linked as exc:
            raise SandboxUnavailable(f'{exc}; change that, or allow it with hard_links="keep"') from exc

    async def _tried(self) -> list[str]:
        from .trial import Untried, attempts  # the trial itself needs a sandbox

        try:
            return await attempts(self)
        except Untried as exc:  # a failure that the next command may not have
            raise SandboxUnavailable(f"this one could not be tested: {exc}") from exc

    def wrap(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        roots: Sequence[Place],
        *,
        interactive: bool = False,
        limits: Mapping[str, int] = MappingProxyType({}),
        found: Mapping[Place, Sequence[str]] = MappingProxyType({}),
        shown: Sequence[Place] = (),
        strays: Mapping[str, Place] = MappingProxyType({}),
    ) -> Wrapped:
        """The program to run for a command that may write below these roots only; `found` is from `survey`.

        `shown` can be read as well.  `strays` are mounted as if by mistake, to test that Landlock prevents their
        use.
        """
        bwrap = self.programs["bwrap"]
        if bwrap is None:
            raise SandboxUnavailable("bubblewrap is not installed (package bubblewrap)")
        if interactive:
            argv = [*self._taking_terminal(), *argv]
        plan = MountPlan()
        try:
            with contextlib.ExitStack() as opened:
                plan.surround(network=self.network, interactive=interactive)
                located = {_where(root): root for root in roots}  # read once, since they may be renamed meanwhile
                writable = {path: root.fd for path, root in located.items()}
                self._bind(plan, writable, {place.path: place.fd for place in shown}, opened)
                for path, stray in strays.items():
                    plan.bind(stray.fd, path, writable=True)
                self._name(plan, {root.named: root.path for root in roots if root.path in writable})
                if not any(is_beneath(cwd, root) for root in (*writable, HOME)):
                    raise InvalidParams(f"{cwd!r} is not in the workspace", {"kind": "cannot_start"})
                for path, root in located.items():
                    plan.protect(root.fd, path, sorted({*self.protected, *found.get(root, ())}))
                if len(plan.wrapped.descriptors) > MOST_DESCRIPTORS - SPARE_DESCRIPTORS:
                    raise SandboxUnavailable("there are more repositories in the workspace than it can protect")
                plan.begin(argv, env, cwd, self.landlock, limits)
                return plan.wrap(self._becoming(next(iter(writable.values()))), bwrap)
        except BaseException as exc:
            plan.wrapped.close()
            if isinstance(exc, Unprotectable):
                raise SandboxUnavailable(str(exc)) from exc
            raise

    def _bind(
        self, plan: MountPlan, writable: Mapping[str, int], shown: Mapping[str, int], opened: contextlib.ExitStack
    ) -> None:
        """Mount the workspace and the other visible paths, each after the one that contains it."""
        for root in writable:
            if any(is_beneath(path, root) for path in NO_WORKSPACE):
                raise SandboxUnavailable(f"{root} cannot be written in it")
        seen = {path: _opened(path, opened) for path in self._visible.values()}
        for path, fd in sorted({**seen, **shown, **writable}.items(), key=lambda entry: entry[0].count("/")):
            plan.show(fd, path, writable=path in writable)

    def _name(self, plan: MountPlan, roots: dict[str, str]) -> None:
        """Make each path also available under the name that was given, if that leads through a link."""
        named = {name_of(path): real for path, real in (self._visible | roots).items()}
        there = [*SYSTEM, *NO_WORKSPACE, *named.values()]
        for name, path in sorted(named.items()):
            if name and not any(is_beneath(name, other) for other in there):
                plan.link(name, path)
                there.append(name)

    def _becoming(self, root: int) -> Sequence[str]:
        """The command that makes a host running as root another user: by default the owner of the first root."""
        if os.geteuid() != 0:
            return ()
        owner = os.fstat(root)
        uid, gid = self.user or (owner.st_uid, owner.st_gid)
        if uid == 0:
            raise SandboxUnavailable(
                "nothing in it runs as root: give the workspace to another user, or name one with user=(uid, gid)"
            )
        setpriv = self.programs["setpriv"]
        if setpriv is None:
            raise SandboxUnavailable("setpriv is not installed (package util-linux)")
        who = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--pdeathsig=keep"]
        return [setpriv, *who]

    def _taking_terminal(self) -> Sequence[str]:
        """The command that makes the terminal the command's own; otherwise Ctrl-C would end the sandbox as well."""
        setsid = self.programs["setsid"]
        if setsid is None:
            raise SandboxUnavailable("setsid is not installed (package util-linux)")
        return [setsid, "--ctty"]


def _opened(path: str, opened: contextlib.ExitStack) -> int:
    """A descriptor of a real path, opened now since a toolchain may have been replaced meanwhile."""
    try:
        return opened.enter_context(open_unlinked(path)).fd
    except OSError as exc:
        raise SandboxUnavailable(f"{path} cannot be made visible in it: {exc.strerror}") from exc


def _where(root: Place) -> str:
    """The present path of a directory, which is also its path inside."""
    try:
        return root.now()
    except FileNotFoundError as exc:
        raise InvalidParams(f"{root.path!r} was deleted", {"kind": "cannot_start"}) from exc


def _missing(bwrap: str | None) -> str:
    """The requirement of a sandbox that this system does not meet."""
    if sys.platform != "linux":
        return "there is none on this system: it needs Linux"
    if not is_known_machine():
        return f"there is no filter of system calls for this machine ({platform.machine()})"
    if bwrap is None:
        return "bubblewrap is not installed (package bubblewrap)"
    if not runs_from_memory():
        return "programs cannot be run from memory (vm.memfd_noexec is 2, and would have to be 1)"
    try:
        asked = subprocess.run([bwrap, "--help"], capture_output=True, encoding="utf-8", timeout=10, check=False)
        known = asked.stdout
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"bubblewrap cannot be run: {exc}"
    lacking = [option for option in NEEDED if option not in known]
    return (
        f"bubblewrap is too old for {', '.join(lacking)}; it has to be 0.10, or one with its fixes"
        if lacking
        else ""
    )
