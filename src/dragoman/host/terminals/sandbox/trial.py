"""The trial of a sandbox: a program inside tries to escape (`escapes.py`), and its effects outside are checked.

The first run is without Landlock, since the mounts must suffice alone.  The second run is with Landlock, if the
kernel has it: one directory too many is mounted, as by mistake, and the program must be able neither to read it nor
to write.
"""

import asyncio
import contextlib
import json
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....errors import RpcError
from ....foundation.places import open_place
from ....foundation.programs import python_command
from ..children import Keeper, StartError
from .landlock import SCOPES_SINCE
from .sandbox import Sandbox
from .seccomp import forbidden_calls

PROGRAM = Path(__file__).with_name("escapes.py")
PATIENCE = 30.0  # seconds
ENOUGH = 40  # attempts; a trial with fewer does not count
NOBODY = (65534, 65534)
SEALED = (
    *("/etc/passwd", "/usr/bin/env"),
    *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname"),
    *("/proc/1/mem", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/release_agent"),
    *("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda"),
)
UNMADE = tuple(f"{place}/forbidden" for place in ("", "/usr", "/etc", "/var", "/proc", "/proc/1", "/dev"))
HIDDEN = (
    *("/etc/shadow", "/etc/ssh", "/etc/sudoers", "/var/log", "/var/lib", "/boot", "/proc/kcore", "/dev/mem"),
    *("/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/user", "/sys/kernel"),
)
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
STRAY = "/stray"
VARIABLES = {"PATH": "/usr/bin:/bin"}


class Untried(Exception):
    """The trial could not be completed; the text says why."""


async def attempts(sandbox: Sandbox) -> list[str]:
    """The ways in which a command can escape from this sandbox; raises Untried if they cannot be determined."""
    keeper = Keeper()
    try:
        with tempfile.TemporaryDirectory(prefix="dragoman-") as directory, _Scene(sandbox, directory) as scene:
            async with asyncio.timeout(PATIENCE):
                managed = _told(await scene.play(keeper, 0), ENOUGH)
                if sandbox.landlock:
                    managed += _told(await scene.play(keeper, sandbox.landlock))
            return managed + scene.damage()
    except TimeoutError as exc:  # a TimeoutError has no text
        raise Untried(f"its trial did not end within {PATIENCE:g} s") from exc
    except (OSError, RpcError, StartError) as exc:
        raise Untried(str(exc)) from exc
    finally:
        await keeper.close()


def _told(printed: bytes, enough: int = 0) -> list[str]:
    """The successful attempts, as the program inside reports them."""
    last = printed.strip().rpartition(b"\n")[2]
    try:
        report = json.loads(last)
        managed, tried = list(report["managed"]), int(report["tried"])
    except (ValueError, KeyError, TypeError):
        raise Untried(last[-500:].decode(errors="replace") or "the trial printed nothing") from None
    if tried < enough:
        raise Untried(f"only {tried} attempts were made")
    return managed


class _Scene:
    """The setting of a trial: a workspace, a secret beside it, and listeners on every kind of address."""

    def __init__(self, sandbox: Sandbox, directory: str) -> None:
        user = sandbox.user or NOBODY
        interpreter = sys.base_prefix
        read_only = sandbox.read_only if interpreter.startswith("/usr") else (*sandbox.read_only, interpreter)
        self._sandbox = Sandbox(
            network=sandbox.network, read_only=read_only, protected=sandbox.protected, user=user
        )
        self._sandbox.programs = sandbox.programs
        self._workspace = Path(directory, "workspace")
        self._secret = Path(directory, "secret")
        self._stray = Path(directory, "stray")
        self._opened = contextlib.ExitStack()
        self._prepare(user)

    def _prepare(self, user: tuple[int, int]) -> None:
        self._secret.write_text("secret", encoding="utf-8")
        self._workspace.mkdir()
        self._stray.mkdir()
        (self._stray / "file").write_text("stray", encoding="utf-8")
        os.mkfifo(self._workspace / "pipe", 0o666)
        for number, path in enumerate(self._sandbox.protected):
            place = self._workspace / path
            if number % 2 == 0:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
        if os.geteuid() == 0:
            for found in (p for top in (self._workspace, self._stray) for p in (top, *top.rglob("*"))):
                os.chown(found, *user)
        self._before = self._protected()

    def __enter__(self) -> "_Scene":
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        self._pipe = os.open(self._workspace / "pipe", flags)
        self._opened.callback(os.close, self._pipe)
        self._datagrams = self._listen(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        abstract, named = f"\0dragoman-{secrets.token_hex(8)}", f"{self._secret}.socket"
        stream = socket.SOCK_STREAM
        self._private = [(socket.AF_UNIX, stream, self._listen(socket.AF_UNIX, stream, named).getsockname())]
        self._shared = [
            (socket.AF_INET, stream, self._listen(socket.AF_INET, stream, ("127.0.0.1", 0)).getsockname()),
            (socket.AF_INET, socket.SOCK_DGRAM, self._datagrams.getsockname()),
        ]
        self._abstract = (
            socket.AF_UNIX,
            stream,
            self._listen(socket.AF_UNIX, stream, abstract).getsockname().decode(),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _listen(self, family: int, kind: int, address: Any) -> socket.socket:
        wire = self._opened.enter_context(socket.socket(family, kind))
        wire.bind(address)
        wire.setblocking(False)
        if kind == socket.SOCK_STREAM:
            wire.listen()
        return wire

    async def play(self, keeper: Keeper, landlock: int) -> bytes:
        """Run the program inside, with a version of Landlock or without; returns its output."""
        self._sandbox.landlock = landlock
        (self._workspace / "written").unlink(missing_ok=True)
        told = json.dumps(self._beside_a_stray(landlock) if landlock else self._instructions())
        python, *words = python_command("-c", PROGRAM.read_text(encoding="utf-8"), told, site=False)
        argv = [os.path.realpath(python), *words]
        with open_place(self._workspace, os.O_DIRECTORY) as workspace, open_place(self._stray) as stray:
            strays = {STRAY: stray} if landlock else {}
            wrapped = self._sandbox.wrap(argv, VARIABLES, workspace.path, [workspace], strays=strays)
        with contextlib.ExitStack() as opened:
            opened.callback(wrapped.close)
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            here = os.open("/", os.O_PATH | os.O_CLOEXEC)
            reading, writing = os.pipe()
            for fd in (null, here, reading, writing):
                opened.callback(os.close, fd)
            os.set_blocking(reading, False)
            spec = wrapped.spec(limits={"CORE": 0})
            fds = [null, writing, writing, here, *wrapped.descriptors]
            child = await keeper.start(spec, fds, _Unheard())
            await child.gone.wait()
            return os.read(reading, 1 << 16)

    def _instructions(self) -> dict[str, Any]:
        kinds = {*NAMESPACES} & {*os.listdir("/proc/self/ns")} - ({"net"} if self._sandbox.network else set())
        return {
            "secret": str(self._secret),
            "forbidden": forbidden_calls(),
            "unwritable": [*SEALED, str(self._secret)],
            "unmakeable": UNMADE,
            "unreadable": [*HIDDEN, str(self._secret)],
            "protected": self._sandbox.protected,
            "namespaces": {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in kinds},
            "addresses": self._private + ([] if self._sandbox.network else [*self._shared, self._abstract]),
            "variables": list(VARIABLES),
            "pipe": "pipe",
        }

    def _beside_a_stray(self, landlock: int) -> dict[str, Any]:
        """The attempts for a directory that is mounted by mistake."""
        return {
            **self._instructions(),
            "forbidden": {},
            "protected": [],
            "namespaces": {},
            "unwritable": [f"{STRAY}/file"],
            "unmakeable": [f"{STRAY}/new"],
            "unreadable": [STRAY, f"{STRAY}/file"],
            "addresses": [self._abstract] if landlock >= SCOPES_SINCE else [],
        }

    def damage(self) -> list[str]:
        """The escapes that can be seen from outside."""
        found = []
        with contextlib.suppress(BlockingIOError):
            if not self._sandbox.network and self._datagrams.recv(1):
                found.append("datagrams reach the host")
        try:
            os.read(self._pipe, 1)
        except BlockingIOError:  # a process still has the other end
            found.append("a daemon outlives it")
        if self._protected() != self._before:
            found.append("protected paths were changed")
        written = self._workspace / "written"
        if written.exists() and written.stat().st_uid == 0:
            found.append("it is root outside")
        return found

    def _protected(self) -> list[tuple[str, list[str] | None]]:
        """The present state of the protected paths."""
        return [
            (path, sorted(os.listdir(place)) if place.is_dir() else [] if place.exists() else None)
            for path in self._sandbox.protected
            for place in [self._workspace / path]
        ]


class _Unheard:
    def exited(self, code: int) -> None:
        """Ignored: the output says more."""

    def gone(self, left: Sequence[int]) -> None:
        """Ignored: the child reports it."""
