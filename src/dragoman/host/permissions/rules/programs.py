"""Programs in rules: their names, and the arguments in `program_table`."""

import re
from collections.abc import Sequence

from .program_table import TABLE, FurtherArguments

MAX_FURTHER = 1000  # arguments a rule may leave open
_DEEPEST = 3  # words that name a row of the table


def program(word: str) -> str:
    """The name of the program in a word, without directory and version."""
    name = word.replace("\\", "/").rpartition("/")[2].casefold().removesuffix(".exe")
    return re.sub(r"(?<=[a-z])[-.]?[0-9][0-9.]*$", "", name) or name


def why_not_open(fixed: Sequence[str]) -> str | None:
    """Why a rule must not end in "any further arguments" after these words; None if it may."""
    if _known(fixed) is not None:
        return None
    name = program(fixed[0])
    commands = sorted({row.split()[1] for row in TABLE if row.startswith(f"{name} ")})
    if not commands:
        return f"{name} may run, load or write whatever its arguments say"
    return f"{name} may run, load or write whatever its arguments say, but after one of: {', '.join(commands)}"


def covers(argv: Sequence[str], fixed: int) -> bool:
    """Whether `...` covers the words of a command after the first `fixed` ones, which a rule names."""
    if (found := _known(argv[:fixed])) is None:
        return False
    tail, named = found
    return len(argv) - fixed <= MAX_FURTHER and tail.covers(argv[named:fixed], argv[fixed:])


def is_inert(argv: Sequence[str]) -> bool:
    """Whether a command is known to run no other program that its arguments name."""
    if (found := _known(argv)) is None:
        return False
    tail, named = found
    return len(argv) <= MAX_FURTHER and tail.covers((), argv[named:])


def _known(words: Sequence[str]) -> tuple[FurtherArguments, int] | None:
    """The arguments that may follow these words, and how many of the words name their row of the table."""
    names = [program(words[0]), *words[1:_DEEPEST]] if words else []
    if any(" " in name for name in names[:2]):  # the table joins words with blanks
        return None
    for size in range(len(names), 0, -1):
        is_script = size == _DEEPEST and not names[-1].startswith("-")
        for row in (names[:size], [*names[:-1], "*"] if is_script else []):
            if (tail := TABLE.get(" ".join(row))) is not None:
                return tail, size
    return None
