"""A process that has imported what all tests need, and forks itself for each run of pytest.

It reads orders and writes results, a line of JSON each.  It adopts whatever a run leaves behind and ends it, so a
broken program that forgets its children harms no other row.
"""

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ADOPTS_ORPHANS, ENDS_WITH_ITS_PARENT = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG
SLOW_TO_IMPORT = ("hypothesis", "msgspec", "pytest_asyncio.plugin", "mcp", "websockets", "h11", "h2.connection")
Failure = tuple[str, str, list[str], str]  # the test, when it failed, the errors' names, what the first one said


class Notes:
    """A plugin of pytest: notes how each test ended."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []
        self.passed: list[str] = []
        self.skipped: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        report = yield
        if report.failed:
            error = call.excinfo.value if call.excinfo else AssertionError()
            self.failures.append((item.nodeid, report.when, sorted(names(error)), str(error)[:300]))
        elif report.skipped:
            self.skipped.append(item.nodeid)
        elif report.when == "call":
            self.passed.append(item.nodeid)
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failures.append((report.nodeid, "collect", ["CollectError"], str(report.longrepr)[-300:]))


def names(error: BaseException) -> set[str]:
    """The type of an error, or of all in a group of errors."""
    if isinstance(error, BaseExceptionGroup):
        return set().union(*(names(inner) for inner in error.exceptions))
    return {type(error).__name__}


def run(tests: list[str], log: str, extra: list[str], patience: int) -> dict[str, Any]:
    """One run of pytest, in the process that was forked for it."""
    os.environ["DRAGOMAN_TEST_PATIENCE"] = str(patience)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor, target in ((os.open(os.devnull, os.O_RDONLY), 0), (sink, 1), (sink, 2)):
        os.dup2(descriptor, target)
    notes = Notes()
    options = ["-p", "no:cacheprovider", "--tb=short", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    status = pytest.main([*options, *extra, *tests], plugins=[notes])
    return {"status": int(status), "failures": notes.failures, "passed": notes.passed, "skipped": notes.skipped}


def forked(order: dict[str, Any], result: Path) -> dict[str, Any]:
    """Run what was ordered in a child, with an end; the result tells its processor time, too."""
    result.unlink(missing_ok=True)
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    pid = os.fork()
    if pid == 0:
        try:
            told = run(order["tests"], order["log"], order["extra"], order["patience"])
        except BaseException as exc:  # pytest itself fails
            told = {"status": -1, "failures": [("", "run", sorted(names(exc)), repr(exc)[:300])]}
        result.write_text(json.dumps(told))
        os._exit(0)
    ended = _wait(pid, began + order["seconds"])
    end_descendants()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)
    told = json.loads(result.read_text()) if ended and result.exists() else {"status": -1}
    return {"failures": [], "passed": [], "skipped": [], **told, "late": not ended, "cost": cost}


def _wait(pid: int, end: float) -> bool:
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.02)
    return False


def end_descendants() -> None:
    """Kill children until there are none; the children of those that end become ours."""
    while True:
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def stop(*_: object) -> None:
    """Whoever gives the orders is gone, or wants no more."""
    end_descendants()
    os._exit(1)


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    prctl = ctypes.CDLL(None).prctl
    prctl(ADOPTS_ORPHANS, 1, 0, 0, 0)
    prctl(ENDS_WITH_ITS_PARENT, signal.SIGTERM, 0, 0, 0)
    for module in SLOW_TO_IMPORT:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(forked(json.loads(line), Path("build/trial.json"))), flush=True)


if __name__ == "__main__":
    main()
