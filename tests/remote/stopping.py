"""A client in a process of its own that is stopped and continued while its connections break."""

import asyncio
import json
import random
import signal
import sys
from pathlib import Path

from .enduring import hosted
from .half_open import breaking

TURNS = 12
CLIENT = Path(__file__).parent / "stopped_client.py"


async def endure_stops(place, client, wire, *, stops, limit=60, longest_stop=0.3):
    """The client has its turns whole, once and in order, however often it is stopped for a while."""
    async with asyncio.timeout(limit), hosted(place) as (url, headers, name):
        is_http2 = wire == "http/2"
        async with breaking(url, "half open", wire, speaks_http2=is_http2, life=0.3) as (broken, breaker):
            name(breaker.port)
            command = [sys.executable, str(CLIENT), client, wire, broken, str(TURNS), json.dumps(headers)]
            process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            try:
                assert await process.stdout.readline() == b"begun\n"
                breaker.break_so_many(10 * stops)
                chance = random.Random(f"{place} {client} {wire}")
                for _ in range(stops):
                    await process.stdout.readline()  # a turn, or a part of one
                    process.send_signal(signal.SIGSTOP)
                    await asyncio.sleep(chance.uniform(0, longest_stop))
                    process.send_signal(signal.SIGCONT)
                rest = (await process.stdout.read()).split()
                assert (rest[-1:], await process.wait()) == ([b"done"], 0)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
    assert breaker.breaks
