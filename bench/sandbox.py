"""What a sandbox costs: the start of a command in one, against the start of a bare one.

    python bench/sandbox.py [SAMPLES]

Each sample is `true`, from `Terminals.create` until its exit is known; contenders take turns.  As root it makes the
directory another user's, since nothing in a sandbox runs as root.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time

from dragoman.host.terminals import Sandbox, Terminals, execution

SAMPLES = 40
OWNER = (1000, 1000)


async def sample(terminals: Terminals, directory: str) -> float:
    begun = time.perf_counter()
    terminal = await terminals.create("s", execution("true", cwd=directory))
    await terminal.wait()
    took = time.perf_counter() - begun
    await terminals.release("s", terminal.id)
    return took


async def main(samples: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        os.makedirs(os.path.join(directory, ".git", "hooks"))
        if os.geteuid() == 0:
            os.chown(directory, *OWNER)
        async with Terminals() as bare, Terminals(sandbox=Sandbox()) as boxed:
            await sample(bare, directory)
            await sample(boxed, directory)  # with its trial
            taken = [(await sample(bare, directory), await sample(boxed, directory)) for _ in range(samples)]
    outside, inside = (statistics.median(column) * 1000 for column in zip(*taken, strict=True))
    print(f"bare {outside:.1f} ms, in a sandbox {inside:.1f} ms, {inside / outside:.1f} x")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES))
