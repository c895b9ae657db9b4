"""A program of two halves: one hosts a gateway, the other is its clients, on the same machine.

`--host DIR` is how the clients' half starts the other.
"""

import argparse
import asyncio
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman.gateway.serving import ServeOptions, serve


class OtherHalf:
    """The process that hosts the gateway."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, start: float) -> None:
        self._process, self.url, self.start = process, url, start

    def memory(self) -> int:
        """The resident memory, in KiB."""
        found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self._process.pid}/status").read_text())
        assert found
        return int(found[1])

    def processor(self) -> float:
        """The seconds of the processor that it has used."""
        used = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")

    async def stop(self) -> float:
        """End it; gives how long that took."""
        began = time.monotonic()
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()
        return time.monotonic() - began


@asynccontextmanager
async def other_half(state: Path) -> AsyncIterator[OtherHalf]:
    """Start this program once more, to host the gateway."""
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, sys.argv[0], "--host", str(state), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    half = OtherHalf(process, (await process.stdout.readline()).decode().strip(), time.monotonic() - began)
    try:
        yield half
    finally:
        await half.stop()


def share_of(sorted_figures: Sequence[float], percent: float) -> float:
    """The figure that so many percent of all are not above."""
    return sorted_figures[int(len(sorted_figures) * percent / 100)]


def run(
    told: str | None,
    host: Callable[[Path], ServeOptions],
    measure: Callable[[Path], Coroutine[object, object, None]],
) -> None:
    """Be the half that the command line asks for; `told` is the program's help."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    parser = argparse.ArgumentParser(description=told)
    parser.add_argument("--host", type=Path, help=argparse.SUPPRESS)
    if directory := parser.parse_args().host:
        asyncio.run(serve(host(directory), lambda url: print(url, flush=True)))
        return
    with tempfile.TemporaryDirectory() as state:
        asyncio.run(measure(Path(state)))
