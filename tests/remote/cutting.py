"""A TCP proxy that cuts: each connection through it is cut after a random number of bytes."""

import asyncio
import random
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

FIRST = 4000  # bytes the first connection may carry at least, so that there is something to come back to


class Cutter:
    """Cuts connections at random offsets, with a reset or an orderly end, until it is told to stop."""

    def __init__(self, target, seed, longest=20_000):
        self.cuts = 0
        self.is_cutting = True
        self.port = 0
        self._target, self._longest = target, longest
        self._random = random.Random(seed)
        self._tasks = set()
        self._writers = set()

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            theirs, ours = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        budget = Budget(self._random.randrange(self._longest) + (FIRST if not self.cuts else 0))
        self._writers |= {writer, ours}
        pumps = [
            asyncio.create_task(self._pump(reader, ours, budget)),
            asyncio.create_task(self._pump(theirs, writer, budget)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        is_reset = self._random.random() < 0.5
        for end in (writer, ours):
            if is_reset:
                end.transport.abort()
            else:
                end.close()
        self._writers -= {writer, ours}

    async def _pump(self, reader, writer, budget):
        while data := await reader.read(self._random.choice((1, 17, 1000, 65536))):
            if self.is_cutting and len(data) > budget.left:
                writer.write(data[: budget.left])
                self.cuts += 1
                return
            budget.left -= len(data)
            writer.write(data)
            await writer.drain()

    def stop_cutting(self):
        self.is_cutting = False

    async def close(self):
        for writer in self._writers:
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)


class Budget:
    def __init__(self, left):
        self.left = left


@asynccontextmanager
async def cut(url, seed, **options):
    """Yields a URL that leads to the same place through a proxy that cuts, and the proxy."""
    parts = urlsplit(url)
    cutter = Cutter((parts.hostname, parts.port), seed, **options)
    server = await asyncio.start_server(cutter.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield parts._replace(netloc=f"127.0.0.1:{port}").geturl(), cutter
    finally:
        server.close()
        await cutter.close()
        await asyncio.sleep(0)


class Way:
    """Leads connections somewhere, and can be cut and led elsewhere."""

    def __init__(self, port):
        self._port = port
        self._ends = set()
        self.lost = None  # an event: from now on whatever is sent is lost, and the event says that something was

    async def serve(self, reader, writer):
        try:
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._ends |= {writer, ours}
        await asyncio.gather(self._copy(reader, ours, is_lossy=True), self._copy(theirs, writer))
        self._ends -= {writer, ours}

    def lead_to(self, port):
        self._port = port

    def cut(self):
        for end in self._ends:
            end.transport.abort()

    async def _copy(self, reader, writer, is_lossy=False):
        try:
            while data := await reader.read(65536):
                if is_lossy and self.lost:
                    self.lost.set()
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def relay(url):
    """Yields a URL that leads to the same place through a relay, and the relay."""
    parts = urlsplit(url)
    way, tasks = Way(parts.port), set()

    async def accepted(reader, writer):
        tasks.add(asyncio.current_task())
        await way.serve(reader, writer)

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield parts._replace(netloc=f"127.0.0.1:{port}").geturl(), way
    finally:
        server.close()
        way.cut()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.sleep(0)
