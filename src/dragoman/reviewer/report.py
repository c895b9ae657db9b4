"""Findings as text: by file, the worst first, each with its place and advice."""

import os
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from .findings import SEVERITIES, Finding, Source
from .review import ReviewOutcome, counted

MOST_TOLD = 100  # findings that are listed
FEW, MOST_KINDS = 3, 8  # files, and kinds of files, that are listed by name


def told(outcome: ReviewOutcome, *, offers_repairs: bool = True) -> str:
    """A review as Markdown; with `offers_repairs`, it states how many findings `/fix` can repair."""
    looked_at = counted(len(outcome.sources), "file")
    if not outcome.findings and len(outcome.unknown) == len(outcome.sources):
        return _joined(f"**No analyser here knows the language** of {looked_at}.", remarks(outcome))
    if not outcome.findings:
        return _joined(f"**Nothing found** in {looked_at}.", remarks(outcome))
    files = len({finding.path for finding in outcome.findings})
    head = f"**{tally(outcome.findings)}** in {files:,} of {looked_at}."
    offer = _offer(outcome) if offers_repairs else ""
    return _joined(head, listed(outcome.findings), offer, remarks(outcome))


def listed(findings: Sequence[Finding]) -> str:
    """The findings by file; the files with the worst findings come first."""
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


def still_there(before: ReviewOutcome, after: ReviewOutcome) -> list[Finding]:
    """The remaining findings after some files were repaired and checked again."""
    again = {source.path for source in after.sources}
    return sorted([*(f for f in before.findings if f.path not in again), *after.findings])


def told_of_repairs(before: ReviewOutcome, after: ReviewOutcome, left: int) -> str:
    """The results of repairs, as Markdown."""
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
    """The number of findings of each severity."""
    numbers = Counter(finding.severity for finding in findings)
    return ", ".join(counted(numbers[severity], severity) for severity in SEVERITIES if numbers[severity])


def _offer(outcome: ReviewOutcome) -> str:
    repairable = {source.path for source in outcome.sources if source.is_repairable}
    fixable = sum(finding.is_fixable and finding.path in repairable for finding in outcome.findings)
    if not fixable:
        return ""
    return f"`/fix` can repair {fixable:,} of them without changing what the code does; it shows each change first."


def remarks(outcome: ReviewOutcome) -> str:
    """The files that were not reviewed, or not closely, and other remarks about the review."""
    told = list(outcome.remarks[:20])
    if outcome.unknown:
        told.append(
            f"no analyser here knows the language of {_kinds(outcome.unknown)}: checked for secrets, leftovers "
            "and encoding only"
        )
    if outcome.skimmed:
        told.append(f"only the syntax was checked in {_kinds(outcome.skimmed)}, besides secrets and leftovers")
    return "\n".join(f"- Note: {remark}." for remark in told)


def _kinds(sources: Sequence[Source]) -> str:
    """Files by kind, the most frequent first; a few are named."""
    if len(sources) <= FEW:
        return ", ".join(source.path for source in sources)
    numbers = Counter(os.path.splitext(source.path)[1] or "without a suffix" for source in sources)
    *most, last = [f"{number:,} {kind}" for kind, number in numbers.most_common(MOST_KINDS)]
    more = len(numbers) - MOST_KINDS
    listed = f"{', '.join(most)} and {last}" if most else last
    return f"{len(sources):,} files ({listed}{f', and {more} kinds more' if more > 0 else ''})"


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
