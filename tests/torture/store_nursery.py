"""Agent processes by the hundred: one that has everything loaded makes each by forking, so that it costs a moment.

Run as a program with a socket as its standard input: for every pair of pipes that arrives it makes an agent.
"""

import array
import gc
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from dragoman import Agent, Turn, serve
from dragoman.store import Store, durable


class Labourer(Agent):
    """Says numbered words around a tool that leaves a mark whenever it really runs."""

    async def answer(self, turn: Turn) -> None:
        number, words = turn.text.split()
        for word in range(int(words) // 2):
            await turn.say(f"{number}.{word} ")
        async with turn.tool(f"tool of {number}", kind="execute") as call:
            mark(number)
            await call.text("at work")
            for word in range(int(words) // 2, int(words)):
                await turn.say(f"{number}.{word} ")


def mark(number: str) -> None:
    with open(os.environ["MARKS"], "a") as marks:
        marks.write(f"{number}\n")


class Nursery:
    """Makes agent processes; `born` gives the ends of their pipes and their ids."""

    def __init__(self, path: Path, level: str = "process") -> None:
        self.marks = path / "marks"
        self.marks.touch()
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(path / "store"), level],
            stdin=theirs,
            env={**os.environ, "MARKS": str(self.marks)},
        )
        theirs.close()

    def born(self) -> tuple[int, int, int]:
        """A new agent: where it is written to, where it is read from, its process id."""
        reading, writing = os.pipe(), os.pipe()
        socket.send_fds(self._socket, [b"."], [reading[0], writing[1]])
        os.close(reading[0])
        os.close(writing[1])
        (pid,) = array.array("q", self._socket.recv(8))
        return reading[1], writing[0], pid

    def ran(self) -> bytes:
        """The numbers of the turns whose tool has run, in order, as often as it has."""
        return self.marks.read_bytes()

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def _main(path: str, level: str) -> None:
    import concurrent.futures.thread  # noqa: F401  all of these are loaded once, here
    import ctypes  # noqa: F401

    from dragoman.store.database import database, reading, thread  # noqa: F401
    from dragoman.transports import stdio  # noqa: F401

    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    control = socket.socket(fileno=os.dup(0))
    while True:
        word, fds, _, _ = socket.recv_fds(control, 1, 2)
        if not word:
            return
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(fds[0], 0)
            os.dup2(fds[1], 1)
            for fd in fds:
                os.close(fd)
            control.close()
            serve(durable(Labourer, Store(path, level=level)))  # type: ignore[arg-type]
            os._exit(0)
        for fd in fds:
            os.close(fd)
        control.send(array.array("q", [pid]).tobytes())


if __name__ == "__main__":
    _main(*sys.argv[1:])
