"""Source files, and findings in them."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # the worst first


class Source(Struct, frozen=True):
    """A file under review: its text as the user sees it, saved or not."""

    path: str  # relative to the session's directory, or the name of an attachment
    text: str
    is_saved: bool = True  # the file on disk has the same text in UTF-8, so other programs read the same
    is_fragment: bool = False  # only some lines of the file are known; the others are blank
    lines: frozenset[int] | None = None  # the lines under review; None for all
    encoding_error: int = 0  # the first line that cannot be decoded
    size: int = 0  # bytes on the disk
    encoding: str = ""  # the encoding that the file names, if it is not UTF-8
    apart: str = ""  # why it is only searched for secrets, if it is; see `places.reason_apart`

    @property
    def is_repairable(self) -> bool:
        """Whether the bytes can be made from the text."""
        return not self.is_fragment and not self.encoding_error

    @property
    def content(self) -> bytes:
        """The bytes of the file, if it is repairable."""
        return self.encoded(self.text)

    def encoded(self, text: str) -> bytes:
        """A text in the encoding of this file; raises UnicodeEncodeError."""
        return text.encode(self.encoding or "utf-8")


class Finding(Struct, frozen=True, order=True):
    """A problem, its place, and what to do about it."""

    path: str
    line: int
    severity: Severity
    code: str
    message: str
    advice: str = ""
    is_fixable: bool = False  # `/fix` can repair it without changing what the file means
    is_whole: bool = False  # it concerns the whole file, whichever lines are under review

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


# Codes of findings that another analyser reports better for the same line.
SAME = {"unresolved-reference": "F821", "SC3014": "shell-equals-in-sh"}
# Findings that follow from another one in the same file, and are then left out.
FOLLOWS = {
    "invalid-syntax": {"syntax-error", "merge-marker"},
    "unresolved-reference": {"syntax-error", "merge-marker"},
    "syntax-error": {"merge-marker"},
    "SC1017": {"shell-crlf"},
    **{code: {"shell-syntax"} for code in ("SC1046", "SC1047", "SC1072", "SC1073", "SC1089")},
}
_BANDIT = re.compile(r"B([1-7]\d\d)$")  # its numbers are those of Ruff's S rules

Check = Callable[[Source], Iterator[Finding]]


def under_review(findings: Iterable[Finding], sources: Iterable[Source]) -> list[Finding]:
    """The findings that concern the lines under review, each once, in the order of the files."""
    lines = {source.path: source.lines for source in sources}
    found = {
        (finding.path, finding.line, finding.code, finding.message): finding
        for finding in findings
        if finding.path in lines and concerns(finding, lines[finding.path])
    }
    return sorted(found.values(), key=lambda finding: (finding.path, finding.line, finding.code))


def without_echoes(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without those that another analyser reports as well."""
    places = {(finding.path, finding.line, finding.code) for finding in findings}
    codes: dict[str, set[str]] = {}
    for finding in findings:
        codes.setdefault(finding.path, set()).add(finding.code)
    kept: list[Finding] = []
    unparsed: set[str] = set()
    for finding in findings:
        path, code = finding.path, finding.code
        same = SAME.get(code) or _BANDIT.sub(r"S\1", code)
        is_same = same != code and (path, finding.line, same) in places
        follows = FOLLOWS.get(code, set()) & codes[path] or (code == "syntax-error" and path in unparsed)
        if code == "syntax-error":
            unparsed.add(path)  # further ones follow from the first one
        if not is_same and not follows:
            kept.append(finding)
    return kept


def concerns(finding: Finding, lines: frozenset[int] | None) -> bool:
    return lines is None or finding.is_whole or finding.line in lines


def in_lines(source: Source, lines: frozenset[int] | None) -> Source:
    """The same file with only these lines under review."""
    return replace(source, lines=lines)
