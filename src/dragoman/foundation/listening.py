"""How a server of asyncio stops to listen."""

import asyncio

STEPS = 3  # of the loop, from a connection that is taken to the protocol that serves it


async def stop_listening(server: asyncio.Server) -> None:
    """Take no more connections; whoever was taken already is served, or ended by whoever owns the visits.

    A server of asyncio that is closed forgets the connections it has just taken: their clients are hung up on, and
    their sockets stay open until the garbage is collected.
    """
    loop = asyncio.get_running_loop()
    try:
        for socket in server.sockets:
            loop.remove_reader(socket.fileno())
        for _ in range(STEPS):
            await asyncio.sleep(0)
    finally:
        server.close()
