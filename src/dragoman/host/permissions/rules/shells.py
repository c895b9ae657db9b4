"""The commands that a shell text runs, as far as it can be parsed, and whether one is hidden."""

import itertools
import re
from collections.abc import Iterator

from .programs import program

MAX_COMMANDS = 500  # simple commands parsed of one text
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=.*", re.DOTALL)
_IN_FRONT = frozenset(
    ("then", "do", "else", "elif", "if", "while", "until", "time", "!", "coproc", "exec", "command")
)
_NO_COMMAND = frozenset(("for", "case", "select", "function", "in", "esac", "done", "fi", "[", "[[", "]]", "]"))
_SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh"))
_PIECES = re.compile(
    r"""
        (?P<end> [;&|\n(){}`] )
      | (?P<blank> \s+ )
      | (?P<escaped> \\. )
      | ' (?P<single> [^']* ) '
      | " (?P<double> (?: [^"\\] | \\. )* ) "
      | (?P<filled> \$' (?: [^'\\] | \\. )* ' | \$\{ [^}]* \} | \$[\w@*\#?$!-]* | [*?\[] )
      | (?P<plain> [^\s;&|(){}`\\'"$*?\[]+ )
      | (?P<odd> . )
    """,
    re.DOTALL | re.VERBOSE,
)
_REDIRECTION = re.compile(r"[0-9]*[<>]+")
_NESTED = re.compile(r"(?:\$\(|`)\s*[$\"'`\\]")


class Word:
    """A word of a command without its quotes; `is_filled_in` if the shell expands it."""

    def __init__(self) -> None:
        self.text = ""
        self.is_filled_in = False


def simple_commands(text: str) -> Iterator[list[Word]]:
    """The commands of a text, as words; nested commands follow one another."""
    words: list[Word] = []
    word: Word | None = None
    for piece in _PIECES.finditer(text):
        kind = piece.lastgroup
        if kind == "end":
            if word and piece["end"] in "(`":  # its output becomes part of the word
                word.is_filled_in = True
            yield words
            words, word = [], None
        elif kind == "blank":
            word = None
        else:
            if word is None:
                word = Word()
                words.append(word)
            found = piece[kind] if kind in ("single", "double") else piece[0]
            word.text += found.removeprefix("\\") if kind == "escaped" else found
            word.is_filled_in |= kind in ("filled", "odd") or (
                kind == "double" and re.search(r"[$`]", found) is not None
            )
    yield words


def is_dynamic(text: str) -> bool:
    """Whether only the running shell determines which programs it runs, or they are too many to parse."""
    commands = list(itertools.islice(simple_commands(text), MAX_COMMANDS + 1))
    return len(commands) > MAX_COMMANDS or _NESTED.search(text) is not None or any(map(_is_hidden, commands))


def _is_hidden(words: list[Word]) -> bool:
    kept = [word for word in _without_redirections(words) if word.is_filled_in or not _is_setting(word)]
    while kept and kept[0].text in _IN_FRONT:
        kept.pop(0)
    if not kept or kept[0].text in _NO_COMMAND:
        return False
    first, *others = kept
    if program(first.text) in _SHELLS and not first.is_filled_in:
        names_nothing = all(word.text.startswith("-") for word in others)  # so it reads its commands from its input
        return names_nothing or any(word.is_filled_in or word.text == "-s" for word in others)
    return (first.is_filled_in and not _is_setting(first)) or first.text == "eval"


def _is_setting(word: Word) -> bool:
    return _ASSIGNMENT.fullmatch(word.text) is not None


def _without_redirections(words: list[Word]) -> Iterator[Word]:
    is_target = False
    for word in words:
        redirection = _REDIRECTION.match(word.text)
        if redirection is None and not is_target:
            yield word
        is_target = redirection is not None and redirection.end() == len(word.text)
