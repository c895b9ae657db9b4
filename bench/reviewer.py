"""Reviewing 5,000 Python files: the reviewer, as a client drives it, against Ruff alone with the same rules.

python reviewer.py [ROUNDS]      the median of so many rounds, in each of which both take their turn

The files are copies of the standard library's and of what is installed, up to 60 KB each.
"""

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median

from dragoman import Client, connect
from dragoman.foundation.programs import own_command
from dragoman.reviewer.settings import RULES

FILES, LARGEST = 5_000, 60_000


def grow(root: Path) -> int:
    """The files in directories of a hundred; how many there are."""
    places = [Path(shutil.__file__).parent, *(Path(entry) for entry in sys.path if entry.endswith("site-packages"))]
    found = (path for place in dict.fromkeys(places) for path in sorted(place.rglob("*.py")))
    small = (path for path in found if 0 < path.stat().st_size < LARGEST)
    count = 0
    for count, path in enumerate(islice(small, FILES), 1):
        directory = root / f"part{count // 100}"
        directory.mkdir(exist_ok=True)
        shutil.copy(path, directory / f"file{count}.py")
    return count


def ruff(root: Path) -> float:
    command = ["ruff", "check", "--quiet", "--no-cache", "--isolated", "--exit-zero", "--select", RULES]
    started = time.perf_counter()
    subprocess.run([*command, "--output-format", "json", str(root)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


async def reviewer(root: Path) -> float:
    async with connect(own_command("dragoman", "agent", "reviewer"), Client()) as client:
        session = await client.new_session(cwd=root)
        started = time.perf_counter()
        await session.prompt("/review")
        return time.perf_counter() - started


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        count = grow(root)
        times = [(ruff(root), asyncio.run(reviewer(root))) for _ in range(rounds)]
    theirs, ours = (median(column) for column in zip(*times, strict=True))
    ratio = median(ours / theirs for theirs, ours in times)
    print(f"{count:,} files: Ruff alone {theirs:.1f} s, the reviewer {ours:.1f} s, {ratio:.1f} times as long")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
