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
                await work_beside(attacked, name, wire, SECONDS, hang_ups=0 if name in BORNE else 1)
        except Exception:
            return False
        return attacked.growth() < GROWTH


if __name__ == "__main__":
    print(json.dumps({name: asyncio.run(holds(sys.argv[1], name)) for name in ATTACKS}))
