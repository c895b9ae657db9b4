"""Secrets taken out of what is written to a log, whatever way they came in."""

import base64
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Self
from urllib.parse import quote

from ..variables import is_secret_name

REDACTED = "[redacted]"
SHORTEST = 6  # a known value of fewer characters would also take out innocent text

_VALUE = r"\"[^\"]*+\"?|'[^']*+'?|[^\s'\"&;|,]+"  # a quote that is never closed runs to the end
# A name and its value, as variables, headers, JSON and options write them.  Every pattern here takes linear time,
# for the text is the agent's.
_ASSIGNED = re.compile(rf"(?<![\w.-])([\w.-]++)([\"']?\s*+[=:]\s*+)({_VALUE})")
_OPTION = re.compile(rf"(?<![\w.-])(-[\w.-]++)(\s++)(?!-)({_VALUE})")

# What is recognised by its looks: a pattern, and what stays of it.
_LOOKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), kept)
    for pattern, kept in (
        (r"-----BEGIN ([A-Z ]{0,40}PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", REDACTED),
        (r"(?i:\b(Bearer|Basic|Digest|Negotiate)[ +]++[A-Za-z0-9._~+/=:-]{6,})", rf"\1 {REDACTED}"),
        (r"(\b[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s/:@]{0,256}):[^\s/@]{1,1024}@", rf"\1:{REDACTED}@"),
        (r"(?<![\w-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?", REDACTED),
        (r"\b(?:(?:sk|pk|rk|whsec)[-_]|sess-)[A-Za-z0-9_-]{16,}+", REDACTED),
        (r"\b(?:gh[pousr]|github_pat|hf|npm|gsk|dop_v1)_[A-Za-z0-9_-]{16,}+", REDACTED),
        (r"\b(?:gl[pd][a-z]{1,2}|pypi|xai)-[A-Za-z0-9_-]{16,}+", REDACTED),
        (r"\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}+", REDACTED),
        (r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}\b", REDACTED),
        (r"\bAIza[A-Za-z0-9_-]{30,}+|\bya29\.[A-Za-z0-9_-]{16,}+|\bSG\.[A-Za-z0-9_.-]{16,}+", REDACTED),
        (r"\bAGE-SECRET-KEY-1[A-Z0-9]{16,}+", REDACTED),
    )
)


class Redactor:
    """Takes known secrets and whatever looks like one out of text and out of nested values."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Take this value out from now on, also where it is percent-encoded or in base64."""
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
        """Takes out the values of variables whose names say that they are secret; a path or a number is none."""
        named = [value for name, value in env.items() if is_secret_name(name)]
        return cls(value for value in named if not value.startswith(("/", "~/")) and not value.isdigit())

    def text(self, text: str) -> str:
        if self._pattern:
            text = self._pattern.sub(REDACTED, text)
        for pattern, kept in _LOOKS:
            text = pattern.sub(kept, text)
        return _OPTION.sub(_without_value, _ASSIGNED.sub(_without_value, text))

    def value(self, value: Any) -> Any:
        """A JSON-like value without its secrets: by the names they have, by what precedes them, by their look."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self._named(str(name), inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return self._items(value)
        return value

    def _named(self, name: str, value: Any) -> Any:
        if is_secret_name(name) and value not in (None, "", True, False):
            return REDACTED
        return self.value(value)

    def _items(self, items: list[Any] | tuple[Any, ...]) -> list[Any]:
        """A list such as an argv, where an option says what the next word is."""
        clean: list[Any] = []
        follows = False
        for item in items:
            clean.append(REDACTED if follows and isinstance(item, str) else self.value(item))
            follows = isinstance(item, str) and item.startswith("-") and "=" not in item and is_secret_name(item)
        return clean


def _without_value(found: re.Match[str]) -> str:
    name, between, _ = found.groups()
    return f"{name}{between}{REDACTED}" if is_secret_name(name) else found[0]
