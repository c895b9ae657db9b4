"""Operations that a deny or an ask rule may concern, although it does not name them literally; the user is asked.

Commands can be spelled in many ways: options before or after the command, flags in one word or in several, by
letter or by name, another program in between, a shell's quotes.  No spelling may evade a ban.
"""

import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence

from ...addresses import Origin
from ...operations import Execute
from ...protected import folded
from .patterns import Budget, name_fits, text_fits
from .programs import is_inert, program
from .shells import is_dynamic

MAX_TEXT = 16_384  # characters of a command that are examined; the meaning of a longer one is unknown
MAX_SHELL_TEXT = 262_144  # characters of a text for a shell that are compared with a pattern
MAX_WORDS = 1000
_WILD = re.compile(r"[*?\[]")
_GIVING = re.compile(r"(?<![\w-])(?:g?xargs|parallel|fd|fdfind)(?![\w-])")  # they read further arguments
_QUOTES = str.maketrans("", "", "'\"\\")
# Invisible characters besides those of the category Cf: fillers and variation selectors.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")
_BLANKS = str.maketrans("'\"\\", "   ")


class ReadCommand:
    """A command as bans compare it, parsed once for all rules."""

    def __init__(self, operation: Execute, budget: Budget) -> None:
        argv = operation.argv
        self._budget = budget
        self._operation = operation
        self.is_shell = operation.shell
        self.is_too_long = len(argv) > MAX_WORDS or sum(map(len, argv)) > MAX_TEXT
        self._argv = () if self.is_too_long else argv

    @functools.cached_property
    def words(self) -> list[str]:
        """Its arguments, and values that are attached to options, as words of their own."""
        found: list[str] = []
        for word in map(folded, self._argv[1:]):
            found.append(word)
            if word.startswith("-"):
                found.append(word[2:])
            if value := word.partition("=")[2]:
                found += [value, *re.split(r"[\s!;]+", value)]
        return found

    @functools.cached_property
    def text(self) -> str:
        """The whole command in one line, without a shell's quotes."""
        said = self._argv[-1].replace("\\\n", "") if self.is_shell else " ".join(self._argv)
        return " ".join(folded(said).translate(_QUOTES).split())

    @functools.cached_property
    def parted(self) -> str:
        """The whole command with blanks in place of quotes, where other languages end a word."""
        return folded(" ".join(self._argv)).translate(_BLANKS)

    @functools.cached_property
    def shell_text(self) -> str | None:
        """The text for a shell, in one line; None if no shell reads it or it is too long to compare."""
        said = self._operation.argv[-1]
        return " ".join(folded(said).split()) if self.is_shell and len(said) <= MAX_SHELL_TEXT else None

    @functools.cached_property
    def names(self) -> list[str]:
        """All words that could be the name of a program."""
        return list(dict.fromkeys(re.findall(r"[\w.+-]+", self.text)))

    @functools.cached_property
    def programs(self) -> list[str]:
        """The same words without versions."""
        return list(dict.fromkeys(map(program, self.names)))

    @functools.cached_property
    def shell_words(self) -> list[str]:
        return list(dict.fromkeys(re.split(r"[\s;&|()=]+", self.text)))

    @functools.cached_property
    def hides(self) -> bool:
        """Whether it may run another program that it names."""
        return self.is_shell or not is_inert(self._argv)

    @functools.cached_property
    def is_dynamic(self) -> bool:
        """Whether only the running shell determines which programs it runs."""
        return self.is_shell and is_dynamic(folded(self._argv[-1]))

    def might_be(self, wanted: Sequence[str]) -> bool:
        """Whether a ban on a program with some arguments may concern this command."""
        if self.is_too_long or self.is_dynamic:
            return True
        name = folded(wanted[0])
        if not self.is_shell and program_fits(name, self._argv[0]):
            return self._has(wanted[1:])
        if not self.hides or not self._mentions(name):
            return False
        return not self.is_shell or self._mentions_words(wanted[1:]) or self._may_gain_words(name, wanted[1:])

    def might_read(self, wanted: str) -> bool:
        """Whether a ban on a text for a shell may concern this command."""
        pattern = " ".join(folded(wanted).translate(_QUOTES).split())
        return self.is_too_long or text_fits(f"*{pattern}*", self.text) or self.might_be(pattern.split() or [""])

    def _has(self, wanted: Iterable[str]) -> bool:
        words = [piece for each in wanted for piece in folded(each).split()]
        is_flag = re.compile("-.").match
        return all(self._has_flag(word) if is_flag(word) else self._has_word(word) for word in words)

    def _has_word(self, wanted: str) -> bool:
        return self._is_among(wanted, self.words)

    def _is_among(self, wanted: str, words: Sequence[str]) -> bool:
        if not _WILD.search(wanted):
            return wanted in words
        return not self._budget.spend(len(words)) or any(name_fits(wanted, word, classes=True) for word in words)

    @functools.cached_property
    def _letters(self) -> frozenset[str]:
        return frozenset("".join(word[1:] for word in self.words if word[:1] == "-" and word[:2] != "--"))

    @functools.cached_property
    def _options(self) -> frozenset[str]:
        """The long options, by name."""
        words = (word for word in self.words if word.startswith("-"))
        return frozenset(word.lstrip("-").partition("=")[0] for word in words) - {""}

    def _has_flag(self, wanted: str) -> bool:
        """Whether a flag may be set, in any spelling: `-rf`, `-f -r`, `--recursive --force`, `--recur`."""
        name = wanted.lstrip("-").partition("=")[0]
        if _WILD.search(name) and self._is_among(name, list(self._options)):
            return True
        for option in self._options:
            if option == name or (len(option) > 1 and (name.startswith(option) or option.startswith(name))):
                return True
        if wanted.startswith("--"):
            return name[:1] in self._letters
        initials = {option[:1] for option in self._options}
        return all(letter in self._letters or letter in initials for letter in name)

    def _mentions(self, name: str) -> bool:
        if _WILD.search(name):
            return self._is_among(name, self.names) or self._is_among(program(name), self.programs)
        plain = program(name)
        if plain not in self.text and plain not in self.parted:
            return False
        with_version = rf"(?<![a-z0-9]){re.escape(plain)}(?:[-.]?[0-9][0-9.]*)?(?![a-z0-9])"
        return any(re.search(with_version, text) for text in (self.text, self.parted))

    def _mentions_words(self, wanted: Iterable[str]) -> bool:
        """Whether a text for a shell contains all these arguments, or may contain them after expansion."""
        if re.search(r"[$`*?\[{<]", self.text):
            return True
        others = [piece for word in wanted for piece in folded(word).split() if not piece.startswith("-")]
        return all(self._is_among(each, self.shell_words) for each in others)

    def _may_gain_words(self, name: str, wanted: Sequence[str]) -> bool:
        """Whether a shell's text may run a program with further arguments: `xargs -a list terraform`.

        It cannot if the text gives the program an argument that is not one of those.
        """
        if not _GIVING.search(self.text):
            return False
        if _WILD.search(name) or not self._budget.spend(len(self.shell_words)):
            return True
        others = [piece for word in wanted for piece in folded(word).split()]
        given = re.findall(rf"(?<![a-z0-9]){re.escape(program(name))}[0-9.-]*((?:\s+[^\s;&|()]+)*)", self.text)
        return any(_says_nothing_else(rest.split(), others) for rest in given)


def _says_nothing_else(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether all arguments are the wanted ones, options or values of options."""
    for before, word in zip(("", *words), words, strict=False):
        is_option = word.startswith("-") or before.startswith("-")
        if not is_option and not any(name_fits(each, word, classes=True) for each in wanted):
            return False
    return True


def program_fits(wanted: str, word: str) -> bool:
    """Whether a word names the banned program, with any directory and version."""
    exact = (folded(each).rpartition("/")[2] for each in (wanted, word))
    return name_fits(*exact, classes=True) or name_fits(program(wanted), program(word), classes=True)


def word_fits(wanted: str, word: str) -> bool:
    """Whether a word of a command is the one in a ban."""
    return wanted == word or name_fits(wanted, word, classes=True)


def host_might_fit(wanted: Origin, found: Origin) -> bool:
    """Whether a ban on a host may concern this one: with any port or scheme, a parent or a child domain."""
    host = wanted.host.removeprefix("*.")
    return found.host == host or found.host.endswith(f".{host}")


def loosely(name: str) -> str:
    """A name without the parts that people write differently: case and separators."""
    return re.sub(r"[-_. :/]+", "", folded_name(name))


def folded_name(name: str) -> str:
    """A name by its appearance: without invisible characters, normalised (NFKC), in lower case."""
    seen = "".join(char for char in _UNSEEN.sub("", name) if unicodedata.category(char) not in ("Cf", "Cc"))
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", seen).casefold())
