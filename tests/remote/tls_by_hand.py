"""A proxy that terminates TLS, as a front end of a server does, and ends connections in ways no library offers."""

import asyncio
import contextlib
import ssl

MARK = b"end-it-here"  # what a server says where its connection is to end
STRAY = b"\x17\x03\x03\x00\x20" + bytes(32)  # a record that nobody has sealed


class TlsEnd:
    """The server's end of one TLS connection."""

    def __init__(self, context, reader, writer):
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._reader, self._writer = reader, writer

    async def shake_hands(self):
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._incoming.write(await self._reader.read(65536))
            else:
                self._flush()
                return

    async def read(self):
        """What the client says next; nothing at its end."""
        while True:
            try:
                return self._tls.read(65536)
            except ssl.SSLWantReadError:
                if not (data := await self._reader.read(65536)):
                    return b""
                self._incoming.write(data)
            except ssl.SSLZeroReturnError:
                return b""

    async def write(self, data):
        if data:
            self._tls.write(data)
        self._flush()
        await self._writer.drain()

    def _flush(self):
        self._writer.write(self._outgoing.read())

    async def alert(self):
        """Send a fatal alert, as a server does that receives a record nobody has sealed, and hang up."""
        self._incoming.write(STRAY)
        with contextlib.suppress(ssl.SSLError):
            self._tls.read(1)
        await self.hang_up()

    async def say_goodbye(self):
        """Send close_notify, and hang up."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        await self.hang_up()

    async def hang_up(self):
        self._flush()
        self._writer.close()

    async def reset(self):
        self._writer.transport.abort()


ENDINGS = {
    "a fatal alert": TlsEnd.alert,
    "no close_notify": TlsEnd.hang_up,
    "close_notify": TlsEnd.say_goodbye,
    "a reset": TlsEnd.reset,
}


class TlsProxy:
    """Leads to a plain server; ends a connection right behind the mark, as often as it is told to."""

    def __init__(self, context, port, ending, times):
        self._context, self._port = context, port
        self._ending, self._times = ENDINGS[ending], times
        self.ended = 0

    async def serve(self, reader, writer):
        client = TlsEnd(self._context, reader, writer)
        await client.shake_hands()
        theirs, ours = await asyncio.open_connection("127.0.0.1", self._port)
        passing = [
            asyncio.create_task(step) for step in (self._inward(client, ours), self._outward(theirs, client))
        ]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
            ours.transport.abort()

    async def _inward(self, client, writer):
        while data := await client.read():
            writer.write(data)
            await writer.drain()

    async def _outward(self, reader, client):
        while data := await reader.read(65536):
            before, mark, _ = data.partition(MARK)
            if mark and self.ended < self._times:
                self.ended += 1
                await client.write(before + mark)
                await self._ending(client)
                return
            await client.write(data)
        await client.say_goodbye()
