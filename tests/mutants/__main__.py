"""`make mutants`: try the rows of the table, all or a sample, and fail unless the tests notice every one.

Each verdict is printed when it is known; `build/mutants/report.md` has all of them afterwards.
"""

import argparse
import json
import os
import random
import subprocess
import sys
from itertools import count
from pathlib import Path

from .remembered import Remembered
from .report import report, told
from .table import ROOT, Row, read
from .trying import LIMIT, Verdict, tried

PLACE = ROOT / "build" / "mutants"
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--sample", type=int, metavar="N", help="try N cheap rows, others at every commit")
    words = "try rows with TEXT in their package or name; may be repeated"
    parser.add_argument("--only", action="append", metavar="TEXT", help=words)
    parser.add_argument("--resume", action="store_true", help="leave out rows noticed before and unchanged since")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies of the tree side by side")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help="for one row (%(default)g)")
    parser.add_argument("--record", action="store_true", help=f"write the costs of these rows to {COSTS.name}")
    options = parser.parse_args()
    costs: dict[str, float] = json.loads(COSTS.read_text())
    wanted = options.only or [""]
    rows = [row for row in read() if any(text in row.package or text in row.name for text in wanted)]
    if options.sample is not None:
        rows = sampled(rows, options.sample, commit(), costs)
    stale = [f"{row.package}: {row.name}: {problem}" for row in rows if (problem := row.problem(ROOT))]
    if stale or not rows:
        print(*stale or ["there are no such rows"], sep="\n")
        return 1
    remembered = Remembered(PLACE / "results.json", ROOT)
    known = [verdict for row in rows if (verdict := remembered.verdict(row))] if options.resume else []
    left = [row for row in rows if row.name not in {verdict.row.name for verdict in known}]
    numbers = count(len(known) + 1)

    def tell(verdict: Verdict) -> None:
        remembered.add(verdict)
        outcome = verdict.fault or ("its tests are skipped here" if verdict.skipped else "noticed")
        print(f"{next(numbers)}/{len(rows)} {told(verdict)}: {outcome} ({verdict.seconds:.0f} s)", flush=True)

    verdicts = known + (tried(left, ROOT, PLACE, options.jobs, tell, options.limit) if left else [])
    (PLACE / "report.md").write_text(report(verdicts))
    print("", report(verdicts), sep="\n", end="")
    if options.record:
        names = {row.name for row in read()}
        costs.update({verdict.row.name: verdict.cost for verdict in verdicts if not verdict.fault})
        kept = {name: cost for name, cost in sorted(costs.items()) if name in names}
        COSTS.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n")
    return 1 if any(verdict.fault for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
