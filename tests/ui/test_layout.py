"""Words laid out for a terminal: no line is wider than it is, and no word is lost."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dragoman.foundation.columns import width
from dragoman.host.diffs import unified
from dragoman.schema import Diff
from dragoman.ui.changes import numbered
from dragoman.ui.layout import both_ends, broken, flowing, in_columns, wrapped
from dragoman.ui.style import Style

PLAIN = Style(False)
WORDS = st.text("ab文 -", max_size=30).map(lambda text: " ".join(text.split()))
COLUMNS = st.integers(20, 100)


def letters(text: str) -> str:
    return re.sub(r"[\s·]", "", text)


@given(WORDS, COLUMNS)
def test_wrapped_words_fit_and_are_all_there(text: str, columns: int) -> None:
    for lines in (wrapped(text, columns), broken(text, columns)):
        assert all(width(line) <= columns for line in lines)
        assert letters("".join(lines)) == letters(text)


@given(st.lists(st.text("abc", min_size=1, max_size=15), max_size=20), COLUMNS)
def test_cells_fill_lines_that_fit(cells: list[str], columns: int) -> None:
    lines = flowing(cells, columns)
    assert all(width(line) <= columns for line in lines)
    assert letters("".join(lines)) == "".join(cells)


@given(st.lists(st.tuples(*[st.text("abc", min_size=1, max_size=18)] * 2, WORDS, WORDS), max_size=6), COLUMNS)
def test_columns_fit_whatever_their_words(rows: list[tuple[str, str, str, str]], columns: int) -> None:
    lines = in_columns(rows, [["", "", "", ""]] * len(rows), PLAIN, columns)
    assert all(width(line.rstrip()) <= columns for line in lines)
    assert letters("".join(lines)) == letters("".join(map("".join, rows)))


def test_two_ends_share_a_line_where_it_has_room() -> None:
    assert both_ends("left", "right", 12) == ["left   right"]
    assert both_ends("left", "right", 11) == ["left", "  right"]


@given(st.text("ab\n", max_size=60), st.text("ab\n", max_size=60), st.integers(40, 80))
def test_a_change_has_the_numbers_of_its_lines_and_all_of_them(old: str, new: str, columns: int) -> None:
    diff = unified(Diff(path="a", old_text=old, new_text=new)).split("\n")
    drawn = list(numbered(diff, PLAIN, "  ", columns))
    assert all(width(line) <= columns for line in drawn)
    before, after = old.split("\n"), new.split("\n")
    number, sign, pieces = 0, "", list[str]()
    for line in [*drawn, "  0 - "]:
        if found := re.fullmatch(r" *(\d+) ([ +-]) (.*)", line):
            if number:
                assert "".join(pieces) == (before if sign == "-" else after)[number - 1]
            number, sign, pieces = int(found[1]), found[2], [found[3]]
        elif line.strip()[:1] not in ("⋯", "\\"):
            pieces.append(line.strip())
