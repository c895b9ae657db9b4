"""Words that every match of a regular expression contains, so that most files need not be read line by line.

If an expression is not understood, there are no such words and every line is searched.  Words are ASCII, because
the meaning of other bytes depends on a file's encoding.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

MOST_WORDS = 50
FEW = 8  # words that are searched one after the other
BREAK = ord("\n")
_ALIKE = {
    "i": "\u0130\u0131",
    "k": "\u212a",
    "s": "\u017f",
}  # other characters that re.IGNORECASE takes for an ASCII letter
Tree = Iterable[tuple[Any, Any]]  # as the standard library parses an expression
Find = Callable[[bytes, int], int]


def finder(pattern: re.Pattern[str]) -> Find | None:
    """A function that finds the next place where a line may match; None if no words are certain."""
    words = _words_of(pattern)
    if not words:
        return None
    if len(words) == 1 and not pattern.flags & re.IGNORECASE:
        (word,) = words
        sought = word.encode()
        return lambda data, start: data.find(sought, start)
    folds = bool(pattern.flags & re.IGNORECASE)
    anywhere = re.compile("|".join(map(_folded if folds else re.escape, sorted(words))).encode())
    plain = [word.lower().encode() if folds else word.encode() for word in sorted(words)]

    def find(data: bytes, start: int) -> int:
        # Searching each word takes a fraction of the expression's time, and most files contain none of them.
        if start == 0 and len(plain) <= FEW and (data.isascii() or not folds):
            all_of_it = data.lower() if folds else data
            if not any(word in all_of_it for word in plain):
                return -1
        match = anywhere.search(data, start)
        return match.start() if match else -1

    return find


def spans_lines(pattern: re.Pattern[str]) -> bool:
    """Whether every match has a line break in it, so that no line can match."""
    return any("\n" in run for run in _runs(_parsed(pattern)))


def stays_in_line(pattern: re.Pattern[str]) -> bool:
    """Whether no part of an expression can match or notice a line break.

    Then a search of the whole text finds the same as a search of each line.
    """
    return not pattern.flags & re.DOTALL and _is_blind(tree := _parsed(pattern)) and bool(tree)


def _is_blind(tree: Tree) -> bool:
    return all(_sees_no_break(str(operation), argument) for operation, argument in tree)


def _sees_no_break(operation: str, argument: Any) -> bool:
    match operation:
        case "LITERAL":
            return bool(argument != BREAK)
        case "NOT_LITERAL":
            return bool(argument == BREAK)
        case "ANY" | "GROUPREF":
            return True
        case "AT":
            return str(argument) in ("AT_BOUNDARY", "AT_NON_BOUNDARY")
        case "IN":
            (first, _), *_ = argument
            return str(first) != "NEGATE" and all(_is_beside_break(str(kind), value) for kind, value in argument)
        case "SUBPATTERN":
            return not argument[1] and not argument[2] and _is_blind(argument[3])
        case "BRANCH":
            return all(map(_is_blind, argument[1]))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _is_blind(argument[2])
        case "ATOMIC_GROUP":
            return _is_blind(argument)
    return False


def _is_beside_break(kind: str, value: Any) -> bool:
    """Whether a part of a character set excludes the line break."""
    match kind:
        case "LITERAL":
            return bool(value != BREAK)
        case "RANGE":
            return not value[0] <= BREAK <= value[1]
        case "CATEGORY":
            return str(value) in ("CATEGORY_DIGIT", "CATEGORY_WORD", "CATEGORY_NOT_SPACE")
    return False


def _parsed(pattern: re.Pattern[str]) -> Tree:
    """The expression as parsed by the standard library, which has no public name for that."""
    try:
        from re import _parser  # type: ignore[attr-defined]

        return list(_parser.parse(pattern.pattern, pattern.flags))
    except (ImportError, AttributeError, TypeError):
        return []


def _words_of(pattern: re.Pattern[str]) -> set[str] | None:
    words = _required(_parsed(pattern))
    return words if words and len(words) <= MOST_WORDS else None


def _required(tree: Tree) -> set[str] | None:
    """Words of which every match contains one: the longest of a sequence, or one for each branch."""
    tree = list(tree)
    found = [{max(runs, key=len)}] if (runs := _ascii_runs(tree)) else []
    for operation, argument in tree:
        words = None
        match str(operation):
            case "SUBPATTERN" if not argument[1] and not argument[2]:  # no flags of its own
                words = _required(argument[3])
            case "BRANCH":
                words = _any_of(argument[1])
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT" if argument[0] > 0:
                words = _required(argument[2])
            case "ATOMIC_GROUP":
                words = _required(argument)
        if words:
            found.append(words)
    return max(found, key=lambda words: (min(map(len, words)), -len(words)), default=None)


def _any_of(branches: Iterable[Tree]) -> set[str] | None:
    words: set[str] = set()
    for branch in branches:
        one = _required(branch)
        if not one:
            return None
        words |= one
    return words


def _runs(tree: Tree) -> list[str]:
    """Consecutive characters of a word."""
    runs = [""]
    for operation, argument in tree:
        if str(operation) == "LITERAL":
            runs[-1] += chr(argument)
        else:
            runs.append("")
    return [run for run in runs if run]


def _ascii_runs(tree: Tree) -> list[str]:
    return [word for run in _runs(tree) for word in re.findall(r"[\x01-\x09\x0b\x0c\x0e-\x7f]+", run)]


def _folded(word: str) -> str:
    """An expression for a word in upper or lower case."""
    return "".join(map(_either_case, word))


def _either_case(letter: str) -> str:
    if not letter.isalpha():
        return re.escape(letter)
    spellings = [letter.lower(), letter.upper(), *_ALIKE.get(letter.lower(), "")]
    return f"(?:{'|'.join(spellings)})"
