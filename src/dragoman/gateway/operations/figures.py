"""Metrics that are computed when they are read: of the gateway, its budget, its log, its process."""

import asyncio
import os
import platform
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from ... import __version__
from ...foundation.unix import resource
from ..access.budget import descriptor_limit, descriptors_used
from ..gateway import Gateway
from ..metrics import Histogram, Watched
from ..workers import owned

LOOK_EVERY = 0.5  # seconds between two measurements of the loop's lag
STARTED = time.time()


@asynccontextmanager
async def watched(gateway: Gateway) -> AsyncIterator[None]:
    """Add these figures to a gateway's metrics, and measure how late its event loop is."""
    for name, metric in (*_of_gateway(gateway), *_of_process(), *gateway.engine.metrics().items()):
        gateway.metrics.watch(name, metric)
    task = owned(_measure(gateway.metrics.loop_lag_seconds), "loop lag", lambda exc: None)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _of_gateway(gateway: Gateway) -> list[tuple[str, Watched]]:
    live, budget = gateway.live, gateway.budget

    def budgets(which: str) -> Callable[[], Mapping[str, float]]:
        return lambda: {name: getattr(figure, which) for name, figure in budget.figures().items()}

    build = f"{__version__}\n{platform.python_version()}"
    return [
        _one("dragoman_build_info", "The version of the gateway; always 1.", lambda: 1, build, "version", "python"),
        _one(
            "dragoman_ready",
            "1 while the gateway takes new clients and all of it is well.",
            lambda: not gateway.unready(),
        ),
        _one(
            "dragoman_turns_running",
            "Turns that run now.",
            lambda: sum(session.turns.running is not None for session in live.values()),
        ),
        _one(
            "dragoman_prompts_queued",
            "Prompts that wait for the turn before them.",
            lambda: sum(len(session.turns.waiting) for session in live.values()),
        ),
        _one(
            "dragoman_questions_open",
            "Questions of agents that wait for somebody's answer.",
            lambda: sum(len(session.questions) for session in live.values()),
        ),
        (
            "dragoman_budget_used",
            Watched("gauge", "How much of a limit is in use.", budgets("used"), ("limit",)),
        ),
        (
            "dragoman_budget_limit",
            Watched("gauge", "How much may be in use.", budgets("limit"), ("limit",)),
        ),
        (
            "dragoman_chore_failures_total",
            Watched(
                "counter",
                "Rounds of the gateway's own chores that failed.",
                lambda: {state.name: state.failures for state in gateway.chores.states()},
                ("chore",),
            ),
        ),
    ]


def _one(name: str, help: str, read: Callable[[], float], value: str = "", *labels: str) -> tuple[str, Watched]:
    return name, Watched("gauge", help, lambda: {value: float(read())}, labels)


def _of_process() -> list[tuple[str, Watched]]:
    """The standard process metrics of Prometheus."""

    def cpu() -> float:
        times = os.times()
        return times.user + times.system

    return [
        ("process_cpu_seconds_total", Watched("counter", "Processor time used.", lambda: {"": cpu()})),
        _one("process_start_time_seconds", "When the process started, in Unix time.", lambda: STARTED),
        _one("process_resident_memory_bytes", "Memory in use.", _memory),
        _one("process_open_fds", "File descriptors open now.", descriptors_used),
        _one("process_max_fds", "File descriptors that may be open.", descriptor_limit),
    ]


def _memory() -> float:
    """The bytes in memory, or if the system does not report them, their maximum so far."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def _measure(lag: Histogram) -> None:
    while True:
        wanted = time.monotonic() + LOOK_EVERY
        await asyncio.sleep(LOOK_EVERY)
        lag.observe(max(0.0, time.monotonic() - wanted))
