"""Checks for any file: its encoding, invisible characters, its size."""

import re
from collections.abc import Iterator

from ..findings import Finding, Source
from .leftovers import is_prose
from .places import is_test

LARGE = 1024 * 1024
GENERATED = ("package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Cargo.lock", "poetry.lock", "uv.lock", "go.sum")

# characters that direct the reader
_CHARSET = re.compile(r"<meta[^>]+charset=|<\?xml[^>]+encoding=", re.IGNORECASE)
# Characters that make a text look different from what is run.
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
# suffixes of tests that may contain such characters
_DATA = (".json", ".jsonl", ".xml", ".csv", ".tsv", ".yaml", ".yml")
_OVERRIDES = re.compile("[\u202d\u202e]")  # the others only set the direction of the next words
_INVISIBLE = re.compile("(?<=[\\w])[\u200b\u2060\ufeff](?=[\\w])")


def encoding(source: Source) -> Iterator[Finding]:
    if source.encoding_error and not _CHARSET.search(source.text[:2000]):
        yield Finding(
            source.path,
            source.encoding_error,
            "warning",
            "not-utf-8",
            "the file is not UTF-8",
            "save it as UTF-8; programs elsewhere will guess another encoding",
        )


def hidden_characters(source: Source) -> Iterator[Finding]:
    if source.text.isascii() or (is_test(source.path) and source.path.endswith(_DATA)):
        return
    # it marks where a word may be broken, or belongs to a name in another script
    reads_well = is_prose(source.path)
    for number, line in enumerate(source.text.split("\n"), 1):
        if found := _OVERRIDES.search(line) if reads_well else _BIDI.search(line) or _INVISIBLE.search(line):
            yield Finding(
                source.path,
                number,
                "error",
                "hidden-character",
                f"an invisible character (U+{ord(found[0]):04X}) makes the line look other than it is",
                "delete it, or write it as an escape",
            )


def large(source: Source) -> Iterator[Finding]:
    if source.size > LARGE and not source.path.endswith(GENERATED):
        yield Finding(
            source.path,
            1,
            "note",
            "large-file",
            f"the file is {source.size / LARGE:.1f} MiB large and was not read",
            "keep it elsewhere (Git LFS, a download), or have it ignored",
            is_whole=True,
        )
