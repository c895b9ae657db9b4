"""What is looked at, and what is found in it."""

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
    is_saved: bool = True  # the file on the disk says the same, so programs that read it see what we see
    is_fragment: bool = False  # a file of which only some lines are known, the rest left blank
    lines: frozenset[int] | None = None  # the lines under review; None: all of them
    encoding_error: int = 0  # the first line that is not UTF-8
    size: int = 0  # bytes on the disk


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


# What a type checker calls that which another has told already; a broken file has them as its consequences.
SAME = {"invalid-syntax": "syntax-error", "unresolved-reference": "F821"}

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
    """The findings without those that only say again, in another analyser's words, what is wrong anyway."""
    places = {(finding.path, finding.line, finding.code) for finding in findings}
    unmerged = {finding.path for finding in findings if finding.code == "merge-marker"}
    unparsed: set[str] = set()
    kept = []
    for finding in findings:
        is_echo = finding.code in SAME and (
            finding.path in unmerged
            or finding.path in unparsed
            or (finding.path, finding.line, SAME[finding.code]) in places
        )
        if finding.code == "syntax-error":
            is_echo = finding.path in unparsed | unmerged
            unparsed.add(finding.path)
        if not is_echo:
            kept.append(finding)
    return kept


def concerns(finding: Finding, lines: frozenset[int] | None) -> bool:
    return lines is None or finding.is_whole or finding.line in lines


def in_lines(source: Source, lines: frozenset[int] | None) -> Source:
    """The same file with only these lines under review."""
    return replace(source, lines=lines)
