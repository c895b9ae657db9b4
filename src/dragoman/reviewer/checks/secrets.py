"""Secrets in files.  A finding describes a secret and never repeats it."""

import re
from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from ..findings import Finding, Source
from .leftovers import LONGEST, TextLines
from .places import is_test, is_test_data

MOST_HITS = 1000
HIDDEN = "(a secret)"
KEY_BLOCK, IN_ADDRESS = "a private key", "a password in an address"
FOR_AN_HOUR = "a GitHub token of an installation"  # it expires soon, so in a test it is harmless
# Names, values and keys that a test or an example made up are ignored there.
_EXAMPLE = re.compile(r"(?:^|/)(?:examples?|docs?)/|\.(?:md|rst|adoc)$")

# The forms of providers' secrets, precise enough to need no context: the beginnings, for a quick search, and the
# pattern.
_LOOKS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (name, tuple(beginnings.split()), re.compile(pattern))
    for name, beginnings, pattern in (
        (
            KEY_BLOCK,
            "-----BEGIN",
            r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----\s*[A-Za-z0-9+/=\\n\s:-]{32}",
        ),
        ("an AWS access key", "AKIA ASIA", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
        (FOR_AN_HOUR, "ghs_", r"\bghs_[A-Za-z0-9]{36}\b"),
        ("a GitHub token", "gh", r"\b(?:gh[pour]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22,255})\b"),
        ("a GitLab token", "glpat- gldt- glrt-", r"\bgl(?:pat|dt|rt)-[A-Za-z0-9_-]{20,}"),
        ("a Slack token", "xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
        ("a Stripe key", "k_live_", r"\b[sr]k_live_[A-Za-z0-9]{20,}"),
        ("an API key of a model provider", "sk-", r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{32,}"),
        ("a Google API key", "AIza", r"\bAIza[A-Za-z0-9_-]{35}\b"),
        ("an npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
        ("a PyPI token", "pypi-", r"\bpypi-[A-Za-z0-9_-]{50,}"),
        (
            IN_ADDRESS,
            "://",
            r"://[^\s/:@'\"<>{}$]{1,64}:([^\s/@'\"<>{}$%*]{3,128})@[\w.-]",
        ),
    )
)
# A name for a secret, and a literal.  `_is_placeholder` judges the value.
_ASSIGNED = re.compile(
    r"(?i:passw(?:or)?d|passphrase|secret|(?:api|access|private)_?key|(?:auth|access)_?token)"
    r"[\"']?[ \t]*(?:=>|[=:])[ \t]*(?:str[ \t]*=[ \t]*)?[rbuf]?([\"'])([^\"'\n]{8,200})\1"
)
_NAMES = (
    *("password", "passwd", "passphrase", "secret", "apikey", "api_key", "accesskey", "access_key", "privatekey"),
    *("private_key", "authtoken", "auth_token", "accesstoken", "access_token"),
)
_NAME_BEFORE = re.compile(r"(?<![\w:.-])[\w.-]{0,40}$")
_PLACEHOLDER = re.compile(
    r"(?i)^(?:.*(?:example|sample|change[-_ ]?me|placeholder|dummy|your|insert|redacted|not[-_ ]?a|todo|default)"
    r".*|tiger.*"
    r"|(.)\1*|x{3,}.*|\*+|\.{3}.*|<.*>|\$[({\w].*|%.*|\{.*\}|.*\{\{.*|env[:.].*|arn:.*|os\.environ.*|none|null|true|false)$"
)
_FILE = re.compile(r"[\w./~-]+\.(?:pem|key|crt|cer|der|p12|pfx|jks|txt|json|toml|ya?ml|conf|ini)")
_TEXTS = re.compile(r"(?ms)^[ \t]*[rRuU]?(\"\"\"|''').*?\1")  # beginnings of lines that are not values
_PORT = re.compile(r"\d{1,5}")
_ESCAPES = re.compile(r"(?:\\+[nrt])+$")
_FILLED_IN = re.compile(r"\$(?:[{(]|\d\b)")  # filled in by a shell
_WORDS = re.compile(
    r"^[a-z]+(?:[ _.:/-]{1,3}[a-z]+)*$", re.IGNORECASE
)  # prose or a name, such as "Enter the password"


def secrets(source: Source) -> Iterator[Finding]:
    hits = list(islice(_secrets_in(source), MOST_HITS))
    lines = TextLines(source.text if hits else "")
    told: set[int] = set()
    for offset, what, _ in hits:
        line = lines.at(offset)
        if line not in told and (what == KEY_BLOCK or lines.length(line) < LONGEST):
            told.add(line)
            yield Finding(
                source.path,
                line,
                "error",
                "secret",
                f"{what} is written into the file",
                "revoke it, read it from the environment or a secret store, and take it out of the history",
            )


def without_secrets(finding: Finding, source: Source) -> Finding:
    """A finding of any analyser without the secrets of its file in its text."""
    values = [value for _, _, value in islice(_secrets_in(source), MOST_HITS)]
    message, advice = finding.message, finding.advice
    for value in sorted(values, key=len, reverse=True):
        message, advice = message.replace(value, HIDDEN), advice.replace(value, HIDDEN)
        if value[:20] in message:  # a message that was cut off
            message = message.split(value[:20])[0] + HIDDEN
    return replace(finding, message=message, advice=advice)


def _secrets_in(source: Source) -> Iterator[tuple[int, str, str]]:
    """The positions of secrets, their kinds, and the secrets themselves."""
    is_made_up = is_test(source.path) or is_test_data(source.path) or _EXAMPLE.search(source.path) is not None
    for what, beginnings, pattern in _LOOKS:
        if (is_made_up and what in (IN_ADDRESS, KEY_BLOCK, FOR_AN_HOUR)) or not any(
            beginning in source.text for beginning in beginnings
        ):
            continue
        for found in pattern.finditer(source.text):
            is_none = bool(found.groups()) and (_is_placeholder(found[1]) or _PORT.fullmatch(found[1]) is not None)
            if not is_none and "EXAMPLE" not in found[0]:
                yield found.start(), what, found[1] if found.groups() else found[0]
    if is_made_up:
        return
    explained = _explained(source)
    for found in _assigned(source.text):
        if any(start <= found.start() < end for start, end in explained):
            continue
        before = _NAME_BEFORE.search(source.text, max(found.start() - 41, 0), found.start())
        if before and not _is_placeholder(found[2]):
            name = re.match(r"\w+", found[0])
            assert name
            yield found.start(), f"a value for {(before[0] + name[0]).lstrip('.-_')!r}", found[2]


def _explained(source: Source) -> list[tuple[int, int]]:
    """The positions of comments and docstrings in a Python file: values in them are examples."""
    if not source.path.endswith((".py", ".pyi")) or source.is_fragment:
        return []
    return [(found.start(), found.end()) for found in _TEXTS.finditer(source.text)]


def _assigned(text: str) -> Iterator[re.Match[str]]:
    """The places where a name for a secret has a literal; the names are searched first, which is faster."""
    lower = text.lower()
    if len(lower) != len(text):  # letters that become longer in lower case
        yield from _ASSIGNED.finditer(text)
        return
    places: set[int] = set()
    for name in _NAMES:
        at = lower.find(name)
        while at >= 0:
            places.add(at)
            at = lower.find(name, at + 1)
    for at in sorted(places):
        if found := _ASSIGNED.match(text, at):
            yield found


def _is_placeholder(value: str) -> bool:
    value = _ESCAPES.sub("", value)
    if _FILLED_IN.search(value) or _FILE.fullmatch(value):
        return True
    return bool(_PLACEHOLDER.match(value) or _WORDS.match(value)) or value.lower() in ("password", "secret", "pass")
