"""A change of a text as a person reads it: a unified diff, in bounded time."""

import difflib
from collections.abc import Iterator, Sequence

from ..schema import Diff

CONTEXT = 3  # lines around a change
MOST_COMPARED = 1000  # changed lines that are compared with each other; comparing takes the square of it


def unified(diff: Diff) -> str:
    """The lines that go (-), come (+) and stay, with the numbers of the first ones."""
    old, new = _lines(diff.old_text or ""), _lines(diff.new_text)
    head = _alike(old, new)
    tail = _alike(old[: head - 1 if head else None : -1], new[: head - 1 if head else None : -1])
    changed = old[head : len(old) - tail], new[head : len(new) - tail]
    if not any(changed):
        return ""
    if max(map(len, changed)) > MOST_COMPARED:
        return "\n".join(_replaced(head, *changed))
    above, below = min(CONTEXT, head), min(CONTEXT, tail)
    parts = old[head - above : len(old) - tail + below], new[head - above : len(new) - tail + below]
    return "\n".join(_compared(head - above, *parts))


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _alike(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines are the same from the start."""
    for number, (one, other) in enumerate(zip(old, new, strict=False)):
        if one != other:
            return number
    return min(len(old), len(new))


def _replaced(start: int, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    yield f"@@ -{start + 1},{len(old)} +{start + 1},{len(new)} @@"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)


def _compared(start: int, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT)
    for group in groups:
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        yield (
            f"@@ -{start + old_start + 1},{old_end - old_start} +{start + new_start + 1},{new_end - new_start} @@"
        )
        for kind, i, j, k, m in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[i:j])
                continue
            yield from (f"-{line}" for line in old[i:j])
            yield from (f"+{line}" for line in new[k:m])
