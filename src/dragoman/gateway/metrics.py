"""A gateway's metrics, in Prometheus's text format; no label names a person, a session or a path."""

import bisect
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(Protocol):
    """A metric: a figure, or several of one kind."""

    kind: str
    help: str

    def lines(self, name: str) -> list[str]: ...


class Counter:
    """A counter, which only grows; one figure for each value of its label."""

    kind = "counter"

    def __init__(self, help: str, label: str = "") -> None:
        self.help, self.label = help, label
        self._figures: dict[str, float] = {} if label else {"": 0.0}

    def add(self, amount: float = 1.0, value: str = "") -> None:
        self._figures[value] = self._figures.get(value, 0.0) + amount

    def lines(self, name: str) -> list[str]:
        return [
            f"{name}{_labelled({self.label: value} if self.label else {})} {_figure(figure)}"
            for value, figure in self._figures.items()
        ]


class Gauge(Counter):
    """A gauge, which goes up and down."""

    kind = "gauge"

    def set(self, figure: float, value: str = "") -> None:
        self._figures[value] = figure


class Watched:
    """Figures that are computed when they are shown, by the values of their label."""

    def __init__(
        self, kind: str, help: str, read: Callable[[], Mapping[str, float]], labels: tuple[str, ...] = ()
    ) -> None:
        self.kind, self.help = kind, help
        self._read, self._labels = read, labels

    def lines(self, name: str) -> list[str]:
        found = self._read()
        return [f"{name}{_labelled(self._named(value))} {_figure(figure)}" for value, figure in found.items()]

    def _named(self, value: str) -> Mapping[str, str]:
        return dict(zip(self._labels, value.split("\n"), strict=False))


class Histogram:
    """A histogram of durations."""

    kind = "histogram"

    def __init__(self, help: str, bounds: Sequence[float] = LATENCIES) -> None:
        self.help = help
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, figure: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, figure)] += 1
        self._sum += figure

    def lines(self, name: str) -> list[str]:
        lines, total = [], 0
        for bound, count in zip((*map(_figure, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            lines.append(f"{name}_bucket{_labelled({'le': bound})} {total}")
        return [*lines, f"{name}_sum {_figure(self._sum)}", f"{name}_count {total}"]


class Metrics:
    """All metrics of one gateway."""

    def __init__(self) -> None:
        self.connections = Gauge("Clients connected now.")
        self.sessions = Gauge("Sessions with an agent behind them now.")
        self.processes = Gauge("Agent processes running now.")
        self.viewers = Gauge("Clients at sessions now, once for each session.")
        self.turns = Counter("Turns that ended, by how.", "outcome")
        self.refusals = Counter("Requests refused, by why.", "reason")
        self.evictions = Counter("Viewers sent away because they did not keep up.")
        self.restarts = Counter("Agent processes started again after they died.")
        self.expired = Counter("Sessions deleted because they were beyond the retention, by why.", "reason")
        self.agent_starts = Counter("Agent processes started, by agent.", "agent")
        self.agent_start_failures = Counter("Agent processes that did not start, by agent.", "agent")
        self.appended = Counter("Records written to session logs.")
        self.append_seconds = Histogram("From handing records to the log until they are durable.")
        self.first_update_seconds = Histogram("From a prompt until its first update.")
        self.turn_seconds = Histogram("From a prompt until its outcome.")
        self.permission_seconds = Histogram("How long a permission request waited for somebody's answer.")
        self.loop_lag_seconds = Histogram("How late the event loop was for what it had to do at a moment.")
        self._watched: dict[str, Metric] = {}

    def watch(self, name: str, metric: Metric) -> None:
        """Show a metric of another object under its own name."""
        self._watched[name] = metric

    def all(self) -> Mapping[str, Metric]:
        """Every metric by its Prometheus name."""
        own = {name: metric for name, metric in vars(self).items() if not name.startswith("_")}
        named = {
            f"dragoman_{name}" + ("_total" if metric.kind == "counter" else ""): metric
            for name, metric in own.items()
        }
        return named | self._watched

    def text(self) -> str:
        """All metrics in the format of /metrics."""
        lines = []
        for name, metric in self.all().items():
            lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}", *metric.lines(name)]
        return "\n".join(lines) + "\n"


def _labelled(labels: Mapping[str, str]) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _figure(figure: float) -> str:
    return str(int(figure)) if figure == int(figure) else repr(figure)
