"""Commands in a sandbox of bubblewrap: they write in the workspace and nowhere else, and see little besides.

Inside there is the system, read-only; the workspace, of which protected paths cannot be changed, nor made where
they do not exist; an empty home, /tmp and /run; no other processes, no network unless it is allowed, no privileges,
and no system call that `seccomp.py` forbids.  Everything dies with the sandbox, daemons included.  It never runs as
root: a host that is root becomes the user who owns the workspace.

`Sandbox.check` tries to get out of it, once (`trial.py`).  Unless every attempt fails, nothing runs.
"""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

from ...errors import InternalError, InvalidParams
from .bubblewrap import HOME, Plan, Unprotectable, Wrapped
from .placeholders import Placeholders

Directory = str | int  # a path, or an open descriptor

# What an editor, a shell, git or another agent runs code from when the workspace is opened the next time.
PROTECTED = (
    *(".git/hooks", ".git/config", ".git/info/attributes", ".gitmodules"),
    *(".vscode", ".idea", ".zed", ".cursor", ".claude", ".codex", ".gemini"),
    *(".mcp.json", ".envrc"),
)
NO_WORKSPACE = ("/usr", "/etc", "/proc", "/dev", "/sys", "/run")  # nor what contains one of them
NEEDED = ("--bind-fd", "--disable-userns", "--size", "--seccomp")


class SandboxUnavailable(InternalError):
    """Commands are to run in a sandbox, and there is none that holds; so none runs."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"commands run in a sandbox only, and {reason}", {"kind": "sandbox_unavailable"})


class Sandbox:
    """What a command may see and change besides the workspace; nothing by default."""

    def __init__(
        self,
        *,
        network: bool = False,
        read_only: Iterable[Directory] = (),
        protected: Iterable[str] = PROTECTED,
        user: tuple[int, int] | None = None,
    ) -> None:
        """`read_only`: more to see, such as a toolchain in somebody's home.

        `protected`: paths below the workspace that cannot be changed; `user`: who a host that is root becomes.
        """
        self.network, self.user = network, user
        self.read_only = tuple(read_only)
        self.protected = tuple(sorted(os.path.normpath(path) for path in protected))
        self._directories = Placeholders()
        self._checking = asyncio.Lock()
        self._verdict: str | None = None  # empty: it holds

    @property
    def environ(self) -> Mapping[str, str]:
        """In what the environment inside differs from the host's."""
        return {"HOME": HOME, "TMPDIR": "/tmp"}

    async def check(self) -> None:
        """Try, once, to get out; raises SandboxUnavailable unless that fails in every way."""
        async with self._checking:
            if self._verdict is None:
                self._verdict = await asyncio.to_thread(_missing) or await self._tried()
        if self._verdict:
            raise SandboxUnavailable(self._verdict)

    async def _tried(self) -> str:
        from .trial import attempts  # which needs a sandbox

        successes = await attempts(self)
        return f"this one does not hold: {'; '.join(successes)}" if successes else ""

    def wrap(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        roots: Sequence[Directory],
        *,
        interactive: bool = False,
    ) -> Wrapped:
        """What to run for a command that is to write below these roots and nowhere else."""
        bwrap = shutil.which("bwrap")
        if bwrap is None:
            raise SandboxUnavailable("bubblewrap is gone")
        if interactive:
            argv = [*_taking_terminal(), *argv]
        plan = Plan(self._directories)
        try:
            with contextlib.ExitStack() as opened:
                plan.surround(env, network=self.network, interactive=interactive)
                writable = dict(_opened(root, opened) for root in roots)
                self._bind(plan, writable, opened)
                if not any(cwd == root or cwd.startswith(f"{root}/") for root in writable):
                    raise InvalidParams(f"{cwd!r} is not in the workspace", {"kind": "cannot_start"})
                for root, fd in writable.items():
                    for path in self.protected:
                        plan.protect(fd, root, path)
                return plan.wrap(self._becoming(next(iter(writable.values()))), bwrap, cwd, argv)
        except BaseException as exc:
            plan.wrapped.close()
            plan.wrapped.unwrap()
            if isinstance(exc, Unprotectable):
                raise SandboxUnavailable(f"{exc} is a symbolic link, which cannot be protected") from exc
            raise

    def _bind(self, plan: Plan, writable: Mapping[str, int], opened: contextlib.ExitStack) -> None:
        """Show the workspace and what else is to be seen, what is inside another after it."""
        for root in writable:
            if any(place == root or f"{place}/".startswith(f"{root.rstrip('/')}/") for place in NO_WORKSPACE):
                raise SandboxUnavailable(f"{root} cannot be written in it")
        seen = dict(_opened(path, opened) for path in self.read_only)
        for path, fd in sorted({**seen, **writable}.items(), key=lambda entry: entry[0].count("/")):
            plan.bind(fd, path, writable=path in writable)

    def _becoming(self, root: int) -> Sequence[str]:
        """What makes a host that is root somebody else: whoever owns the first root, unless told."""
        if os.geteuid() != 0:
            return ()
        owner = os.fstat(root)
        uid, gid = self.user or (owner.st_uid, owner.st_gid)
        if uid == 0:
            raise SandboxUnavailable(
                "nothing in it runs as root: give the workspace to another user, or name one with user=(uid, gid)"
            )
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise SandboxUnavailable("setpriv is not installed (package util-linux)")
        who = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs", "--pdeathsig=keep"]
        return [setpriv, *who]


def _opened(directory: Directory, opened: contextlib.ExitStack) -> tuple[str, int]:
    """Where a directory or file really is, and a descriptor of it."""
    try:
        fd = directory if isinstance(directory, int) else os.open(directory, os.O_PATH | os.O_CLOEXEC)
    except OSError as exc:
        raise SandboxUnavailable(f"{directory} cannot be shown in it: {exc.strerror}") from exc
    if fd is not directory:
        opened.callback(os.close, fd)
    return os.readlink(f"/proc/self/fd/{fd}"), fd


def _taking_terminal() -> Sequence[str]:
    """What makes a terminal the command's own: were it the sandbox's too, Ctrl-C would end the sandbox."""
    setsid = shutil.which("setsid")
    if setsid is None:
        raise SandboxUnavailable("setsid is not installed (package util-linux)")
    return [setsid, "--ctty"]


def _missing() -> str:
    """What a sandbox needs and this system has not."""
    if sys.platform != "linux":
        return "there is none on this system: it needs Linux"
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return "bubblewrap is not installed (package bubblewrap)"
    try:
        known = subprocess.run([bwrap, "--help"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"bubblewrap cannot be run: {exc}"
    lacking = [option for option in NEEDED if option not in known]
    return (
        f"bubblewrap is too old for {', '.join(lacking)}; it has to be 0.10, or one with its fixes"
        if lacking
        else ""
    )
