"""Findings in words: by file, the worst first, each with its place and what to do."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from .findings import SEVERITIES, Finding
from .review import Outcome, counted

MOST_TOLD = 100  # findings written out


def told(outcome: Outcome) -> str:
    """A review as Markdown."""
    looked_at = counted(len(outcome.sources), "file")
    if not outcome.findings:
        return _joined(f"**Nothing found** in {looked_at}.", remarks(outcome))
    files = len({finding.path for finding in outcome.findings})
    head = f"**{tally(outcome.findings)}** in {files:,} of {looked_at}."
    return _joined(head, listed(outcome.findings), _offer(outcome.findings), remarks(outcome))


def listed(findings: Sequence[Finding]) -> str:
    """The findings by file: the files with the worst of them first."""
    groups = [list(group) for _, group in groupby(findings, key=lambda finding: finding.path)]
    groups.sort(key=lambda group: (min(SEVERITIES.index(finding.severity) for finding in group), group[0].path))
    parts = []
    room = MOST_TOLD
    for group in groups:
        if room <= 0:
            break
        kept = sorted(group, key=lambda f: (SEVERITIES.index(f.severity), f.line))[:room]
        parts.append("\n".join([f"**{kept[0].path}**", *map(item, kept)]))
        room -= len(kept)
    if len(findings) > MOST_TOLD:
        codes = Counter(finding.code for finding in findings).most_common(8)
        most = ", ".join(f"{code} ({number:,})" for code, number in codes)
        parts.append(
            f"… and {len(findings) - MOST_TOLD:,} more. Most frequent: {most}. Name a file or a directory."
        )
    return "\n\n".join(parts)


def item(finding: Finding) -> str:
    advice = f" → {finding.advice}" if finding.advice else ""
    return f"- `{finding.place}` {finding.severity}: {finding.message}{advice} ({finding.code})"


def still_there(before: Outcome, after: Outcome) -> list[Finding]:
    """The findings left after some files were repaired and looked at again."""
    again = {source.path for source in after.sources}
    return sorted([*(f for f in before.findings if f.path not in again), *after.findings])


def told_of_repairs(before: Outcome, after: Outcome, left: int) -> str:
    """What repairs have come to, as Markdown."""
    again = {source.path for source in after.sources}
    had = Counter((f.path, f.code) for f in before.findings if f.path in again)
    have = Counter((f.path, f.code) for f in after.findings)
    gone = had - have
    lines = [
        f"- {path}: {code}" + (f" ({number} times)" if number > 1 else "")
        for (path, code), number in sorted(gone.items())
    ]
    head = (
        f"**Repaired {counted(gone.total(), 'finding')}** in {counted(len(again), 'file')}, which I checked again."
    )
    declined = f"{counted(left, 'repair')} left undone." if left else ""
    rest = still_there(before, after)
    remaining = f"Left: **{tally(rest)}**.\n\n{listed(rest)}" if rest else "Nothing else was found."
    return _joined(head, "\n".join(lines), declined, remaining, remarks(after))


def tally(findings: Sequence[Finding]) -> str:
    """How many of each severity."""
    numbers = Counter(finding.severity for finding in findings)
    return ", ".join(counted(numbers[severity], severity) for severity in SEVERITIES if numbers[severity])


def _offer(findings: Sequence[Finding]) -> str:
    fixable = sum(finding.is_fixable for finding in findings)
    if not fixable:
        return ""
    return f"`/fix` can repair {fixable:,} of them without changing what the code does; it shows each change first."


def remarks(outcome: Outcome) -> str:
    return "\n".join(f"- Note: {remark}." for remark in outcome.remarks[:20])


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
