"""Text that came from elsewhere, as it can be shown: nothing invisible, nothing that moves the cursor or the order.

Invisible characters are written out, never left out: `\\u{202e}`.  Whatever is added here (`\\u{…}`, how
often a blank is repeated, how much was left out, the latter two in angle brackets) cannot be forged, because the
characters it is made of are written out themselves where the text has them.  So two texts that are shown alike and
whole are alike.
"""

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

LIMIT = 4000  # characters shown of one text
COMMAND_LIMIT = 16_000
MAX_RUN = 8  # blanks in a row; more could push the rest out of sight
MAX_INDENT = 40  # the same at the start of a line, where code has them
MAX_DEPTH = 100  # of values in values
MAX_MARKS = 4  # accents on one letter

# Python calls these printable, yet nothing, or nothing of their own, is seen: joiners, Hangul and Khmer fillers,
# variation selectors, the blank Braille pattern.  And ours: the angle brackets.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef\u27e8\u27e9]"
)
_RUNS = re.compile(r"(.)\1*", re.DOTALL)
_HARMLESS = re.compile(r"[ -~]*")
_SUSPECT = re.compile(r" {9}|\\u\{")
_BARE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")

_LEFT_OUT = "⟨… "
LEFT_OUT = f"{_LEFT_OUT}the rest is left out …⟩"

T = TypeVar("T")


def visible(text: str, *, limit: int = LIMIT, lines: bool = False) -> str:
    """The text with every invisible character written out, and its middle left out where it is too long.

    With `lines`, line breaks, tabs and indentation stay, as a diff needs them; else it is one line for certain.
    """
    if len(text) <= limit and _HARMLESS.fullmatch(text) and not _SUSPECT.search(text):
        return text
    most = 2 * limit
    if len(text) > 2 * most:  # looking at all of it would take too long
        head, tail = list(_pieces(text[:most], lines)), list(_pieces(text[-most:], lines))
        return _elided(head, tail, limit, len(text))
    pieces = list(_pieces(text, lines))
    if sum(len(shown) for shown, _ in pieces) <= limit:
        return "".join(shown for shown, _ in pieces)
    return _elided(pieces, pieces, limit, len(text))


def shortened(value: object, limit: int = LIMIT) -> tuple[object, bool]:
    """A JSON value with no more of its texts and members than can be shown, and whether all of it is there."""
    room, is_whole = limit, True

    def cut(value: object, depth: int) -> object:
        nonlocal room, is_whole
        room -= 1
        if isinstance(value, str):
            kept = value[: max(room, 0)]
            room -= len(kept)
            is_whole = is_whole and len(kept) == len(value)
            return kept
        if not isinstance(value, dict | list | tuple):
            return value
        items = list(itertools.islice(value.items() if isinstance(value, dict) else value, max(room, 0)))
        is_whole = is_whole and len(items) == len(value) and depth < MAX_DEPTH
        if depth >= MAX_DEPTH:
            return None
        if isinstance(value, dict):
            return {str(cut(name, depth + 1)): cut(member, depth + 1) for name, member in items}
        return [cut(item, depth + 1) for item in items]

    return cut(value, 0), is_whole


def is_elided(shown: str) -> bool:
    """Whether something was left out of the shown text."""
    return _LEFT_OUT in shown


def _pieces(text: str, lines: bool) -> Iterator[tuple[str, int]]:
    """The shown text in pieces, each with the number of characters that it stands for."""
    marks = MAX_MARKS  # at the very start an accent would sit on the character in front of the text
    for run in _RUNS.finditer(text):
        char, count = run[1], run.end() - run.start()
        if char == " " or (char in "\t\n" and lines):
            marks = MAX_MARKS
            starts_line = lines and char != "\n" and text[run.start() - 1 : run.start()] in ("", "\n")
            if count > (MAX_INDENT if starts_line else MAX_RUN):
                yield _times(char, count) + ("\n" if char == "\n" else ""), count
            else:
                yield char * count, count
        elif _is_seen(char):
            backslash = char == "\\" and text.startswith("u{", run.end())
            is_mark = unicodedata.category(char) in ("Mn", "Me")
            for left in range(count, 0, -1):
                marks = marks + 1 if is_mark else 0
                hidden = (backslash and left == 1) or marks > MAX_MARKS
                yield _escape(char) if hidden else char, 1
        elif count > MAX_RUN:
            yield _times(char, count), count
        else:
            for _ in range(count):
                yield _escape(char), 1


def _is_seen(char: str) -> bool:
    return char.isprintable() and not _UNSEEN.match(char)


def _escape(char: str) -> str:
    return f"\\u{{{ord(char):x}}}"


def _times(char: str, count: int) -> str:
    return f"⟨{'' if char == ' ' else _escape(char)}\u00d7{count}⟩"


def _elided(head: Sequence[tuple[str, int]], tail: Sequence[tuple[str, int]], limit: int, size: int) -> str:
    """A third from the start and the rest from the end, the best place of a command to hide something."""
    start, seen = _fill(head, limit // 3)
    end, seen_last = _fill(reversed(tail), limit - limit // 3)
    note = f"{_LEFT_OUT}{size - seen - seen_last} characters left out …⟩"
    return "".join(start) + note + "".join(reversed(end))


def _fill(pieces: Iterable[tuple[str, int]], room: int) -> tuple[list[str], int]:
    taken: list[str] = []
    seen = 0
    for shown, count in pieces:
        if (room := room - len(shown)) < 0:
            break
        taken.append(shown)
        seen += count
    return taken, seen


def quoted(word: str, *, limit: int = LIMIT) -> str:
    """One word of a command, quoted as a shell would read it, so that no two words are shown alike."""
    if _BARE.fullmatch(word) and len(word) <= limit:
        return word
    return visible("'" + word.replace("'", "'\\''") + "'", limit=limit)


def shown_command(
    argv: Sequence[str],
    env: Iterable[tuple[str, str]] = (),
    cwd: str | None = None,
    shell: bool = False,
    *,
    limit: int = COMMAND_LIMIT,
) -> str:
    """A command as it will be run: its words, then a line each for a shell that reads it, variables, directory."""
    shown = [_joined(argv, lambda word: quoted(word, limit=limit // 2), limit)]
    if shell:
        shown.append("read by a shell, which may run any number of programs")
    if settings := list(env):
        shown.append(f"with {_joined(settings, lambda pair: f'{quoted(pair[0])}={quoted(pair[1])}', limit)}")
    if cwd is not None:
        shown.append(f"in {quoted(cwd)}")
    return "\n".join(shown)


def _joined(words: Sequence[T], show: Callable[[T], str], limit: int) -> str:
    """Words in a row; where they are too many, those in the middle are left out, the last never."""
    shown, room = [], limit
    for word in words:
        shown.append(show(word))
        if (room := room - len(shown[-1]) - 1) < 0:
            break
    else:
        return " ".join(shown)
    start, _ = _fill(((word, 1) for word in shown[: len(words) - 1]), limit // 4)
    others = itertools.islice(reversed(words), len(words) - len(start))
    end, _ = _fill(((show(word), 1) for word in others), limit // 4)
    end = end or [show(words[-1])]
    if missing := len(words) - len(start) - len(end):
        start.append(f"{_LEFT_OUT}{missing} words left out …⟩")
    return " ".join([*start, *reversed(end)])


def scripts(text: str) -> list[str]:
    """The scripts the letters of a text belong to, such as LATIN and CYRILLIC."""
    found = (unicodedata.name(char, "UNKNOWN").split()[0] for char in text if char.isalpha())
    return sorted(set(found))
