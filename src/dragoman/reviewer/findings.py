"""What is looked at, and what is found in it."""

from collections.abc import Callable, Iterable, Iterator
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


def concerns(finding: Finding, lines: frozenset[int] | None) -> bool:
    return lines is None or finding.is_whole or finding.line in lines


def in_lines(source: Source, lines: frozenset[int] | None) -> Source:
    """The same file with only these lines under review."""
    return replace(source, lines=lines)
