"""Commands as children that cannot outlive this process; `keeper.py` says how.

`Keeper` starts them, `Child` is one of them.  Nothing here blocks: a command is started by the keeper, not by a
fork of this process, which may be large and have threads.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from .keeper import MOST_DESCRIPTORS

PROGRAM = Path(__file__).with_name("keeper.py")
LOST = -9  # how a command ended whose supervisor was killed: so was the command


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to run, and as what."""

    argv: Sequence[str]
    env: Sequence[tuple[str, str]]
    tty: bool = False  # stdin is a terminal, and becomes the command's own
    limits: Mapping[str, int] = {}
    wrappers: int = 0  # processes around the command that signals pass by
    kept: int = 0  # descriptors for the command, from 3 up
    staged: int = 0  # descriptors to be shown under STAGE
    placeholders: Sequence[str] = ()  # empty directories to remove should we be killed; where they are comes last


class StartError(Exception):
    """The command could not be started; the text says why."""


class _NotTaken(StartError):
    """Nobody has said anything about the command."""


class Watch(Protocol):
    """Whoever is told about a child."""

    def exited(self, code: int) -> None:
        """The command has ended; a negative code is a signal."""

    def gone(self, left: Sequence[int]) -> None:
        """Nothing of what it started is left, but for these processes, which could not be ended."""


class Child(asyncio.Protocol):
    """A command and everything it starts."""

    pid = 0

    def __init__(self, order: Order, watch: Watch) -> None:
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self._order, self._watch = order, watch
        self._heard = b""
        self._runs = self._abandoned = False
        self._left: Sequence[int] = ()
        self._link: asyncio.Transport | None = None

    def signal(self, number: int) -> None:
        """Send a signal to the command and to what it has started."""
        self._write(bytes([number]))

    def end(self) -> None:
        """Kill the command and everything it has started, daemons included."""
        self._write(b"\0")

    def abandon(self) -> None:
        """End it, although it may not have begun."""
        self._abandoned = True
        self.end()

    def _write(self, data: bytes) -> None:
        if self._link and not self._link.is_closing():
            self._link.write(data)

    # What the supervisor says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._link = transport
        if self._abandoned:  # before it was asked for
            transport.close()
            return
        # Not msgspec's JSON: a variable of ours need not be UTF-8, and has to arrive as it is.
        transport.write(json.dumps(msgspec.structs.asdict(self._order)).encode() + b"\n")

    def data_received(self, data: bytes) -> None:
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            self._hear(msgspec.json.decode(line))

    def _hear(self, news: dict[str, Any]) -> None:
        match news:
            case {"pid": pid}:
                self.pid, self._runs = pid, True
                if not self.started.done():
                    self.started.set_result(None)
            case {"failed": reason}:
                self._fail(StartError(reason))
            case {"exit": code}:
                self._exit(code)
            case {"left": left}:
                self._left = left
                assert self._link
                self._link.close()  # there is nothing to wait for

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(_NotTaken("it was ended before it began"))
        self._exit(LOST)
        self.gone.set()
        if self.pid or self._abandoned:  # otherwise whoever starts it is told, and tells
            self._watch.gone(self._left)

    def _fail(self, error: StartError) -> None:
        if not self.started.done():
            self.started.set_exception(error)
            self.started.exception()  # it is no fault when nobody waits for it any more

    def _exit(self, code: int) -> None:
        if self._runs:
            self._runs = False
            self._watch.exited(code)


class Keeper:
    """Starts commands; its program is started with the first of them."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()  # each lives as long as its link

    async def start(self, order: Order, fds: Sequence[int], watch: Watch) -> Child:
        """Run a command on copies of stdin, stdout, stderr, its directory, and what else the order counts.

        Raises StartError when it cannot be run; the watch is told that it is gone in any case.
        """
        try:
            try:
                return await self._start(Child(order, watch), fds)
            except _NotTaken:
                if self._process is None or self._is_alive():  # it was closed, or the command itself is at fault
                    raise
                self._forget()  # somebody killed it before it ran anything
                return await self._start(Child(order, watch), fds)
        except StartError:
            watch.gone(())
            raise

    async def _start(self, child: Child, fds: Sequence[int]) -> Child:
        if len(fds) >= MOST_DESCRIPTORS:
            raise StartError("it would need too many descriptors")
        try:
            if self._control is None:
                self._launch()
            assert self._control
            ours, theirs = socket.socketpair()
        except OSError as exc:
            raise StartError(exc.strerror or str(exc)) from exc
        with theirs:
            try:
                socket.send_fds(self._control, [b"\0"], [theirs.fileno(), *fds])
            except OSError as exc:
                ours.close()
                raise _NotTaken(exc.strerror or str(exc)) from exc
        self._children.add(child)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: child, sock=ours)
            await child.started
        except asyncio.CancelledError:
            child.abandon()
            raise
        return child

    async def close(self) -> None:
        """End all commands, and the program that runs them, also when whoever waits for that is in a hurry."""
        for child in self._children:
            child.end()
        try:
            for child in tuple(self._children):
                await child.gone.wait()
        finally:
            if self._control and self._process:
                self._control.close()
                process, self._process, self._control = self._process, None, None
                await _ended(process)

    def _is_alive(self) -> bool:
        if self._control is None:
            return False
        try:
            return self._control.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _launch(self) -> None:
        if not hasattr(os, "fork") or not sys.executable:
            raise StartError("commands can be run on POSIX systems with a Python interpreter only")
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(PROGRAM), str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        ours.setblocking(False)
        self._control = ours

    def _forget(self) -> None:
        if self._control and self._process:
            self._control.close()
            self._process.wait()  # its end of the wire is closed, so it is over
            self._control = self._process = None


async def _ended(process: subprocess.Popen[bytes]) -> None:
    if not hasattr(os, "pidfd_open"):
        await asyncio.to_thread(process.wait)
        return
    loop, over, pidfd = asyncio.get_running_loop(), asyncio.Event(), os.pidfd_open(process.pid)
    loop.add_reader(pidfd, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        process.wait()  # its end of the wire is closed, so it is over soon even where nobody waits any more
