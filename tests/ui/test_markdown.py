"""Markdown on a terminal: what is shown, that no word is lost, and that chunks make no difference."""

import itertools
import re
from collections import Counter

import pytest
from emulator import Emulator
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.foundation.columns import width
from dragoman.ui.legible import ProseStream
from dragoman.ui.markdown import LiveMarkdown, MarkdownStream
from dragoman.ui.output import defused, marked
from dragoman.ui.style import Style

PLAIN, COLOURED = Style(False), Style(True)
_MARK = marked("")[: len(marked("")) // 2]
SEQUENCE = re.compile(re.escape(_MARK) + r"\x1b\[[0-9;]*m" + re.escape(_MARK))

# Marks in every neighbourhood: words, blanks, line breaks, and what begins a block.
PIECES = st.sampled_from(
    [
        *"*_`~[]()!\\|#->+.:x\n ", "**", "***", "__", "~~", "```", "~~~", "\n\n", "\n- ", "\n> ", "\n# ", "\n1. ",
        "\n```", "\n```py\n", "\n| a | b |\n|---|--:|\n| c | d |\n", "\n---\n", "a", "word", "two words", "wörter",
        "文字", "[a](b)", "`c`", "- [ ] ", "- [x] ", "    ", "\t", "x" * 30, "x" * 600,
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=40).map("".join)


def shown(*chunks: str, columns: int = 40, style: Style = PLAIN) -> str:
    stream = MarkdownStream(style, columns)
    return "".join([*map(stream.show, chunks), stream.end()])


def seen(text: str) -> list[tuple[str, str]]:
    """Each character with the sequence it is shown by."""
    style, characters = "", list[tuple[str, str]]()
    for part in re.split(f"({SEQUENCE.pattern})", text):
        if SEQUENCE.fullmatch(part):
            style = "" if part.endswith(f"[0m{_MARK}") else part
        else:
            characters += [(char, style) for char in part]
    return characters


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[begin:end] for begin, end in itertools.pairwise(ends)]


def lines(*text: str, columns: int = 40) -> list[str]:
    return shown("\n".join(text), columns=columns).splitlines()


@given(TEXTS, st.lists(st.integers(0, 2000), max_size=30), st.sampled_from([PLAIN, COLOURED]))
@example("**a**b", [5], COLOURED)  # what follows a mark says whether it ends something
@example("_a b_c", [5], COLOURED)
@example("`a``b`", [3], COLOURED)
def test_chunks_make_no_difference(text: str, places: list[int], style: Style) -> None:
    assert seen(shown(*cut(text, places), style=style)) == seen(shown(text, style=style))


@given(TEXTS)
def test_a_letter_at_a_time_makes_no_difference(text: str) -> None:
    assert seen(shown(*text, style=COLOURED)) == seen(shown(text, style=COLOURED))


@given(TEXTS, st.lists(st.integers(0, 2000), max_size=30), st.integers(4, 60))
def test_what_is_seen_while_it_is_undecided_leaves_no_trace(text: str, places: list[int], columns: int) -> None:
    def screen(*chunks: str) -> list[list[tuple[str, str]]]:
        live, emulator = LiveMarkdown(COLOURED, columns), Emulator(columns, 10_000)
        for shown in (*map(live.show, chunks), live.end()):
            emulator.feed(shown.replace(_MARK, "").replace("\n", "\r\n"))
        return emulator.styled

    assert screen(*cut(text, places)) == screen(text)


def test_the_last_word_is_seen_though_nothing_follows_it() -> None:
    live, emulator = LiveMarkdown(PLAIN, 20), Emulator(20)
    emulator.feed(live.show("Waiting for **you").replace(_MARK, ""))
    assert emulator.lines == ["Waiting for **you"]
    emulator.feed(live.show("**").replace(_MARK, "") + live.end().replace(_MARK, ""))
    assert emulator.lines[0] == "Waiting for you"


@given(TEXTS, st.integers(1, 100))
@example("| a |\n|---|\n| b |\n\n\nc", 5)
@example("_a_b_ __init__ *args, **kwargs and 2*3*4", 30)
def test_no_letter_is_lost(text: str, columns: int) -> None:
    def letters(text: str) -> list[str]:
        return [char for char in text if char.isalnum()]

    drawn = SEQUENCE.sub("", shown(text, columns=columns, style=COLOURED))
    if "|" not in text:  # cells that are wrapped stand beside each other; the x of a task becomes a box
        ordered = ["".join(letters(each)).replace("x", "") for each in (drawn, text)]
        assert ordered[0] == ordered[1]
    assert not Counter(letters(re.sub(r"\[[xX]\]", "", text))) - Counter(letters(drawn))


@given(st.text(st.characters() | st.sampled_from("\x1b\x07\x9b\u202e*`#|\n- ["), max_size=200))
def test_no_control_sequence_of_the_agents_survives(text: str) -> None:
    prose, stream = ProseStream(), MarkdownStream(COLOURED, 40)
    drawn = stream.show(prose.show(text)) + stream.show(prose.end()) + stream.end()
    ours = SEQUENCE.sub("", drawn)
    assert "\x1b" not in ours and "\x9b" not in ours and "\u202e" not in ours
    assert defused(ours) == ours


@given(st.lists(st.sampled_from(["a", "word", "**bold words**", "`code`", "[text](url)", "文字"]), max_size=40))
def test_no_line_is_wider_than_the_terminal(words: list[str]) -> None:
    for mark in ("", "- ", "> ", "# ", "12. "):
        assert all(width(line) <= 20 for line in lines(mark + " ".join(words), columns=20))


def test_emphasis_code_and_links_have_styles() -> None:
    text = "**bold** *italic* ***both*** `code` ~~gone~~ [here](http://x.example)"
    seen = shown(text, style=COLOURED, columns=200).replace(_MARK, "")
    assert seen == (
        "\x1b[1mbold\x1b[0m \x1b[3mitalic\x1b[0m \x1b[1;3mboth\x1b[0m \x1b[36mcode\x1b[0m \x1b[2mgone\x1b[0m "
        "\x1b[4mhere\x1b[0m\x1b[2m (http://x.example)\x1b[0m\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "2*3*4 and 2 * 3 * 4", "snake_case_name", "__init__.py and _private_", "*args and **kwargs", "a ** b",
        "not `closed", "[x] and [y] (z)", "1) * 2", "#hashtag", "-1 is a number", "C:\\Users\\name", "a | b",
        "x#", "`` `", "wow! [no link]",
    ],
)  # fmt: skip
def test_what_only_looks_like_markup_stays(text: str) -> None:
    assert shown(text, columns=100) == f"{text}\n"


def test_lines_are_broken_between_words_and_go_on_under_their_text() -> None:
    assert lines("- one two three four", "  - five six seven", "10. eight nine ten", columns=14) == [
        "• one two", "  three four", "  • five six", "    seven", "10. eight nine", "    ten",
    ]  # fmt: skip


def test_a_task_has_a_box_and_a_quote_an_edge() -> None:
    assert lines("- [ ] open", "- [x] done", "> said by", "> > another", columns=14) == [
        "☐ open", "☑ done", "│ said by", "│ │ another",
    ]  # fmt: skip


def test_code_is_shown_as_it_is() -> None:
    code = ["```python", "def f(**kw):", "", "    return  1  # " + "long " * 4, "```"]
    assert lines("See:", *code, "So.", columns=20) == [
        "See:", "  python", "  def f(**kw):", "  ", "      return  1  # long long long long ", "So.",
    ]  # fmt: skip


def test_a_word_wider_than_the_terminal_is_not_cut() -> None:
    url = "https://example.com/" + "path/" * 10
    assert lines(f"see {url} there", columns=20) == ["see", f"{url} there"]  # the terminal breaks it


def test_a_table_has_columns_of_its_own() -> None:
    table = ["| Name | Count |", "|:-----|------:|", "| tea | 12 |", "| **coffee** | 7 |"]
    assert lines(*table) == ["Name    Count", "──────  ─────", "tea        12", "coffee      7"]


def test_a_table_too_wide_is_wrapped_in_its_cells_and_one_far_too_wide_is_a_list() -> None:
    table = ["| Name | What it is |", "|---|---|", "| tea | leaves in hot water |", "| milk | white |"]
    assert lines(*table, columns=20) == [
        "Name  What it is", "────  ──────────────", "tea   leaves in hot", "      water", "milk  white",
    ]  # fmt: skip
    assert lines(*table, columns=9) == [
        "Name: tea", "What it", "is:", "leaves in", "hot water", "", "Name:", "milk", "What it", "is: white",
    ]  # fmt: skip


def test_what_begins_with_a_bar_and_is_no_table_stays() -> None:
    assert lines("| a | b", "and so on") == ["| a | b", "and so on"]


def test_blank_lines_are_one_and_none_at_the_ends() -> None:
    assert shown("\n\n# Title\n\n\n\ntext\n\n---\n\n") == f"Title\n\ntext\n\n{'─' * 40}\n"


def test_without_colours_code_keeps_its_marks() -> None:
    assert shown("run `make test` now") == "run `make test` now\n"


def test_words_are_shown_while_their_line_is_not_complete() -> None:
    stream = MarkdownStream(PLAIN, 40)
    assert stream.show("one two thr") == "one two"
    assert stream.show("ee **bo") == " three"
    assert stream.show("ld** x") == " bold"
