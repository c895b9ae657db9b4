"""Measures Dragoman against the official Python SDK and a bare asyncio loop, in one and the same run.

Contenders take turns, sample by sample, so that whatever else the machine does hits all of them alike; the median
is shown.  Every sample runs in a process of its own, with the agent in another one, over real pipes.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from scenarios import SCENARIOS
from table import TITLES, VALIDATION, Row, render, rows

HERE = Path(__file__).parent
CACHE = HERE / ".cache" / "typescript"
TYPESCRIPT_SDK = "@agentclientprotocol/sdk"
SAMPLE_TIMEOUT = 600

CONTENDERS = ["ours", "sdk", "bare"]
NEXT = "sdk_next"  # the newest pre-release of the official SDK, in an environment of its own
NEXT_ENVIRONMENT = HERE.parent / ".venv-v2"
EARLIER = "earlier"  # our own library as another checkout has it, driven by the scenarios of this one

# How much of the work one sample does: at full size, and for a quick look.
SIZES = {
    "import": (5, 1),
    "start": (5, 1),
    "prompts": (3000, 200),
    "reads": (3000, 200),
    "streaming": (100_000, 5000),
    "spelling": (50_000, 3000),
    "files": (50, 5),
    "in_flight": (2000, 100),
    "memory": (1000, 100),
}

Collected = dict[str, dict[str, list[float]]]


def sample(contender: str, scenario: str, size: int, against: Path | None) -> dict[str, float]:
    """One sample, taken in a process of its own; gives its figures by name."""
    # Installed packages come compiled; ours, run from its sources, has to be as well.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if contender == "typescript":
        argv, env["PYTHON"] = ["node", str(HERE / "typescript.mjs"), scenario, str(size)], sys.executable
    elif contender == NEXT:
        argv = [str(NEXT_ENVIRONMENT / "bin" / "python"), str(HERE / "scenarios.py"), "sdk", scenario, str(size)]
    elif contender == EARLIER:
        argv = [sys.executable, str(HERE / "scenarios.py"), "ours", scenario, str(size)]
        env["PYTHONPATH"] = str(against)
    else:
        argv = [sys.executable, str(HERE / "scenarios.py"), contender, scenario, str(size)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=SAMPLE_TIMEOUT, check=False, env=env)
    if done.returncode:
        raise SystemExit(f"{contender} failed at {scenario}:\n{done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def collect(
    scenarios: Sequence[str], contenders: Sequence[str], repeat: int, quick: bool, against: Path | None
) -> Collected:
    """Samples of every scenario, the contenders taking turns; the first round is thrown away."""
    collected: Collected = {contender: defaultdict(list) for contender in contenders}
    for scenario in scenarios:
        full, small = SIZES[scenario]
        for contender in contenders:
            sample(contender, scenario, small, against)
        for turn in range(repeat):
            print(f"{scenario} {turn + 1}/{repeat}", file=sys.stderr)
            for contender in contenders:
                for name, figure in sample(contender, scenario, small if quick else full, against).items():
                    collected[contender][name].append(figure)
    return collected


def installed_typescript() -> str:
    """Have the TypeScript SDK in the cache; gives its version."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise SystemExit("--typescript needs node and npm")
    package = CACHE / "node_modules" / TYPESCRIPT_SDK / "package.json"
    subprocess.run([HERE.parent / "scripts" / "typescript-sdk"], check=True, stdout=sys.stderr)
    if not package.exists():
        raise SystemExit("npm could not install the TypeScript SDK")
    version: str = json.loads(package.read_text())["version"]
    return version


def sources(checkout: str) -> Path:
    """Where another checkout has the library; raises SystemExit where its processes would run this one instead."""
    found = Path(checkout).resolve() / "src"
    code = "import dragoman; print(dragoman.__file__)"
    env = {**os.environ, "PYTHONPATH": str(found)}
    used = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env).stdout
    if not Path(used.strip()).is_relative_to(found):
        raise SystemExit(f"--against needs a checkout with src/dragoman: {checkout}")
    return found


def next_version() -> str:
    """The version of the official SDK's pre-release; raises SystemExit where it is not installed."""
    code = "from importlib import metadata; print(metadata.version('agent-client-protocol'))"
    argv = [str(NEXT_ENVIRONMENT / "bin" / "python"), "-c", code]
    try:
        return subprocess.check_output(argv, text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        raise SystemExit("--next needs the environment .venv-v2: make .venv-v2/ready") from None


def surroundings(typescript: str | None, following: str | None) -> dict[str, str]:
    """What the figures depend on besides the code."""
    found = {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "dragoman": metadata.version("dragoman"),
        "msgspec": metadata.version("msgspec"),
        "agent-client-protocol": metadata.version("agent-client-protocol"),
        "pydantic": metadata.version("pydantic"),
    }
    if following:
        found["agent-client-protocol, next"] = following
    if typescript:
        node = subprocess.check_output(["node", "--version"], text=True).strip()
        found |= {TYPESCRIPT_SDK: typescript, "node": node}
    return found


def as_json(table: list[Row], collected: Collected, around: dict[str, str]) -> str:
    measures = {
        row.measure.name: {
            "medians": row.medians,
            "samples": {name: figures[row.measure.name] for name, figures in collected.items()},
            "times_better": {name: row.times_better_than(name) for name in row.medians if name != "ours"},
            "met": row.met,
        }
        for row in table
    }
    return json.dumps({"surroundings": around, "measures": measures}, indent=2)


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little work and one sample: does everything run?")
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS), help="only this; may be repeated")
    parser.add_argument("--repeat", type=int, metavar="N", help="samples of each (default: 5, quick: 1)")
    parser.add_argument("--typescript", action="store_true", help="have the TypeScript SDK take part")
    parser.add_argument("--next", action="store_true", help="have the pre-release of the Python SDK take part")
    parser.add_argument(
        "--against", metavar="DIR", help="have the library of another checkout take part, for before and after"
    )
    parser.add_argument("--json", action="store_true", help="print every sample instead of the table")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a required ratio is missed")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parsed(argv)
    against = sources(arguments.against) if arguments.against else None
    following = next_version() if arguments.next else None
    further = {NEXT: arguments.next, EARLIER: bool(against), "typescript": arguments.typescript}
    contenders = [*CONTENDERS, *(name for name, wanted in further.items() if wanted)]
    around = surroundings(installed_typescript() if arguments.typescript else None, following)
    repeat = arguments.repeat or (1 if arguments.quick else 5)
    collected = collect(arguments.scenario or list(SCENARIOS), contenders, repeat, arguments.quick, against)
    table = rows(collected)
    if arguments.json:
        print(as_json(table, collected, around))
    else:
        print(render(table, contenders))
        print("\n" + ", ".join(f"{name} {version}" for name, version in around.items()))
        print("\nWhat each checks, besides the work itself:\n")
        print("\n".join(f"- {TITLES[name]}: {VALIDATION[name]}" for name in contenders))
    return int(arguments.check and any(row.met is False for row in table))


if __name__ == "__main__":
    sys.exit(main())
