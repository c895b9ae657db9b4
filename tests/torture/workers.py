"""Experiments shared out among processes, one a core."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

WORKERS = os.cpu_count() or 1


def with_tests() -> dict[str, str]:
    """The environment of a program that imports what this one does, and from the tests."""
    tests = str(Path(__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])}


def share_out(work: Callable[..., Counter[str]], count: int, seed: int, **more: str) -> Counter[str]:
    """Have an experiment made so often in all, each worker with a seed of its own; fails when one of them does."""
    shares = [count // WORKERS + (number < count % WORKERS) for number in range(WORKERS)]
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "torture.workers", work.__module__, work.__name__, str(share), str(number)],
            env={**with_tests(), "MORE": json.dumps(more)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, share in enumerate(shares, seed * 1000)
    ]
    counts: Counter[str] = Counter()
    results = [worker.communicate()[0] for worker in workers]
    for worker, result in zip(workers, results, strict=True):
        assert worker.returncode == 0, result
        *said, last = result.splitlines()
        print(*said, sep="\n")
        counts.update(json.loads(last))
    return counts


def _main(module: str, name: str, count: str, seed: str) -> None:
    work = getattr(import_module(module), name)
    print(json.dumps(work(int(count), int(seed), **json.loads(os.environ["MORE"]))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
