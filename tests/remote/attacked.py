"""The experiment behind `test_attacks`, at whatever size: a server is attacked while a client goes on working."""

import asyncio
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from dragoman import connect

from .attacks import ATTACKS, Stop
from .serving import dial

HERE = Path(__file__).parent
GROWTH = 192  # MiB by which one attack may make a server grow: twice what it keeps of unfinished messages


class Target:
    """A server in a process of its own."""

    def __init__(self, process):
        self._process = process
        self.port = int(process.stdout.readline())
        self._at_rest = self._largest()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/acp"

    def growth(self):
        """The MiB by which its resident set has been larger than before anything was done to it."""
        return self._largest() - self._at_rest

    def _largest(self):
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        largest = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(largest.split()[1]) / 1024


@contextmanager
def target(server="ours"):
    command = [sys.executable, str(HERE / "target.py"), server]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Target(process)
        finally:
            process.kill()


async def work(url, wire, is_over):
    """Short turns on one connection, and now and then a new one, until it is over; gives the seconds each took."""
    took = []
    while not took or not is_over():
        async with asyncio.timeout(60), connect(await dial(wire, url)) as client:
            session = await client.new_session("/")
            for _ in range(20):
                began = time.perf_counter()
                assert (await session.prompt("echo still here")).stop_reason == "end_turn"
                took.append(time.perf_counter() - began)
                if is_over():
                    break
    return took


async def work_beside(target, name, wire, seconds, hang_ups):
    """Work while the server is attacked from here, for a while and until it has hung up on so many attackers."""
    stop, loop = Stop(), asyncio.get_running_loop()
    end = loop.time() + seconds
    attacking = asyncio.create_task(ATTACKS[name](target.port, stop))
    try:
        return await work(target.url, wire, lambda: loop.time() > end and stop.hang_ups >= hang_ups)
    finally:
        stop.is_over = True
        attacking.cancel()
        await asyncio.gather(attacking, return_exceptions=True)


async def work_beside_process(target, name, wire, seconds):
    """Work while another process attacks the server at the full speed of a core."""
    attacker = subprocess.Popen([sys.executable, str(HERE / "attacks.py"), name, str(target.port), str(seconds)])
    try:
        return await work(target.url, wire, lambda: attacker.poll() is not None)
    finally:
        attacker.kill()
        attacker.wait()
