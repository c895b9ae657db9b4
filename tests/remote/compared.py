"""Whether a server holds each attack, as JSON: `python -m remote.compared ours|uvicorn|hypercorn|granian`."""

import asyncio
import json
import sys

from .attacked import GROWTH, target, work_beside
from .attacks import ATTACKS
from .test_attacks import BORNE, SECONDS


async def holds(server, name):
    """Whether others work on beside an attack, the server's memory stays bounded, and it hangs up on a flood."""
    with target(server) as attacked:
        wire = "http/1.1" if server == "uvicorn" or "websocket" not in name else "websocket"
        try:
            async with asyncio.timeout(30):
                await listening(attacked.port)
                await work_beside(attacked, name, wire, SECONDS, hang_ups=0 if name in BORNE else 1)
        except Exception:
            return False
        return attacked.growth() < GROWTH


async def listening(port):
    """Wait until a server takes connections: some say their port before."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


if __name__ == "__main__":
    print(json.dumps({name: asyncio.run(holds(sys.argv[1], name)) for name in ATTACKS}))
