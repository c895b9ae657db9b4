"""A server to be attacked, as a process: prints its port, and serves until it is killed."""

import asyncio

from dragoman.testing import Testy
from dragoman.transports.remote.server.asgi import endpoint
from dragoman.transports.remote.server.server import listening


async def main():
    async with listening(endpoint(Testy)) as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
