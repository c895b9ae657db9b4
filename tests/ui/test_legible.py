"""What an agent says cannot act on a terminal, nor hide; and it still reads as it was written."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.foundation.columns import width
from dragoman.ui.legible import CommandLines, ProseStream, legible, one_line

HARMLESS = [
    "plain words, `code` and a    column",
    "line\nbreaks\n\n\n\nand\ttabs",
    "a wide                                              gap",
    "non-breaking\u00a0and ideographic\u3000blanks",
    "⚠️ ❤️‍🔥 1️⃣ 👩‍💻",
    "किताब مي\u200cخواهم עברית ไทย",  # noqa: RUF001
    "cafe\u0301",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_is_shown_as_it_is(text: str) -> None:
    assert legible(text) == text
    stream = ProseStream()
    assert "".join(stream.show(char) for char in text) + stream.end() == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\u{1b}[2J"),
        ("\x1b]0;title\x07", r"\u{1b}]0;title\u{7}"),
        ("over\rwritten", r"over\u{d}written"),
        ("back\x08space", r"back\u{8}space"),
        ("\u202eright to left", r"\u{202e}right to left"),
        ("zero\u200bwidth", r"zero\u{200b}width"),
        ("a\u200db", r"a\u{200d}b"),
        ("tag\U000e0041", r"tag\u{e0041}"),
        ("b\ufe0f", r"b\u{fe0f}"),
        (r"\u{41}", r"\u{5c}u{41}"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text: str, shown: str) -> None:
    assert legible(text) == shown


@given(st.text(), st.lists(st.integers(0, 50)))
def test_nothing_that_acts_on_a_terminal_gets_through_however_it_is_cut(text: str, cuts: list[int]) -> None:
    stream, shown = ProseStream(), ""
    for cut in [*cuts, len(text)]:
        shown, text = shown + stream.show(text[:cut]), text[cut:]
    harmless = "\n\t\u200c\u200d"
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char not in harmless]


def test_a_line_is_one_line_and_not_too_wide() -> None:
    assert one_line("a title\n with  \r\n breaks") == "a title with breaks"
    assert one_line("a" * 30, 10) == "a" * 9 + "…"
    assert width(one_line("漢字" * 30, 10)) <= 10


def test_what_a_command_prints_is_shown_line_by_line() -> None:
    lines = CommandLines()
    assert lines.add("one\ntw") == ["one"]
    assert lines.add("o\n\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07\n") == ["two", "red link"]
    assert lines.add(" 10 %\r 50 %\r100 %\r\ndone") == ["100 %"]
    assert lines.end() == ["done"]
    assert lines.end() == []


def test_a_line_without_an_end_does_not_grow_without_one() -> None:
    lines = CommandLines()
    shown = [line for _ in range(100) for line in lines.add("x" * 10_000)]
    assert shown and max(map(len, shown)) < 100_000
