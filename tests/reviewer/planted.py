"""A small project that is in order, and 25 problems to plant in it."""

from pathlib import Path
from typing import NamedTuple

MADE_UP = "AKIA" + "Q3EGRDTS2PLM5XWZ"  # in two parts, so that nobody takes it for a real one

CLEAN = {
    "ty.toml": "[src]\n",
    "ledger/__init__.py": '"""Keeps books."""\n',
    "ledger/accounts.py": '''"""Accounts and what is on them."""

from decimal import Decimal


class Account:
    def __init__(self, owner: str, entries: list[Decimal] | None = None) -> None:
        self.owner = owner
        self.entries = entries or []

    def balance(self) -> Decimal:
        return sum(self.entries, Decimal(0))

    def title(self) -> str:
        if self.owner is None:
            return "nobody's account"
        return f"account of {self.owner}"


def count(entries: list[Decimal]) -> int:
    return len(entries)
''',
    "ledger/reports.py": '''"""Reports, on paper."""

import json
import subprocess
from pathlib import Path

COLUMNS = {"date": 10, "amount": 12}


def load(path: Path) -> dict[str, int]:
    try:
        loaded: dict[str, int] = json.loads(path.read_text())
    except OSError:
        return {}
    return loaded


def print_out(path: str) -> None:
    subprocess.run(["lp", path], check=True)


def parse(text: str) -> object:
    return json.loads(text)


def width(name: str) -> int:
    return COLUMNS[name]
''',
    "ledger/legacy.py": '''"""What the old system wrote."""


def convert(line: str) -> list[str]:
    return line.split(";")
''',
    "ledger/drafts.py": '"""Not used yet."""\n\nLIMIT = 100\n',
    "ledger/remote.py": '"""Talks to the bank."""\n\nimport os\n\nKEY = os.environ.get("BANK_KEY", "")\n',
    "tests/test_ledger.py": """from decimal import Decimal

from ledger.accounts import Account
from ledger.reports import parse, width


def test_balance():
    assert Account("Ada", [Decimal(1), Decimal(2)]).balance() == 3


def test_title():
    assert Account("Ada").title() == "account of Ada"


def test_reports():
    assert parse("[1]") == [1]
    assert width("date") == 10
""",
    "scripts/backup.sh": """#!/bin/sh
set -eu
target="${1:?where to}"
if [ "$target" = "/" ]; then
  echo "not there" >&2
  exit 1
fi
rm -rf "${target:?}/old"
for file in ./*.db; do
  cp "$file" "$target"
done
""",
    "scripts/release.sh": """#!/usr/bin/env bash
set -euo pipefail
if [[ -n "${CI:-}" ]]; then
  echo "$(date) releasing"
fi
""",
    "scripts/clean.sh": "#!/bin/sh\nset -e\nfind . -name '*.tmp' -delete\n",
    "config/app.json": '{\n  "name": "ledger",\n  "port": 8080,\n  "paths": ["in", "out"]\n}\n',
    "config/rates.json": '{\n  "EUR": 1.0,\n  "USD": 1.1\n}\n',
    "config/app.toml": 'name = "ledger"\n\n[server]\nhost = "localhost"\nport = 8080\n',
    "config/limits.toml": "daily = 100\nmonthly = 2000\n",
    "ci.yaml": """# Runs the tests.
name: tests
on:
  push:
    branches: [main, "release/*"]
jobs:
  test:
    runs-on: linux
    steps:
    - uses: checkout
    - name: "Install: everything"
      run: |
        pip install pytest
        echo "done: all"
    - run: pytest
""",
    "compose.yml": """services:
  web: &web
    image: "ledger:latest"
    command: >-
      serve
      --port 80
    environment:
      - MODE=prod
  worker:
    <<: *web
    ports: [
      "80:80",  # http
    ]
""",
    "locale.yaml": """en:
  greeting: 'it''s fine'
  empty:
  list:
    - one
    -
      key: value
      other: value
de:
  greeting: gut
""",
    "README.md": "# Ledger\n\nKeeps books. TODO lists live in the tracker.\n\n    password = something\n",
}


class Problem(NamedTuple):
    """A text that is put in the place of another, and where and as what it has to be found."""

    path: str
    old: str
    new: str
    line: int
    codes: tuple[str, ...]
    needs_linter: bool = False


PLANTED = (
    # Python
    Problem("ledger/accounts.py", "from decimal", "import os\nfrom decimal", 3, ("F401",)),
    Problem(
        "ledger/accounts.py", "entries: list[Decimal] | None = None)", "entries: list[Decimal] = [])", 8, ("B006",)
    ),
    Problem("ledger/accounts.py", "self.owner is None", "self.owner == None", 16, ("E711",)),
    Problem("ledger/accounts.py", 'return "nobody', 'return f"nobody', 17, ("F541",)),
    Problem(
        "ledger/accounts.py",
        "count(entries: list[Decimal])",
        "count(entries: int)",
        22,
        ("invalid-argument-type",),
        True,
    ),
    Problem("ledger/reports.py", "except OSError", "except", 13, ("E722",)),
    Problem("ledger/reports.py", '["lp", path]', '"lp " + path, shell=True', 19, ("S602",)),
    Problem("ledger/reports.py", "json.loads(text)", "eval(text)", 23, ("S307",)),
    Problem(
        "ledger/reports.py",
        "COLUMNS[name]",
        "COLUMNS[name] if name else standard",
        27,
        ("F821", "unresolved-reference"),
        True,
    ),
    Problem("ledger/legacy.py", 'split(";")', 'split(";"', 5, ("syntax-error",)),
    Problem(
        "ledger/drafts.py",
        "LIMIT = 100\n",
        "<<<<<<< ours\nLIMIT = 100\n=======\nLIMIT = 90\n>>>>>>> theirs\n",
        3,
        ("merge-marker",),
    ),
    Problem(
        "ledger/remote.py",
        'os.environ.get("BANK_KEY", "")',
        f'os.environ.get("BANK_KEY", "{MADE_UP}")',
        6,
        ("secret",),
    ),
    Problem("ledger/remote.py", "KEY =", "# TODO: one key per branch\nKEY =", 5, ("todo",)),
    # Shell
    Problem("scripts/backup.sh", '"${target:?}/old"', "$target/old", 8, ("shell-unquoted-rm", "SC2115", "SC2086")),
    Problem("scripts/backup.sh", '"$target" = "/"', '$target == "/"', 4, ("shell-unquoted-test", "SC2086")),
    Problem("scripts/backup.sh", "./*.db", "$(ls)", 9, ("shell-ls-loop", "SC2045")),
    Problem("scripts/release.sh", "\nfi\n", "\n", 4, ("shell-syntax", "SC1046", "SC1073", "SC1089")),
    Problem("scripts/clean.sh", "\n", "\r\n", 1, ("shell-crlf", "SC1017")),
    # JSON
    Problem("config/app.json", '"out"]', '"out"],', 4, ("json-trailing-comma",)),
    Problem("config/rates.json", '"USD"', '"EUR": 1.2,\n  "USD"', 3, ("json-duplicate-key",)),
    # YAML
    Problem(
        "ci.yaml",
        "    - run: pytest\n",
        "    - run: pytest\n  test:\n    runs-on: mac\n",
        16,
        ("yaml-duplicate-key",),
    ),
    Problem("compose.yml", "      - MODE", "\t- MODE", 8, ("yaml-tab",)),
    Problem("locale.yaml", "de:\n  greeting: gut", 'de:\n  greeting: "gut', 10, ("yaml-syntax",)),
    # TOML
    Problem("config/app.toml", '"localhost"', '"localhost', 4, ("toml-syntax",)),
    Problem("config/limits.toml", "monthly", "daily = 50\nmonthly", 2, ("toml-duplicate-key",)),
)


def write_clean(directory: Path) -> None:
    _write(directory, CLEAN)


def write_seeded(directory: Path) -> None:
    texts = dict(CLEAN)
    for problem in PLANTED:
        assert problem.old in texts[problem.path], problem
        texts[problem.path] = texts[problem.path].replace(problem.old, problem.new)
    _write(directory, texts)


def _write(directory: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
