"""A client that takes turns and says on stdout how far it has come.

`stopped_client.py CLIENT WIRE URL TURNS HEADERS`, the last as a JSON object; a turn that
is not whole ends it with an error.
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from remote.enduring import endure_turn, reached


async def main(client, wire, url, turns, headers):
    async with reached(client, wire, url, headers) as user:
        session = await user.new_session("/")
        print("begun", flush=True)
        for turn in range(1, turns + 1):
            print("turn", turn, flush=True)
            await endure_turn(user, session, turn, ticks=client == "connect" and not headers)
    print("done", flush=True)


asyncio.run(main(*sys.argv[1:4], int(sys.argv[4]), json.loads(sys.argv[5])))
