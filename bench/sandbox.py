"""What a sandbox costs: the start of a command in one, against the start of a bare one.

    python bench/sandbox.py [SAMPLES] [--against DIR]

Each sample is `true`, from `Terminals.create` until its exit is known; contenders take turns.  As root it makes the
directory another user's, since nothing in a sandbox runs as root.

`--against` names another checkout, such as a worktree of an older commit.  Its library takes turns with this one,
each in processes of its own, and the last line compares the two ratios.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from run import EARLIER, sources

from dragoman.host.terminals import Sandbox, Terminals, execution

SAMPLES = 40
ROUNDS = 4  # in which two libraries take turns
OWNER = (1000, 1000)

Pair = tuple[float, float]  # seconds: bare, in a sandbox


async def sample(terminals: Terminals, directory: str) -> float:
    begun = time.perf_counter()
    terminal = await terminals.create("s", execution("true", cwd=directory))
    await terminal.wait()
    took = time.perf_counter() - begun
    await terminals.release("s", terminal.id)
    return took


async def measure(samples: int) -> list[Pair]:
    """Samples of the library that this process has."""
    with tempfile.TemporaryDirectory() as directory:
        os.makedirs(os.path.join(directory, ".git", "hooks"))
        if os.geteuid() == 0:
            os.chown(directory, *OWNER)
        async with Terminals() as bare, Terminals(sandbox=Sandbox()) as boxed:
            await sample(bare, directory)
            await sample(boxed, directory)  # with its trial
            return [(await sample(bare, directory), await sample(boxed, directory)) for _ in range(samples)]


def measure_apart(samples: int, library: Path | None) -> list[Pair]:
    """The same in a process of its own, with the library of another checkout if one is given."""
    env = os.environ if library is None else {**os.environ, "PYTHONPATH": str(library)}
    command = [sys.executable, __file__, str(samples), "--figures"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [(bare, boxed) for bare, boxed in json.loads(done.stdout)]


def told(name: str, pairs: Sequence[Pair]) -> float:
    """Print the figures of one library; gives its ratio."""
    outside, inside = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    ratio: float = inside / outside
    print(f"{name}: bare {outside:.1f} ms, in a sandbox {inside:.1f} ms, {ratio:.1f} x")
    return ratio


def compare(samples: int, library: Path) -> None:
    ours, theirs = list[Pair](), list[Pair]()
    for _ in range(ROUNDS):
        theirs += measure_apart(max(1, samples // ROUNDS), library)
        ours += measure_apart(max(1, samples // ROUNDS), None)
    before, now = told(EARLIER, theirs), told("ours", ours)
    print(f"ours is {now / before:.2f} of {EARLIER}")


def main() -> None:
    parser = argparse.ArgumentParser(description="what a sandbox costs")
    parser.add_argument("samples", nargs="?", type=int, default=SAMPLES)
    parser.add_argument("--against", metavar="DIR", help="have the library of another checkout take part")
    parser.add_argument("--figures", action="store_true", help="print every sample as JSON")
    arguments = parser.parse_args()
    if arguments.against:
        compare(arguments.samples, sources(arguments.against))
    elif arguments.figures:
        print(json.dumps(asyncio.run(measure(arguments.samples))))
    else:
        told("ours", asyncio.run(measure(arguments.samples)))


if __name__ == "__main__":
    main()
