"""Tries rows on copies of a tree, several side by side, and judges each: noticed, or why not."""

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from .copies import make_copy, put, python_of
from .table import Row

USUAL = 600.0  # seconds for the tests of one file as the tree is, however busy the machine
LIMIT = 150.0  # seconds for one row
HANGING = 90  # seconds after which pytest fails a test that hangs
PATIENCE = 60  # seconds that a test waits for an event, unless the row's tests are to fail for want of it
SHORT_PATIENCE = 20


@dataclass(frozen=True)
class Verdict:
    """What became of a row: `fault` is None where its tests noticed.

    `cost` is in seconds of processor time, `seconds` by the clock.
    """

    row: Row
    fault: str | None
    cost: float
    skipped: bool = False
    seconds: float = 0.0


class Worker(threading.Thread):
    """A copy of the tree, and the process that runs its tests."""

    def __init__(
        self, root: Path, place: Path, jobs: "queue.SimpleQueue[Callable[[Worker], None]]", limit: float
    ) -> None:
        super().__init__()
        self.root, self.place, self.jobs, self.limit = root, place, jobs, limit

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

    def trial(self, tests: Iterable[str], limit: float = USUAL, patience: int = PATIENCE) -> dict[str, Any]:
        """Run these tests as the copy is now."""
        assert self.process.stdin
        assert self.process.stdout
        log = str(self.place / "build" / "trial.log")
        extra = [] if limit == USUAL else ["--timeout", str(HANGING)]
        order = {"tests": sorted(tests), "extra": extra, "seconds": limit, "patience": patience, "log": log}
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

    def mutated(self, row: Row) -> dict[str, Any]:
        """Run a row's tests with its mutation, and take it back."""
        path = self.place / "src" / "dragoman" / row.file
        text, began = path.read_text(), time.monotonic()
        put(path, text.replace(row.old, row.new))
        patience = SHORT_PATIENCE if "TimeoutError" in row.kinds else PATIENCE
        try:
            return {**self.trial(row.tests, self.limit, patience), "seconds": time.monotonic() - began}
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
        before = usual[file_of(test)]
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
    fault, seconds = "; ".join(faults) or None, round(result["seconds"], 1)
    return Verdict(row, fault, result["cost"], skipped and not faults, seconds)


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


def tried(
    rows: list[Row],
    root: Path,
    places: Path,
    workers: int,
    tell: Callable[[Verdict], None] = lambda verdict: None,
    limit: float = LIMIT,
) -> list[Verdict]:
    """Try rows, and tell each verdict at once; a file's tests run as the tree is before its first row is tried."""
    named: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for test in row.tests:
            named[file_of(test)].add(test)
    usual: dict[str, Future[dict[str, Any]]] = {}
    verdicts: list[Verdict] = []
    telling = threading.Lock()

    def look(worker: Worker, file: str) -> None:
        try:
            usual[file].set_result(worker.usual(named[file]))
        except BaseException as exc:
            usual[file].set_exception(exc)  # another worker waits for it
            raise

    def try_row(worker: Worker, row: Row) -> None:
        result = worker.mutated(row)
        verdict = judged(row, result, {file_of(test): usual[file_of(test)].result() for test in row.tests})
        with telling:
            verdicts.append(verdict)
            tell(verdict)

    jobs: queue.SimpleQueue[Callable[[Worker], None]] = queue.SimpleQueue()
    for row in sorted(rows, key=lambda row: row.tests):  # a run that is interrupted has verdicts by then
        for file in map(file_of, row.tests):
            if file not in usual:
                usual[file] = Future()
                jobs.put(partial(look, file=file))
        jobs.put(partial(try_row, row=row))
    run_workers([Worker(root, places / str(number), jobs, limit) for number in range(workers)])
    if len(verdicts) != len(rows):
        raise SystemExit("a process that runs tests has died")  # its worker has said why
    return sorted(verdicts, key=lambda verdict: rows.index(verdict.row))


def file_of(test: str) -> str:
    return test.split("::")[0]


def run_workers(workers: list[Worker]) -> None:
    """Start them and wait for all."""
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
