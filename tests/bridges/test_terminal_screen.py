"""A terminal's screen: sequences are obeyed, and what was drawn comes out as text, once."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.bridges.pty import TerminalScreen
from dragoman.foundation.columns import width
from dragoman.foundation.terminal.canvas import KEPT

LETTERS = "abc xyz-äß日本😀"
WORDS = st.text(alphabet=LETTERS, max_size=60)
# All that can begin, fill and end a sequence, and what may come in between.
CHARACTERS = "\x1b\x1b[[]P0123;?>!(7 ABCDEFGHJKLMPSTXbcdfhlmnrsu@\\\x07\r\n\b\t\x00\x9b日e\u0301x"
NOISE = st.text(alphabet=CHARACTERS, max_size=80)


def cut(text: str, places: list[int]) -> list[str]:
    """A text in pieces."""
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in itertools.pairwise(ends)]


def drawn(text: str, columns: int = 20, rows: int = 5) -> TerminalScreen:
    screen = TerminalScreen(columns, rows)
    screen.feed(text)
    return screen


@given(
    lines=st.lists(WORDS, max_size=30),
    columns=st.integers(2, 30),
    rows=st.integers(2, 6),
    places=st.lists(st.integers(0, 5000), max_size=12),
    shown=st.booleans(),
)
def test_plain_text_comes_out_as_it_was_sent_however_it_is_cut(
    lines: list[str], columns: int, rows: int, places: list[int], shown: bool
) -> None:
    screen, told = TerminalScreen(columns, rows), ""
    for piece in cut("\r\n".join(lines), places):
        screen.feed(piece)
        told += screen.take(shown=shown)
    told += screen.take(whole=True)
    assert told == "\n".join(lines).strip("\n")
    assert screen.take(whole=True) == ""


@example(text="a\x1b[31mb", columns=12, rows=5, places=[2, 4])
@given(text=NOISE, columns=st.integers(2, 12), rows=st.integers(2, 5), places=st.lists(st.integers(0, 99)))
def test_sequences_do_the_same_however_they_are_cut_and_leave_the_screen_its_size(
    text: str, columns: int, rows: int, places: list[int]
) -> None:
    whole, pieces = TerminalScreen(columns, rows), TerminalScreen(columns, rows)
    whole.feed(text)
    for piece in cut(text, places):
        pieces.feed(piece)
    assert (whole.lines, whole.cursor, whole.replies) == (pieces.lines, pieces.cursor, pieces.replies)
    assert len(whole.lines) <= rows and all(width(line) <= columns for line in whole.lines)
    row, column = whole.cursor
    assert 0 <= row < rows and 0 <= column <= columns
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", whole.take(whole=True))


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        ("10%\r20%\r100%", ["100%"]),
        ("abc\b\bX", ["aXc"]),
        ("a\tb", ["a       b"]),
        ("one\r\ntwo\x1b[Aup", ["oneup", "two"]),
        ("one\x1b[1;31mred\x1b[0m", ["onered"]),
        ("\x1b]0;a title\x07text\x1b]2;another\x1b\\!", ["text!"]),
        ("\x1bPsixels\x1b\\text", ["text"]),
        ("hello\x1b[3D\x1b[K", ["he"]),
        ("hello\x1b[3D\x1b[1K", ["   lo"]),
        ("hello\r\x1b[2Kbye", ["bye"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[J", ["a"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[1J", ["", "", "c"]),
        ("a\r\nb\x1b[H\x1b[2Jc", ["c"]),
        ("\x1b[3;4Hx", ["", "", "   x"]),
        ("\x1b[2dx\x1b[5Gy", ["", "x   y"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[Lnew", ["a", "new", "b", "c"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[M", ["a", "c"]),
        ("abcd\x1b[2G\x1b[2@", ["a  bcd"]),
        ("abcd\x1b[2G\x1b[2P", ["ad"]),
        ("abcd\x1b[2G\x1b[2X", ["a  d"]),
        ("-\x1b[4b", ["-----"]),
        ("a\x1b7\r\nbb\x1b8c", ["ac", "bb"]),
        ("a\x1b[s\r\nbb\x1b[uc", ["ac", "bb"]),
        ("a\r\nb\x1b[H\x1bMtop", ["top", "a", "b"]),
        ("1\r\n2\r\n3\r\n4\r\n5\r\n6", ["2", "3", "4", "5", "6"]),
        ("1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[4;1H\nnew", ["1", "3", "4", "new", "5"]),
        ("a\r\nb\x1b[S", ["b"]),
        ("a\r\nb\x1b[T", ["", "a", "b"]),
        ("a\x1bEb\x1bDc", ["a", "b", " c"]),
        ("before\x1b[?1049hinside", ["      inside"]),
        ("before\x1b[?1049hinside\x1b[?1049l!", ["before!"]),
        ("x" * 25, ["x" * 20, "x" * 5]),
        ("\x1b[?7l" + "x" * 25 + "y", ["x" * 19 + "y"]),
        ("x" * 19 + "日", ["x" * 19, "日"]),
        ("日本\x1b[2Gx", [" x本"]),
        ("e\u0301x", ["e\u0301x"]),
        ("a\x1bcb", ["b"]),
        ("\x1b[1\nx", ["", "x"]),
    ],
)
def test_a_sequence_is_obeyed(sent: str, lines: list[str]) -> None:
    assert drawn(sent).lines == lines


def test_a_program_that_asks_where_its_cursor_is_is_answered() -> None:
    assert drawn("ab\r\ncd\x1b[6n\x1b[5n\x1b[c").replies == "\x1b[2;3R\x1b[0n\x1b[?6c"


def test_a_line_is_told_once_and_again_when_it_changes() -> None:
    screen = drawn("one\r\ntwo\r\n")
    assert screen.take(shown=True) == "one\ntwo"
    assert screen.take(shown=True) == ""
    screen.feed("\x1b[2A\x1b[2Kuno\r\n\n")
    assert screen.take(shown=True) == "\nuno"


def test_a_line_that_is_drawn_over_before_it_is_told_is_told_as_it_ended() -> None:
    screen = drawn("10%\r50%\r")
    assert screen.take(shown=True) == ""
    screen.feed("100%\r\ndone")
    assert screen.take(whole=True) == "100%\ndone"


def test_what_is_cleared_before_anybody_has_seen_it_is_told_all_the_same() -> None:
    screen = drawn("one\r\ntwo\x1b[2J\x1b[Hthree")
    assert [line for line in screen.take(whole=True).split("\n") if line] == ["one", "two", "three"]


@pytest.mark.parametrize("typed", ["ls", "", "x" * 50, "日本 語", "a\tb\tc"])
def test_the_echo_of_what_was_typed_and_the_prompt_are_no_output(typed: str) -> None:
    screen = drawn("welcome\r\n$ ")
    assert screen.take(whole=True, prompt="$ ") == "welcome"
    screen.typed(typed)
    screen.feed(f"{typed}\r\nout\r\nput$ ")
    assert screen.take(shown=True) == "out"
    assert screen.take(whole=True, prompt="$ ") == "\nput"


def test_a_prompt_that_is_longer_than_a_row_is_no_output() -> None:
    prompt = "ada@machine:/a/very/long/directory$ "
    assert drawn(f"out\r\n{prompt}").take(whole=True, prompt=prompt) == "out"
    assert drawn(f"out\r\nput{prompt}").take(whole=True, prompt=prompt) == "out\nput"


def test_what_was_typed_without_an_echo_takes_nothing_away() -> None:
    screen = drawn("Password: ")
    screen.typed("secret")
    screen.feed("\r\nWelcome\r\n$ ")
    assert screen.take(whole=True, prompt="$ ") == "Welcome"


def test_rows_that_nobody_takes_are_counted_and_not_kept() -> None:
    screen = drawn("".join(f"{number}\r\n" for number in range(KEPT * 2)))
    assert screen.lost == KEPT * 2 - KEPT - 4
    assert screen.take(whole=True).split("\n")[0] == str(screen.lost)


def test_another_size_loses_nothing() -> None:
    screen = drawn("1\r\n2\r\n3\r\n4\r\n5")
    screen.resize(10, 2)
    assert (screen.lines, screen.cursor) == (["4", "5"], (1, 1))
    screen.resize(30, 8)
    screen.feed("\r\n" + "x" * 30)
    assert screen.lines == ["4", "5", "x" * 30]
    assert screen.take(whole=True) == "1\n2\n3\n4\n5\n" + "x" * 30


def test_a_sequence_without_an_end_takes_up_little_and_hides_nothing_behind_it() -> None:
    screen = drawn("\x1b]0;", columns=80)
    for _ in range(100):
        screen.feed("x" * 10_000)
    assert len(screen._sequences._carried) < 10_000
    screen.feed("\x07seen")
    assert screen.lines == ["seen"]
