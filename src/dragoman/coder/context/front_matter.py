"""The fields between the two `---` lines at the start of a prompt file: the part of YAML that people use there."""

import re
from collections.abc import Iterator, Sequence

Value = str | list[str]

_PAIR = re.compile(r"([A-Za-z_][\w -]*?)\s*:(?:\s+(.*))?$")
_BLOCK = re.compile(r"[|>][-+]?$")
_COMMENT = re.compile(r"\s+#.*$")


def front_matter(text: str) -> tuple[dict[str, Value], str]:
    """The fields of a file by their lower-case names, and the text after them; a file may have no fields."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return {}, text
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return {}, text
    return dict(_fields(lines[1:end])), "\n".join(lines[end + 1 :])


def words_of(value: Value | None) -> list[str]:
    """The entries of a list, or of a text that separates them by commas or spaces."""
    if isinstance(value, list):
        return value
    return [word for word in re.split(r"[,\s]+", value or "") if word]


def text_of(value: Value | None) -> str:
    """A field as one text."""
    return value if isinstance(value, str) else " ".join(value or ())


def _fields(lines: Sequence[str]) -> Iterator[tuple[str, Value]]:
    at = 0
    while at < len(lines):
        found = _PAIR.match(lines[at])
        at += 1
        if not found:
            continue  # nested more deeply than is read here, or unknown
        start = at
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith((" ", "\t", "- "))):
            at += 1
        yield found[1].lower(), _value(_COMMENT.sub("", (found[2] or "").strip()), lines[start:at])


def _value(first: str, below: Sequence[str]) -> Value:
    if _BLOCK.match(first):
        joined = ("\n" if first.startswith("|") else " ").join(line.strip() for line in below)
        return joined.strip()
    if first.startswith("[") and first.endswith("]"):
        return [_unquoted(part) for part in first[1:-1].split(",") if part.strip()]
    entries = [line.strip() for line in below if line.strip()]
    if not first and entries and all(entry.startswith("- ") for entry in entries):
        return [_unquoted(_COMMENT.sub("", entry[2:])) for entry in entries]
    return _unquoted(" ".join([first, *entries]).strip())


def _unquoted(text: str) -> str:
    text = text.strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text
