"""The content of a line of Markdown: emphasis, code and links, as runs of text with styles."""

import re

# A run of text and the names of its styles.
Span = tuple[str, tuple[str, ...]]

LONGEST = 500  # characters of emphasis, code or a link; a mark that is not closed within them is text
DEEPEST = 4  # emphasis within emphasis

_SPECIAL = re.compile(r"[\\`*_~!\[]")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_TICKS = re.compile(r"`+")
_RUN = re.compile(r"\*+|_+|~+")
# Marks inside a word are text (2*3*4, snake_case); so are those around one name (__init__).
_EMPHASIS = {
    "***": (re.compile(r"\*{3}(?=[^\s*])(.+?)(?<=[^\s*])\*{3}(?![*A-Za-z0-9])"), ("bold", "italic")),
    "**": (re.compile(r"\*\*(?=[^\s*])(.+?)(?<=\S)\*\*(?![*A-Za-z0-9])"), ("bold",)),
    "*": (re.compile(r"\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?![*A-Za-z0-9])"), ("italic",)),
    "__": (re.compile(r"__(?=[^\s_])(?!\w+__)(.+?)(?<=\S)__(?![\w])"), ("bold",)),
    "_": (re.compile(r"_(?=[^\s_])(?!\w+_)(.+?)(?<=[^\s_])_(?![\w])"), ("italic",)),
    "~~": (re.compile(r"~~(?=[^\s~])(.+?)(?<=[^\s~])~~(?!~)"), ("dim",)),
}
_ADDRESS = r"\((?P<url>[^\s()]*(?:\([^\s()]*\)[^\s()]*)*)\)"
_LINK = re.compile(rf"!?\[(?P<text>[^\[\]]+)\]{_ADDRESS}")
_LINK_BEGUN = re.compile(r"!?(?:\[(?:[^\[\]]+(?:\](?:\((?:[^\s()]|\([^\s()]*\))*(?:\([^\s()]*)?)?)?)?)?")


def spans_of(text: str, styles: tuple[str, ...] = (), depth: int = 0) -> list[Span]:
    """A complete line as spans."""
    spans, before = list[Span](), ""
    while text:
        found, used = next_spans(text, before, styles, depth, is_complete=True)
        spans += found
        before, text = text[used - 1], text[used:]
    return spans


def next_spans(
    text: str, before: str, styles: tuple[str, ...] = (), depth: int = 0, *, is_complete: bool
) -> tuple[list[Span], int]:
    """The next spans of a line, and their number of characters; nothing until more of the line is known.

    `before` is the previous character, `is_complete` whether the line ends here.
    """
    special = _SPECIAL.search(text)
    if special is None:
        return [(text, styles)], len(text)
    if special.start():
        return [(text[: special.start()], styles)], special.start()
    match text[0]:
        case "\\":
            if len(text) == 1 and not is_complete:
                return [], 0
            escaped = _ESCAPED.match(text)
            return ([(escaped[1], styles)], 2) if escaped else ([("\\", styles)], 1)
        case "`":
            return _code(text, styles, is_complete)
        case "[" | "!":
            return _link(text, styles, depth, is_complete)
        case _:
            return _emphasised(text, before, styles, depth, is_complete)


def _code(text: str, styles: tuple[str, ...], is_complete: bool) -> tuple[list[Span], int]:
    ticks = _run(_TICKS, text)
    if len(ticks) == len(text) and not is_complete and len(text) <= LONGEST:
        return [], 0
    closing = re.compile(rf"(?<!`){ticks}(?!`)").search(text[: LONGEST + 1], len(ticks))
    if closing is None or closing.end() > LONGEST:
        return _text_unless_more(ticks, text, styles, is_complete)
    if closing.end() == len(text) and not is_complete:
        return [], 0  # one more may follow
    content = text[len(ticks) : closing.start()]
    if content[0] == content[-1] == " " and content.strip():
        content = content[1:-1]
    return [(content, (*styles, "code"))], closing.end()


def _link(text: str, styles: tuple[str, ...], depth: int, is_complete: bool) -> tuple[list[Span], int]:
    link = _LINK.match(text[: LONGEST + 1])
    if link is None or link.end() > LONGEST:
        is_begun = _LINK_BEGUN.fullmatch(text) is not None and len(text) <= LONGEST
        return ([], 0) if is_begun and not is_complete else ([(text[0], styles)], 1)
    words = spans_of(link["text"], (*styles, "underline"), depth + 1)
    url = link["url"]
    address = [] if not url or url == link["text"] else [(f" ({url})", (*styles, "dim"))]
    return words + address, link.end()


def _emphasised(
    text: str, before: str, styles: tuple[str, ...], depth: int, is_complete: bool
) -> tuple[list[Span], int]:
    marks = _run(_RUN, text)
    if len(marks) == len(text) and not is_complete and len(text) <= LONGEST:
        return [], 0
    is_inside_word = bool(before) and (before.isalnum() if marks[0] == "_" else re.match("[A-Za-z0-9]", before))
    if marks not in _EMPHASIS or is_inside_word or depth >= DEEPEST:
        return [(marks, styles)], len(marks)
    pattern, added = _EMPHASIS[marks]
    found = pattern.match(text[: LONGEST + 1])
    if found is None or found.end() > LONGEST:
        return _text_unless_more(marks, text, styles, is_complete)
    if found.end() == len(text) and not is_complete:
        return [], 0  # the next character shows whether this is the end of it
    return spans_of(found[1], (*styles, *added), depth + 1), found.end()


def _text_unless_more(marks: str, text: str, styles: tuple[str, ...], is_complete: bool) -> tuple[list[Span], int]:
    """Marks become text once nothing can close them any more."""
    return ([(marks, styles)], len(marks)) if is_complete or len(text) > LONGEST else ([], 0)


def _run(pattern: re.Pattern[str], text: str) -> str:
    """The marks at the beginning of a text, up to the number that matters."""
    found = pattern.match(text[: LONGEST + 1])
    assert found
    return found[0]
