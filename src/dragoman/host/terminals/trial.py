"""A sandbox's trial: a program inside tries to get out (`escapes.py`), and we look at what it did outside."""

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

from ...errors import RpcError
from .bubblewrap import Wrapped
from .children import Keeper, StartError
from .sandbox import Sandbox
from .seccomp import forbidden_calls

PROGRAM = Path(__file__).with_name("escapes.py")
PATIENCE = 30.0  # seconds
ENOUGH = 40  # attempts; with fewer it was no trial
NOBODY = (65534, 65534)
SEALED = (
    *("/etc/passwd", "/usr/bin/env"),
    *("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname"),
    *("/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/release_agent"),
    *("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda"),
)
UNMADE = ("/forbidden", "/usr/forbidden", "/etc/forbidden", "/var/forbidden", "/proc/forbidden")
HIDDEN = (
    *("/etc/shadow", "/etc/ssh", "/etc/sudoers", "/var/log", "/var/lib", "/boot", "/proc/kcore", "/dev/mem"),
    *("/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/user", "/sys/kernel"),
)
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
VARIABLES = {"PATH": "/usr/bin:/bin"}


async def attempts(sandbox: Sandbox) -> list[str]:
    """In which ways a command gets out of a sandbox like this one; what hinders the trial counts as one."""
    keeper = Keeper()
    try:
        with tempfile.TemporaryDirectory(prefix="dragoman-") as directory, _Scene(sandbox, directory) as scene:
            async with asyncio.timeout(PATIENCE):
                managed = _told(await scene.play(keeper))
            return managed + scene.damage()
    except (OSError, RpcError, StartError) as exc:
        return [f"it cannot be tried: {exc}"]
    except TimeoutError:
        return ["its trial does not end"]
    finally:
        await keeper.close()


def _told(printed: bytes) -> list[str]:
    """What the program inside managed, by its own account."""
    last = printed.strip().rpartition(b"\n")[2]
    try:
        report = json.loads(last)
        managed, tried = list(report["managed"]), int(report["tried"])
    except (ValueError, KeyError, TypeError):
        return [f"it cannot be tried: {last[-500:].decode(errors='replace') or 'nothing was said'}"]
    return managed if tried >= ENOUGH else ["too little was tried"]


class _Scene:
    """A workspace, a secret beside it, and somebody who listens on every kind of address."""

    def __init__(self, sandbox: Sandbox, directory: str) -> None:
        user = sandbox.user or NOBODY
        interpreter = sys.base_prefix
        read_only = sandbox.read_only if interpreter.startswith("/usr") else (*sandbox.read_only, interpreter)
        self._sandbox = Sandbox(
            network=sandbox.network, read_only=read_only, protected=sandbox.protected, user=user
        )
        self._workspace = Path(directory, "workspace")
        self._secret = Path(directory, "secret")
        self._opened = contextlib.ExitStack()
        self._furnish(user)

    def _furnish(self, user: tuple[int, int]) -> None:
        self._secret.write_text("secret")
        self._workspace.mkdir()
        os.mkfifo(self._workspace / "pipe", 0o666)
        for number, path in enumerate(self._sandbox.protected):  # one is a directory, one a file, one is missing
            place = self._workspace / path
            if number % 3 == 0:
                place.mkdir(parents=True, exist_ok=True)
            elif number % 3 == 1:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.touch()
        if os.geteuid() == 0:
            for found in (self._workspace, *self._workspace.rglob("*")):
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
            (socket.AF_UNIX, stream, self._listen(socket.AF_UNIX, stream, abstract).getsockname().decode()),
        ]
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

    async def play(self, keeper: Keeper) -> bytes:
        """Run the program inside; gives what it printed."""
        python = os.path.realpath(sys.executable)
        argv = [python, "-I", "-S", "-c", PROGRAM.read_text(), json.dumps(self._instructions())]
        workspace = str(self._workspace)
        wrapped = self._sandbox.wrap(argv, VARIABLES, os.path.realpath(workspace), [workspace])
        with contextlib.ExitStack() as opened:
            opened.callback(wrapped.close)
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            here = os.open("/", os.O_PATH | os.O_CLOEXEC)
            reading, writing = os.pipe()
            for fd in (null, here, reading, writing):
                opened.callback(os.close, fd)
            os.set_blocking(reading, False)
            order = wrapped.order(limits={"CORE": 0})
            fds = [null, writing, writing, here, *wrapped.descriptors]
            child = await keeper.start(order, fds, _Unwrapping(wrapped))
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
            "addresses": self._private if self._sandbox.network else self._private + self._shared,
            "variables": list(VARIABLES),
            "pipe": "pipe",
        }

    def damage(self) -> list[str]:
        """What can be seen from outside to have gone wrong."""
        found = []
        with contextlib.suppress(BlockingIOError):
            if not self._sandbox.network and self._datagrams.recv(1):
                found.append("datagrams reach the host")
        try:
            os.read(self._pipe, 1)
        except BlockingIOError:  # somebody still has the other end
            found.append("a daemon outlives it")
        if self._protected() != self._before:
            found.append("protected paths were changed")
        written = self._workspace / "written"
        if written.exists() and written.stat().st_uid == 0:
            found.append("it is root outside")
        return found

    def _protected(self) -> list[tuple[str, list[str] | None]]:
        """What is where the protected paths are."""
        return [
            (path, sorted(os.listdir(place)) if place.is_dir() else [] if place.exists() else None)
            for path in self._sandbox.protected
            for place in [self._workspace / path]
        ]


class _Unwrapping:
    def __init__(self, wrapped: Wrapped) -> None:
        self._wrapped = wrapped

    def exited(self, code: int) -> None:
        """What it printed says more."""

    def gone(self, left: Sequence[int]) -> None:
        self._wrapped.unwrap()
