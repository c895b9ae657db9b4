"""Experiments shared out among processes, one a core."""

import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Concatenate, ParamSpec

P = ParamSpec("P")
WORKERS = os.cpu_count() or 1


def share_out(
    work: Callable[Concatenate[int, int, P], Counter[str]],
    count: int,
    seed: int,
    *args: P.args,
    **kwargs: P.kwargs,
) -> Counter[str]:
    """Have an experiment made so often in all, each worker with a seed of its own; fails when one of them does."""
    shares = [count // WORKERS + (number < count % WORKERS) for number in range(WORKERS)]
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        results = [
            pool.submit(work, share, seed * 1000 + number, *args, **kwargs) for number, share in enumerate(shares)
        ]
        return sum((result.result() for result in results), Counter[str]())
