"""Compare two texts line by line, in time that grows with their length and not with its square.

Lines that occur once in each text are anchors: the longest sequence of them that both texts have in the same order
is kept.  `difflib` compares the parts between two anchors.  It takes the cube of their lines, so it has a budget;
the parts beyond the budget are reported as replaced in one piece.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

BUDGET = 500_000  # steps of difflib, some 20 ms
MOST_ANCHORED = 100_000  # lines searched for anchors, counted each time they are searched

NO_NEWLINE = "\\ No newline at end of file"

Kind = Literal["equal", "replace"]


class Step(NamedTuple):
    """Lines that stay, or lines that replace others; either side may be empty."""

    kind: Kind
    old_start: int
    old_end: int
    new_start: int
    new_end: int


class Hunk(NamedTuple):
    """Changed lines and the lines around them, each with its sign.

    As in a unified diff, the first line is number 1, and a side without lines has the number of the line before it.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: Sequence[str]

    @property
    def head(self) -> str:
        """The header line of the hunk in a unified diff."""
        return f"@@ -{_span(self.old_start, self.old_count)} +{_span(self.new_start, self.new_count)} @@"


def lines_of(text: str) -> list[str]:
    """The lines of a text with their line ends; only a line feed ends a line."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def in_patch(line: str) -> str:
    """A line and its line end as a patch shows them."""
    return line[:-1] if line.endswith("\n") else f"{line}\n{NO_NEWLINE}"


def compared(old: Sequence[str], new: Sequence[str]) -> list[Step]:
    """The steps that turn one text into another."""
    steps, i, j = list[Step](), 0, 0
    for start, new_start, size in [*_Comparison(old, new).matches(), (len(old), len(new), 0)]:
        if (i, j) != (start, new_start):
            steps.append(Step("replace", i, start, j, new_start))
        i, j = start + size, new_start + size
        if size and steps and steps[-1].kind == "equal":
            last = steps.pop()
            start, new_start = last.old_start, last.new_start
        if size:
            steps.append(Step("equal", start, i, new_start, j))
    return steps


def hunks(old: Sequence[str], new: Sequence[str], context: int) -> Iterator[Hunk]:
    """The differences, each with `around` lines of context; no two hunks touch."""
    group = list[Step]()
    for step in compared(old, new):
        if step.kind == "replace":
            group.append(step)
            continue
        size = step.old_end - step.old_start
        if group and (size > 2 * context or (step.old_end == len(old) and step.new_end == len(new))):
            kept = min(context, size)
            before = Step("equal", step.old_start, step.old_start + kept, step.new_start, step.new_start + kept)
            yield _hunk(old, new, [*group, before])
            group = []
        kept = size if group else min(context, size)
        group.append(Step("equal", step.old_end - kept, step.old_end, step.new_end - kept, step.new_end))
    if any(step.kind == "replace" for step in group):
        yield _hunk(old, new, group)


def _hunk(old: Sequence[str], new: Sequence[str], steps: Sequence[Step]) -> Hunk:
    lines = list[str]()
    for kind, start, end, new_start, new_end in steps:
        lines += [f"{' ' if kind == 'equal' else '-'}{line}" for line in old[start:end]]
        if kind == "replace":
            lines += [f"+{line}" for line in new[new_start:new_end]]
    first, last = steps[0], steps[-1]
    old_count, new_count = last.old_end - first.old_start, last.new_end - first.new_start
    starts = first.old_start + bool(old_count), first.new_start + bool(new_count)
    return Hunk(starts[0], old_count, starts[1], new_count, lines)


def _span(start: int, count: int) -> str:
    return f"{start}" if count == 1 else f"{start},{count}"


class _Comparison:
    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        numbers: dict[str, int] = {}  # equal lines get equal numbers, so that long lines are compared once
        self._old = [numbers.setdefault(line, len(numbers)) for line in old]
        self._new = [numbers.setdefault(line, len(numbers)) for line in new]
        self._left, self._room = BUDGET, MOST_ANCHORED

    def matches(self) -> Iterator[tuple[int, int, int]]:
        """The places where both texts are equal, in order, each with its number of lines."""
        waiting = [(0, len(self._old), 0, len(self._new))]  # parts still to compare; the next one is the last
        while waiting:
            i, end, j, new_end = waiting.pop()
            head = _alike(self._old, self._new, range(i, end), range(j, new_end))
            if head:
                yield i, j, head
            i, j = i + head, j + head
            tail = _alike(self._old, self._new, range(end - 1, i - 1, -1), range(new_end - 1, j - 1, -1))
            end, new_end = end - tail, new_end - tail
            if tail:
                waiting.append((end, end + tail, new_end, new_end + tail))
            if i < end and j < new_end:
                yield from self._between(i, end, j, new_end, waiting)

    def _between(
        self, i: int, end: int, j: int, new_end: int, waiting: list[tuple[int, int, int, int]]
    ) -> Iterator[tuple[int, int, int]]:
        """Compare a part whose first lines and last lines differ; anchors divide it into more parts."""
        size, new_size = end - i, new_end - j
        cost = size * new_size * min(size, new_size)
        if cost <= self._left:
            self._left -= cost
            matcher = SequenceMatcher(None, self._old[i:end], self._new[j:new_end], autojunk=False)
            yield from ((i + start, j + to, count) for start, to, count in matcher.get_matching_blocks() if count)
        elif size + new_size <= self._room:
            self._room -= size + new_size
            anchors = _anchors(self._old[i:end], self._new[j:new_end])
            starts = [(i + start, j + to) for start, to in anchors]
            ends = [*starts, (end, new_end)]
            # From one anchor to the next: an anchor is the first line of its part.
            parts = [(*start, *stop) for start, stop in zip(starts, ends[1:], strict=True)]
            waiting += [(a, c, b, d) for a, b, c, d in reversed(parts)]
            if starts:
                waiting.append((i, starts[0][0], j, starts[0][1]))


def _alike(old: Sequence[int], new: Sequence[int], here: range, there: range) -> int:
    """How many lines are equal, counted from one end."""
    pairs = enumerate(zip(here, there, strict=False))
    return next((at for at, (i, j) in pairs if old[i] != new[j]), min(len(here), len(there)))


def _anchors(old: Sequence[int], new: Sequence[int]) -> list[tuple[int, int]]:
    """Lines that occur once in each text: the longest sequence of them that has the same order in both."""
    once, twice = Counter(old), Counter(new)
    places = {line: at for at, line in enumerate(new) if twice[line] == 1 and once[line] == 1}
    pairs = [(at, places[line]) for at, line in enumerate(old) if line in places]
    # longest increasing sequences, by their last members
    lasts, rows, before = list[int](), list[int](), list[int]()
    for number, (_, there) in enumerate(pairs):
        length = bisect_left(lasts, there)
        before.append(rows[length - 1] if length else -1)
        lasts[length : length + 1], rows[length : length + 1] = [there], [number]
    found, number = list[tuple[int, int]](), rows[-1] if rows else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]
