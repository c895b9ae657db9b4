"""What is measured, what is required of it, and how it is shown."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

AS_GOOD = 0.95  # times another checkout of ours: what the same code differs by from run to run on an idle machine

Samples = Mapping[str, Mapping[str, list[float]]]  # by contender, then by measure


class Measure(Struct, frozen=True):
    """One row: `wanted` times better than the SDK, at most `within` times worse than the bare loop.

    Where another checkout of ours takes part, ours must not be worse than it.
    """

    name: str
    title: str
    unit: str
    less_is_better: bool = False
    wanted: float | None = None
    within: float | None = None


MEASURES = (
    Measure("import", "import", "ms", less_is_better=True, wanted=5),
    Measure("start", "process start to initialize", "ms", less_is_better=True, wanted=4),
    Measure("round_trips.prompt", "prompts, one after the other", "/s", wanted=1.8),
    Measure("round_trips.read", "small files, one after the other", "/s", wanted=1.8),
    Measure("streaming", "streamed updates", "/s", wanted=8, within=1.6),
    Measure("streaming.compact", "updates read: compact JSON", "/s", wanted=10),
    Measure("streaming.spaced", "updates read: with spaces", "/s", wanted=10),
    Measure("streaming.reordered", "updates read: members reordered", "/s", wanted=10),
    Measure("streaming.escaped", "updates read: spaces, accents escaped", "/s", wanted=10),
    Measure("files", "1 MiB file contents", "MiB/s", wanted=1.4),
    Measure("in_flight.1", "prompts, 1 in flight", "/s"),
    Measure("in_flight.100", "prompts, 100 in flight", "/s"),
    Measure("in_flight.1000", "prompts, 1,000 in flight", "/s", wanted=4),
    Measure("memory.import", "memory after import", "MiB", less_is_better=True, wanted=5 / 3),
    Measure("memory.agent", "memory of an agent's process", "MiB", less_is_better=True),
    Measure("memory.connection", "memory per connection, client", "KiB", less_is_better=True),
    Measure("memory.session.client", "memory per session, client", "KiB", less_is_better=True),
    Measure("memory.session.agent", "memory per session, agent", "KiB", less_is_better=True),
)
_SCALE = {"ms": 1e3, "KiB": 1 / 1024, "MiB": 1 / 1024**2}  # figures come in seconds and bytes


class Row(Struct, frozen=True):
    """A measure with the medians seen, and how they compare."""

    measure: Measure
    medians: dict[str, float]
    samples: Mapping[str, Sequence[float]]

    def times_better_than(self, other: str) -> float | None:
        """How many times better ours is: a higher rate, a shorter time, a smaller size."""
        ours, theirs = self.medians.get("ours"), self.medians.get(other)
        if not ours or not theirs:
            return None
        return theirs / ours if self.measure.less_is_better else ours / theirs

    @property
    def met(self) -> bool | None:
        """Whether what is required of the measure holds; None where nothing is, or nothing was compared."""
        verdicts = []
        ahead, behind = self.times_better_than("sdk"), self.times_better_than("bare")
        if earlier := self.times_better_than("earlier"):
            verdicts.append(earlier >= AS_GOOD)
        if self.measure.wanted and ahead:
            verdicts.append(ahead >= self.measure.wanted)
        if self.measure.within and behind:
            verdicts.append(behind >= 1 / self.measure.within)
        return all(verdicts) if verdicts else None

    def shown(self, contender: str) -> str:
        value = self.medians.get(contender)
        if value is None:
            return ""
        unit = self.measure.unit
        scaled = value * _SCALE.get(unit, 1)
        figure = f"{scaled:,.1f} {unit}" if scaled < 100 else f"{scaled:,.0f} {unit}"
        return f"{figure} {spread(self.samples[contender])}".rstrip()


def spread(samples: Sequence[float]) -> str:
    """How far the samples lie apart: half of what is between the least and the most, in percent of the median."""
    if len(samples) < 2:
        return ""
    return f"±{50 * (max(samples) - min(samples)) / statistics.median(samples):.0f}%"


def rows(samples: Samples) -> list[Row]:
    """The rows for which there are samples of ours."""
    found = []
    for measure in MEASURES:
        taken = {name: by[measure.name] for name, by in samples.items() if by.get(measure.name)}
        if "ours" in taken:
            medians = {name: statistics.median(figures) for name, figures in taken.items()}
            found.append(Row(measure, medians, taken))
    return found


# What each contender does to a message before its user has it, or before it is sent: the others need not do it.
VALIDATION = {
    "ours": "every frame's size, depth and encoding; every field against the schema (msgspec), on both sides",
    "sdk": "every field against the schema (pydantic), on both sides",
    "sdk_next": "every field against the schema (pydantic), on both sides",
    "bare": "the types of the fields that this work needs (msgspec); nothing else",
    "earlier": "as Dragoman, at that commit",
    "typescript": "the params and results of requests and notifications against the schema (zod)",
}
TITLES = {
    "ours": "Dragoman",
    "sdk": "Python SDK",
    "sdk_next": "Python SDK, next",
    "bare": "bare loop",
    "earlier": "other checkout",
    "typescript": "TypeScript SDK",
}
_VERDICTS = {True: "✓", False: "✗", None: ""}


def render(table: Iterable[Row], contenders: Iterable[str]) -> str:
    """The table as Markdown; beside each rival, how many times better ours is."""
    others = [name for name in contenders if name != "ours"]
    header = ["", TITLES["ours"]]
    for name in others:
        header += [TITLES[name], "x"]
    lines = [[*header, "required", ""]]
    for row in table:
        cells = [row.measure.title, row.shown("ours")]
        for name in others:
            ratio = row.times_better_than(name)
            cells += [row.shown(name), "" if ratio is None else f"{ratio:.2f}"]
        lines.append([*cells, _required(row), _VERDICTS[row.met]])
    return _aligned(lines)


def _required(row: Row) -> str:
    parts, measure = [], row.measure
    if measure.wanted:
        parts.append(f"{measure.wanted:.3g} x SDK")
    if measure.within:
        parts.append(f"{1 / measure.within:.3g} x bare")
    if "earlier" in row.medians:
        parts.append(f"{AS_GOOD:g} x other")
    return ", ".join(parts)


def _aligned(lines: list[list[str]]) -> str:
    """Columns of one width each: words to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numbers = range(1, len(widths) - 2)
    rule = ["-" * (width - 1) + (":" if column in numbers else "-") for column, width in enumerate(widths)]
    return "\n".join(
        "| " + " | ".join(f"{cell:{'>' if i in numbers else '<'}{widths[i]}}" for i, cell in enumerate(line)) + " |"
        for line in [lines[0], rule, *lines[1:]]
    )
