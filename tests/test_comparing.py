"""Comparing two texts: right for any two, and no dearer than their length allows."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects.v2.patches import make_patch, read_patch
from dragoman.foundation import comparing
from dragoman.foundation.comparing import Hunk, compared, hunks, in_patch, lines_of

TEXTS = st.text(st.sampled_from("abc\n\r\x0c"), max_size=60)
LINES = st.lists(st.sampled_from([f"{n}\n" for n in range(8)]), max_size=40)


def put_together(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Both texts as the steps between them tell them."""
    before, after = list[str](), list[str]()
    for kind, start, end, new_start, new_end in compared(old, new):
        before += old[start:end]
        after += old[start:end] if kind == "equal" else new[new_start:new_end]
    return before, after


@given(LINES, LINES)
def test_the_steps_lead_from_one_text_to_the_other(old: list[str], new: list[str]) -> None:
    assert put_together(old, new) == (old, new)
    kinds = [step.kind for step in compared(old, new)]
    assert all(one != next_one for one, next_one in itertools.pairwise(kinds))


@given(LINES, LINES)
def test_the_steps_are_right_also_when_only_anchors_can_be_paid_for(old: list[str], new: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(comparing, "BUDGET", 0)
        assert put_together(old, new) == (old, new)
        patched.setattr(comparing, "MOST_ANCHORED", 20)
        assert put_together(old, new) == (old, new)


@given(TEXTS, TEXTS)
def test_a_patch_of_any_two_texts_can_be_read_again(old: str, new: str) -> None:
    if lines_of(old) != lines_of(new):
        [read] = read_patch(make_patch("/a", old, new))
        assert (read.old, read.new) == (old, new)


@given(st.lists(st.tuples(LINES, LINES), max_size=6), st.integers(0, 4))
def test_hunks_hold_every_change_and_do_not_touch(parts: list[tuple[list[str], list[str]]], context: int) -> None:
    same = [f"same {number}\n" for number in range(12)]
    old = [line for before, _ in parts for line in (*before, *same)]
    new = [line for _, after in parts for line in (*after, *same)]
    found = list(hunks(old, new, context))
    assert _applied(old, found) == new
    starts = [(hunk.old_start - bool(hunk.old_count), hunk.old_count) for hunk in found]
    assert all(at + count < later for (at, count), (later, _) in itertools.pairwise(starts))


def _applied(old: list[str], found: list[Hunk]) -> list[str]:
    result, at = list[str](), 0
    for hunk in found:
        start = hunk.old_start - bool(hunk.old_count)
        result += old[at:start]
        assert [line[1:] for line in hunk.lines if line[0] != "+"] == old[start : start + hunk.old_count]
        result += [line[1:] for line in hunk.lines if line[0] != "-"]
        at = start + hunk.old_count
    return result + old[at:]


@pytest.mark.parametrize(
    ("old", "new"), [("a\nb\nc\n", "a\nB\nc\n"), ("", "a\nb"), ("a\nb", ""), ("a", "a\n"), ("x\n" * 9, "x\n" * 7)]
)
def test_git_applies_what_is_made(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(old)
    lines = [line for hunk in hunks(lines_of(old), lines_of(new), 3) for line in (hunk.head, *hunk.lines)]
    text = "\n".join(["--- a/f", "+++ b/f", *(in_patch(line) if line[0] != "@" else line for line in lines), ""])
    subprocess.run(["git", "apply", "--unidiff-zero", "-"], input=text, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "f").read_text() == new


def test_a_long_text_with_changes_everywhere_is_still_told_change_by_change() -> None:
    old = [f"line {number}\n" for number in range(10_000)]
    new = [f"{line[:-1]} changed\n" if number % 2 else line for number, line in enumerate(old)]
    assert len([step for step in compared(old, new) if step.kind == "replace"]) == 5_000


def two_words(count: int) -> tuple[list[str], list[str]]:
    """Texts that difflib needs the cube of their length for: no line is rare."""
    return ["a\n", "b\n"] * count, ["b\n", "b\n", "a\n"] * count


def other_order(count: int) -> tuple[list[str], list[str]]:
    return [f"{n}\n" for n in range(count)], [f"{n}\n" for n in reversed(range(count))]


def peeled(count: int) -> tuple[list[str], list[str]]:
    """Each look for anchors finds one, and divides the rest into a long part and a short one.

    A line is there twice until the part with its first copy is cut off.
    """
    levels = [(f"{n + 1}\n", f"{n}\n") for n in range(count // 10)]
    old, new = ([line for level in levels for line in (differs, *level)] for differs in ("old\n", "new\n"))
    return [*old, "old\n"], [*new, "new\n"]


def all_changed(count: int) -> tuple[list[str], list[str]]:
    return [f"old {n}\n" for n in range(count)], [f"new {n}\n" for n in range(count)]


@pytest.mark.parametrize("texts", [two_words, other_order, peeled, all_changed])
def test_twice_the_lines_take_little_more_than_twice_the_steps(texts: object) -> None:
    assert callable(texts)
    once, twice = (_steps_taken(*texts(count)) for count in (4_000, 8_000))
    assert twice < 2.5 * once


def _steps_taken(old: list[str], new: list[str]) -> int:
    """Lines of Python that are run, which is the same on every machine."""
    count = 0

    def trace(*_: object) -> object:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        compared(old, new)
    finally:
        sys.settrace(None)
    return count
