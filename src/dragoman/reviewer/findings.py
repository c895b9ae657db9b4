"""Sources, and findings in them."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")  # the worst first


class Source(Struct, frozen=True):
    """A file under review: its text as the user has it in front of them, saved or not."""

    path: str  # relative to the session's directory, or the name something came with
    text: str
    is_saved: bool = True  # the file on the disk says the same in UTF-8, so programs that read it see what we see
    is_fragment: bool = False  # a file of which only some lines are known, the rest left blank
    lines: frozenset[int] | None = None  # the lines under review; None: all of them
    encoding_error: int = 0  # the first line that cannot be decoded
    size: int = 0  # bytes on the disk
    encoding: str = ""  # that the file names, where it is not UTF-8
    apart: str = ""  # why it is looked at for secrets alone, where it is; see `places.reason_apart`

    @property
    def is_repairable(self) -> bool:
        """Whether the text says all that the bytes say."""
        return not self.is_fragment and not self.encoding_error

    @property
    def content(self) -> bytes:
        """The bytes of the file, if it is repairable."""
        return self.encoded(self.text)

    def encoded(self, text: str) -> bytes:
        """A text as this file would have it; raises UnicodeEncodeError."""
        return text.encode(self.encoding or "utf-8")


class Finding(Struct, frozen=True, order=True):
    """One problem, where it is and what to do about it."""

    path: str
    line: int
    severity: Severity
    code: str
    message: str
    advice: str = ""
    is_fixable: bool = False  # `/fix` can repair it without changing what the file means
    is_whole: bool = False  # it spoils the whole file, whichever lines are under review

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


# Codes of findings that another analyser reports better for the same line.
SAME = {"unresolved-reference": "F821", "SC3014": "shell-equals-in-sh"}
# Findings that follow from another one in the same file, and are left out beside it.
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
            unparsed.add(path)  # a second one is the first one's doing
        if not is_same and not follows:
            kept.append(finding)
    return kept


def concerns(finding: Finding, lines: frozenset[int] | None) -> bool:
    return lines is None or finding.is_whole or finding.line in lines


def in_lines(source: Source, lines: frozenset[int] | None) -> Source:
    """The same file with only these lines under review."""
    return replace(source, lines=lines)
