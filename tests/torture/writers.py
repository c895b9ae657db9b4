"""T09: many senders, one narrow pipe, a reader that takes what it likes when it likes."""

import asyncio
import fcntl
import os
import random
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.connection.connection import Connection
from dragoman.events import Method
from dragoman.framing import LineFramer

from .by_hand import opened

SAID = Method("said", Any, is_request=False)
NARROW = 4096


async def crowd(senders: int, frames: int, largest: int, seed: int) -> dict[str, int]:
    """Each sender sends so many frames of any size up to `largest`; gives what came out at the other end."""
    there, write_fd = os.pipe()
    fcntl.fcntl(write_fd, fcntl.F_SETPIPE_SZ, NARROW)
    read_fd, back = os.pipe()
    loop, all_there = asyncio.get_running_loop(), asyncio.Event()
    reader = Reader(there, random.Random(seed), senders * frames, lambda: loop.call_soon_threadsafe(all_there.set))
    connection = Connection(await opened(read_fd, write_fd))
    running = asyncio.create_task(connection.run())
    reader.start()
    async with asyncio.TaskGroup() as group:
        for sender in range(senders):
            group.create_task(_talk(connection, sender, frames, largest, random.Random(seed * 1000 + sender)))
    await all_there.wait()
    os.close(back)
    await running
    await asyncio.to_thread(reader.join)
    return reader.figures()


async def _talk(connection: Connection, sender: int, frames: int, largest: int, dice: random.Random) -> None:
    for number in range(frames):
        if connection.is_full:
            await connection.room()
        size = int(largest ** dice.random() ** 6)  # mostly small, now and then as large as can be
        connection.note(
            SAID, {"sender": sender, "number": number, "size": size, "text": chr(97 + sender % 26) * size}
        )
        if dice.random() < 0.1:
            await asyncio.sleep(0)


class Reader(threading.Thread):
    """Takes a random number of bytes at a time, and checks every frame it gets."""

    def __init__(self, fd: int, dice: random.Random, expected: int, done: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._fd, self._dice = fd, dice
        self._expected, self._done = expected, done
        self._last: dict[int, int] = {}
        self.intact = self.torn = self.disordered = 0

    def run(self) -> None:
        framer = LineFramer()
        while data := os.read(self._fd, self._dice.randint(1, NARROW)):
            for frame in framer.feed(data):
                self._check(frame)
                if self.intact + self.torn == self._expected:
                    self._done()
        os.close(self._fd)
        self.torn += len(framer.end())

    def _check(self, frame: Any) -> None:
        try:
            said = msgspec.json.decode(frame)["params"]
        except (msgspec.DecodeError, TypeError):
            self.torn += 1
            return
        whole = len(said["text"]) == said["size"] and set(said["text"]) == {chr(97 + said["sender"] % 26)}
        self.intact += whole
        self.torn += not whole
        self.disordered += said["number"] != self._last.get(said["sender"], -1) + 1
        self._last[said["sender"]] = said["number"]

    def figures(self) -> dict[str, int]:
        return {"intact": self.intact, "torn": self.torn, "disordered": self.disordered}
