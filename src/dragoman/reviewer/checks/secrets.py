"""Secrets in files.  What is found is described, never repeated."""

import re
from collections.abc import Iterator

from ..findings import Finding, Source
from .leftovers import LONGEST, line_at

# What a provider's secret looks like: precise enough to need no context.
_LOOKS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("a private key", r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----\s*[A-Za-z0-9+/=\\n\s:-]{32}"),
        ("an AWS access key", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
        ("a GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22,255})\b"),
        ("a GitLab token", r"\bgl(?:pat|dt|rt)-[A-Za-z0-9_-]{20,}"),
        ("a Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
        ("a Stripe key", r"\b[sr]k_live_[A-Za-z0-9]{20,}"),
        ("an API key of a model provider", r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{32,}"),
        ("a Google API key", r"\bAIza[A-Za-z0-9_-]{35}\b"),
        ("an npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
        ("a PyPI token", r"\bpypi-[A-Za-z0-9_-]{50,}"),
        (
            "a password in an address",
            r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@'\"<>{}$]{1,64}:([^\s/@'\"<>{}$%*]{3,128})@[\w.-]",
        ),
    )
)
# A name that says it is secret, and a literal.  The value is judged by `_is_placeholder`.
_ASSIGNED = re.compile(
    r"(?i)\b([a-z0-9_.-]{0,40}(?:password|passwd|passphrase|secret|api_?key|access_?key|auth_?token|access_?token|private_?key))"
    r"[\"']?\s*(?:=|:|=>)\s*(?:str\s*=\s*)?[rbuf]?([\"'])([^\"'\n]{8,200})\2"
)
_PLACEHOLDER = re.compile(
    r"(?i)^(?:.*(?:example|sample|change[-_ ]?me|placeholder|dummy|your|insert|redacted|not[-_ ]?a|todo|default).*"
    r"|(.)\1*|x{3,}.*|\*+|\.{3}.*|<.*>|\$[({\w].*|%.*|\{.*\}|.*\{\{.*|env[:.].*|os\.environ.*|none|null|true|false)$"
)
_WORDS = re.compile(r"^[a-z]+(?:[ _.:/-][a-z]+)*$", re.IGNORECASE)  # prose or a name, such as "Enter the password"


def secrets(source: Source) -> Iterator[Finding]:
    is_test = re.search(r"(?:^|/)(?:tests?|spec|fixtures?|testdata)/", source.path) is not None
    for number, line in enumerate(source.text.splitlines(), 1):
        if len(line) < LONGEST and (what := _secret_in(line, is_test)):
            yield Finding(
                source.path,
                number,
                "error",
                "secret",
                f"{what} is written into the file",
                "revoke it, read it from the environment or a secret store, and take it out of the history",
            )
    if "PRIVATE KEY" in source.text and (found := _LOOKS[0][1].search(source.text)):
        yield Finding(
            source.path,
            line_at(source.text, found.start()),
            "error",
            "secret",
            "a private key is written into the file",
            "replace the key pair, and take the file out of the history",
        )


def _secret_in(line: str, is_test: bool) -> str | None:
    for name, pattern in _LOOKS[1:]:
        found = pattern.search(line)
        if found and not (found.groups() and _is_placeholder(found[1])) and "EXAMPLE" not in found[0]:
            return name
    if is_test:  # names and values made up for a test are its business
        return None
    found = _ASSIGNED.search(line)
    if found and not _is_placeholder(found[3]):
        return f"a value for {found[1].lstrip('.-_')!r}"
    return None


def _is_placeholder(value: str) -> bool:
    return bool(_PLACEHOLDER.match(value) or _WORDS.match(value)) or value.lower() in ("password", "secret", "pass")
