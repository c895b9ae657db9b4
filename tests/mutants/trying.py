"""Tries rows on copies of a tree, several side by side, and judges each: noticed, or why not."""

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from .copies import make_copy, put, python_of
from .table import Row

LONGEST = 600.0  # seconds for one row, however busy the machine


@dataclass(frozen=True)
class Verdict:
    """What became of a row: `fault` is None where its tests noticed; `cost` is in seconds of processor time."""

    row: Row
    fault: str | None
    cost: float
    skipped: bool = False


class Worker(threading.Thread):
    """A copy of the tree, and the process that runs its tests."""

    def __init__(self, root: Path, place: Path, jobs: "queue.SimpleQueue[Callable[[Worker], None]]") -> None:
        super().__init__()
        self.root, self.place, self.jobs = root, place, jobs

    def run(self) -> None:
        make_copy(self.root, self.place)
        (self.place / "build").mkdir(exist_ok=True)
        command = [python_of(self.place), str(Path(__file__).with_name("trials.py"))]
        self.process = subprocess.Popen(
            command, cwd=self.place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )
        with self.process, contextlib.suppress(queue.Empty):
            while True:
                self.jobs.get_nowait()(self)

    def trial(self, tests: Iterable[str], extra: Iterable[str] = ()) -> dict[str, Any]:
        """Run these tests as the copy is now."""
        assert self.process.stdin
        assert self.process.stdout
        log = str(self.place / "build" / "trial.log")
        order = {"tests": sorted(tests), "extra": list(extra), "seconds": LONGEST, "log": log}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        result: dict[str, Any] = json.loads(self.process.stdout.readline())
        return result

    def usual(self, tests: set[str]) -> dict[str, Any]:
        """Run tests of one file as the tree is; each alone where one is not there, for pytest then runs none."""
        together = self.trial(tests)
        if len(tests) == 1 or together["passed"] or together["failures"] or together["skipped"]:
            return together
        alone = [self.trial([test]) for test in tests]
        joined = {name: [*chain(*(result[name] for result in alone))] for name in ("passed", "skipped", "failures")}
        return {**joined, "late": any(result["late"] for result in alone)}

    def mutated(self, row: Row, tests: Iterable[str], extra: Iterable[str] = ()) -> dict[str, Any]:
        """Run these tests with this row's mutation, and take it back."""
        path = self.place / "src" / "dragoman" / row.file
        text = path.read_text()
        put(path, text.replace(row.old, row.new))
        try:
            return self.trial(tests, extra)
        finally:
            put(path, text)


def environment() -> dict[str, str]:
    """Ours, but Python writes bytecode: without it every process of every test would compile all there is."""
    without = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if name not in without}


def judged(row: Row, result: dict[str, Any], usual: dict[str, dict[str, Any]]) -> Verdict:
    """Whether each of the row's tests passes as the tree is, and fails in the right way with the mutation."""
    faults, skipped = [], False
    for test in row.tests:
        before = usual[test.split("::")[0]]
        if any(_is(node, test) for node in before["skipped"]):
            skipped = True
        elif any(_is(node, test) for node, *_ in before["failures"]) or before["late"]:
            faults.append(f"{test} fails without the mutation")
        elif not any(_is(node, test) for node in before["passed"]):
            faults.append(f"there is no test {test}")
        elif result["late"]:
            faults.append(f"{test} does not end")
        else:
            faults.extend(_unnoticed(row, test, result))
    return Verdict(row, "; ".join(faults) or None, result["cost"], skipped and not faults)


def _unnoticed(row: Row, test: str, result: dict[str, Any]) -> list[str]:
    failures = [failure for failure in result["failures"] if _is(failure[0], test)]
    if any(set(kinds) & set(row.kinds) for _, when, kinds, _ in failures if when in ("call", "teardown")):
        return []
    if failures:
        return [f"{test} fails in another way: {failures[0][1]} {failures[0][2]} {failures[0][3]}"]
    if any(_is(node, test) for node in result["passed"]):
        return [f"{test} passes: the mutant survives"]
    why = result["failures"][0][3] if result["failures"] else f"pytest ends with {result['status']}"
    return [f"{test} does not run: {why}"]


def _is(node: str, test: str) -> bool:
    return node == test or node.startswith((f"{test}[", f"{test}::"))


def tried(rows: list[Row], root: Path, places: Path, workers: int) -> list[Verdict]:
    """Try rows; first their tests as the tree is, file by file, then each row."""
    named: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for test in row.tests:
            named[test.split("::")[0]].add(test)
    usual: dict[str, dict[str, Any]] = {}
    results: list[tuple[Row, dict[str, Any]]] = []
    jobs: queue.SimpleQueue[Callable[[Worker], None]] = queue.SimpleQueue()
    for file, tests in named.items():
        jobs.put(lambda worker, file=file, tests=tests: usual.update({file: worker.usual(tests)}))  # type: ignore[misc]
    for row in rows:
        jobs.put(lambda worker, row=row: results.append((row, worker.mutated(row, row.tests))))  # type: ignore[misc]
    run_workers([Worker(root, places / str(number), jobs) for number in range(workers)])
    if len(results) != len(rows) or len(usual) != len(named):
        raise SystemExit("a process that runs tests has died")  # its worker has said why
    return [judged(row, result, usual) for row, result in sorted(results, key=lambda result: rows.index(result[0]))]


def run_workers(workers: list[Worker]) -> None:
    """Start them and wait for all."""
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
