"""Removes secrets from log records, wherever they come from.

A secret is recognised by its known value (`Redactor.add`), by its form (`looks`), or by the text before it
(`named`).
"""

import base64
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Self
from urllib.parse import quote

from ..variables import is_secret_name
from .looks import REDACTED, without_looks
from .named import names_secret, tells_nothing, without_named

SHORTEST = 6  # a known value of fewer characters would also take out innocent text
CONTEXT = 100  # characters read of each word before a word
FIRST_WORDS = 6  # words of a command that may stand between its name and a password


class Redactor:
    """Removes known secrets, and texts that look like secrets, from text and from nested values."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Remove this value from now on, also in percent-encoding and Base64."""
        if len(secret) < SHORTEST:
            return
        encoded = secret.encode("utf-8", "surrogatepass")
        forms = {secret, quote(encoded, safe=""), quote(encoded)}
        forms |= {coded(encoded).decode().rstrip("=") for coded in (base64.b64encode, base64.urlsafe_b64encode)}
        self._known |= forms
        longest_first = sorted(self._known, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    @classmethod
    def of_environment(cls, env: Mapping[str, str] = os.environ) -> Self:
        """A redactor of the variables whose names say that they are secret; paths and numbers do not count."""
        named = [value for name, value in env.items() if is_secret_name(name)]
        return cls(value for value in named if not value.startswith(("/", "~/")) and not value.isdigit())

    def text(self, text: str) -> str:
        """The text with all secrets replaced."""
        return without_named(without_looks(self.known(text)))

    def known(self, text: str) -> str:
        """The text with only the known secret values replaced."""
        return self._pattern.sub(REDACTED, text) if self._pattern else text

    def value(self, value: object) -> Any:
        """A JSON-like value without secrets, which are recognised by name, by the text before them or by form."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(str(name)): self._named(_name_of(value, name), inner) for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return self._items(value)
        return value

    def _named(self, name: str, value: object) -> Any:
        if value in (None, "", True, False) or not names_secret(name):
            return self.value(value)
        is_told = isinstance(value, str | int | float) and tells_nothing(name, str(value))
        return value if is_told else REDACTED

    def _items(self, items: list[object] | tuple[object, ...]) -> list[object]:
        """A list such as an argv, in which a word may name the next one."""
        clean: list[object] = []
        words: list[str] = []
        for item in items:
            if not isinstance(item, str):
                clean.append(self.value(item))
                continue
            last = words[-1] if words else ""
            is_told_of = words and (len(words) < FIRST_WORDS or last.startswith(("-", "/")) or names_secret(last))
            clean.append(self._word(item, words) if is_told_of else self.text(item))
            words.append(item[-CONTEXT:] if words else item.rpartition("/")[2][-CONTEXT:])
        return clean

    def _word(self, word: str, before: list[str]) -> str:
        """A word of a command without its secrets, judged by the words before it."""
        context = " ".join((before[0], *before[1:][-FIRST_WORDS:])) + " "
        quoted = f"'{word}'" if " " in word and "'" not in word else word
        alone, shown = self.text(context), self.text(context + quoted)
        told = shown.removeprefix(alone)
        if told in (shown, quoted):
            return self.text(word)
        return told if quoted is word else self.text(told.strip("'"))


def _name_of(fields: Mapping[object, object], name: object) -> str:
    """The name of a field; in the protocol variables and headers are objects with a name and a value."""
    if name == "value" and isinstance(fields.get("name"), str):
        return str(fields["name"])
    return str(name)
