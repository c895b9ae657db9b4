"""`make mutants`: try the rows of the table, all or a sample, and fail unless the tests notice every one."""

import argparse
import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

from .table import ROOT, Row, read
from .trying import Verdict, tried

COSTS = Path(__file__).parent / "costs.json"  # seconds of processor time that each row took, by its name
CHEAP = 4.0


def sampled(rows: list[Row], count: int, seed: str, costs: dict[str, float]) -> list[Row]:
    """That many of the cheap rows; the same ones for the same seed."""
    cheap = [row for row in rows if costs.get(row.name, CHEAP + 1) <= CHEAP]
    chosen = random.Random(seed).sample(cheap, min(count, len(cheap)))
    return sorted(chosen, key=rows.index)


def commit() -> str:
    """The commit that is checked out, by which the sample changes."""
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()


def scores(verdicts: list[Verdict]) -> str:
    """A table in Markdown: how many of each package's mutations the tests noticed."""
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="try N cheap rows, others at every commit")
    parser.add_argument("--only", default="", metavar="TEXT", help="try rows with TEXT in their package or name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies of the tree side by side")
    parser.add_argument("--record", action="store_true", help=f"write the costs of these rows to {COSTS.name}")
    options = parser.parse_args()
    costs: dict[str, float] = json.loads(COSTS.read_text())
    rows = [row for row in read() if options.only in row.package or options.only in row.name]
    if options.sample is not None:
        rows = sampled(rows, options.sample, commit(), costs)
    stale = [f"{row.package}: {row.name}: {problem}" for row in rows if (problem := row.problem(ROOT))]
    if stale or not rows:
        print(*stale or ["there are no such rows"], sep="\n")
        return 1
    verdicts = tried(rows, ROOT, ROOT / "build" / "mutants", options.jobs)
    print(scores(verdicts))
    for verdict in verdicts:
        if verdict.fault or verdict.skipped:
            print(f"{verdict.row.package}: {verdict.row.name}: {verdict.fault or 'its tests are skipped here'}")
    if options.record:
        names = {row.name for row in read()}
        costs.update({verdict.row.name: verdict.cost for verdict in verdicts if not verdict.fault})
        kept = {name: cost for name, cost in sorted(costs.items()) if name in names}
        COSTS.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n")
    return 1 if any(verdict.fault for verdict in verdicts) else 0


sys.exit(main())
