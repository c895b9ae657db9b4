"""Dragoman's agent in the benchmark of the store: the same worker, with sessions kept at the level it is told."""

import sys

from ours_agent import Worker

from dragoman import serve
from dragoman.store import Store, durable

if __name__ == "__main__":
    level, path = sys.argv[1:]
    serve(Worker if level == "none" else durable(Worker, Store(path, level=level)))  # type: ignore[arg-type]
