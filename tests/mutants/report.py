"""What a run of `make mutants` found, in Markdown: scores for `bench/RESULTS.md`, and the names of survivors."""

from collections import Counter

from .trying import Verdict

SLOWEST = 20


def scores(verdicts: list[Verdict]) -> str:
    """A table: how many of each package's mutations the tests noticed."""
    rows = Counter(verdict.row.package for verdict in verdicts)
    noticed = Counter(verdict.row.package for verdict in verdicts if not verdict.fault)
    lines = [f"| {package} | {count} | {noticed[package]} |" for package, count in sorted(rows.items())]
    return "\n".join(
        [
            "| package | mutations | noticed |",
            "| --- | ---: | ---: |",
            *lines,
            f"| all | {rows.total()} | {noticed.total()} |",
        ]
    )


def report(verdicts: list[Verdict]) -> str:
    """The scores, each row that was not noticed with the reason, each that is skipped here, and the slowest."""
    slowest = sorted(verdicts, key=lambda verdict: -verdict.seconds)[:SLOWEST]
    parts = {
        "Not noticed": [f"{told(verdict)}: {verdict.fault}" for verdict in verdicts if verdict.fault],
        "Skipped here": [told(verdict) for verdict in verdicts if verdict.skipped],
        "Slowest": [f"{verdict.seconds:.0f} s, {told(verdict)}" for verdict in slowest],
    }
    lists = [
        "\n".join([f"## {title}", "", *(f"- {line}" for line in found)]) for title, found in parts.items() if found
    ]
    return "\n\n".join(["# Mutations", scores(verdicts), *lists]) + "\n"


def told(verdict: Verdict) -> str:
    return f"{verdict.row.package}: {verdict.row.name}"
