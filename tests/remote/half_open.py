"""A TCP proxy that breaks connections as networks do: one half is gone, the other lingers and hears of it late."""

import asyncio
import random
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

KINDS = ("half open", "both halves", "late delivery")
PREFACE = b"PRI * HTTP/2.0"


class Breaker:
    """Breaks every connection after a random number of bytes or seconds, until it is told to stop.

    *half open*: the client's half is closed or reset; the server's stays open for a while, then it is closed, reset
    or given what the client had sent last.  *both halves*: both go at once.  *late delivery*: the client's bytes
    are held back for a moment before its half goes, and reach the server once the client has long since come back.
    """

    def __init__(self, target, kind, seed, *, longest=20_000, linger=0.3, life=0.5, speaks_http2=True):
        self.breaks = 0
        self.is_breaking = False
        self.enough = asyncio.Event()
        self.wanted = 1
        self._target, self._kind = target, kind
        self._longest, self._linger, self._life = longest, linger, life
        self._speaks_http2 = speaks_http2
        self._random = random.Random(seed)
        self._tasks = set()
        self._writers = set()

    def accept(self, reader, writer):
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader, writer):
        try:
            theirs, ours = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, ours}
        try:
            await Broken(self, self._random, (reader, writer), (theirs, ours)).live()
        except OSError:
            pass
        finally:
            for end in (writer, ours):
                end.transport.abort()
            self._writers -= {writer, ours}

    def budget(self):
        """Bytes and seconds that a connection has."""
        return self._random.randrange(1, self._longest), self._random.uniform(0.01, self._life)

    @property
    def kind(self):
        return self._kind

    @property
    def linger(self):
        return self._random.uniform(0, self._linger)

    def admits(self, data):
        return self._speaks_http2 or not data.startswith(PREFACE)

    def broke(self):
        self.breaks += 1
        if self.breaks >= self.wanted:
            self.is_breaking = False
            self.enough.set()

    def break_so_many(self, count):
        self.wanted, self.is_breaking = self.breaks + count, True
        self.enough.clear()

    async def close(self):
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


class Broken:
    """One connection through the proxy."""

    def __init__(self, breaker, chance, client, server):
        self._breaker, self._random = breaker, chance
        self._client, self._server = client, server
        self._left, self._seconds = breaker.budget()
        self._over = asyncio.Event()
        self._held = bytearray()  # what the client sent and the server is not given yet
        self._is_held = False
        self._is_first = True

    async def live(self):
        parts = (self._from_client(), self._from_server(), self._live_out())
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if is_broken := self._over.is_set():
                self._break_clients_half()
                self._breaker.broke()
                tasks[0].cancel()
                if self._breaker.kind != "both halves":
                    await self._linger()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await self._end_servers_half(is_broken)

    def _break_clients_half(self):
        writer = self._client[1]
        writer.transport.abort() if self._random.random() < 0.5 else writer.close()

    async def _live_out(self):
        loop, began = asyncio.get_running_loop(), None
        while not self._over.is_set():
            await asyncio.sleep(0.005)
            if not self._breaker.is_breaking:
                began = None
                continue
            began = loop.time() if began is None else began
            age = loop.time() - began
            self._is_held = self._breaker.kind == "late delivery" and age > self._seconds / 2
            if age > self._seconds:
                self._over.set()

    def _spend(self, data):
        """What may still pass of some bytes."""
        if not self._breaker.is_breaking:
            return data
        passed = data[: self._left]
        self._left -= len(passed)
        if len(passed) < len(data):
            self._over.set()
        return passed

    async def _from_client(self):
        (reader, _), (_, writer) = self._client, self._server
        while data := await reader.read(self._random.choice((1, 17, 1000, 65536))):
            if self._is_first and len(data) < 3:
                data += await reader.read(100)
            if self._is_first and not self._breaker.admits(data):
                return
            self._is_first = False
            passed = self._spend(data)
            if self._is_held or len(passed) < len(data):
                self._held += data if self._is_held else data[len(passed) :]
            if not self._is_held:
                writer.write(passed)
                await writer.drain()
            if self._over.is_set():
                return

    async def _from_server(self):
        """To the client while it is there; afterwards into the void, or not even that."""
        (_, writer), (reader, _) = self._client, self._server
        swallows = self._random.random() < 0.5
        while data := await reader.read(self._random.choice((1, 17, 1000, 65536))):
            if not self._over.is_set():
                writer.write(self._spend(data))
                await writer.drain()
            elif not swallows:
                await asyncio.Event().wait()

    async def _linger(self):
        await asyncio.sleep(self._breaker.linger)

    async def _end_servers_half(self, is_broken):
        writer = self._server[1]
        is_late = self._breaker.kind == "late delivery" or (
            self._breaker.kind == "half open" and self._random.random() < 0.5
        )
        if is_broken and is_late and self._held:
            writer.write(bytes(self._held))
            await writer.drain()
            await self._linger()
        writer.transport.abort() if self._random.random() < 0.5 else writer.close()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def breaking(url, kind, seed, **options):
    """Yields a URL that leads to the same place through a proxy that breaks connections, and the proxy."""
    parts = urlsplit(url)
    breaker = Breaker((parts.hostname, parts.port), kind, seed, **options)
    server = await asyncio.start_server(breaker.accept, "127.0.0.1", 0)
    breaker.port = server.sockets[0].getsockname()[1]
    try:
        yield parts._replace(netloc=f"127.0.0.1:{breaker.port}").geturl(), breaker
    finally:
        server.close()
        await breaker.close()
        await asyncio.sleep(0)
