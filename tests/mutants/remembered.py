"""What earlier runs found, so that an interrupted run goes on where it was."""

import hashlib
import json
from pathlib import Path
from typing import Any

from .table import Row
from .trying import Verdict, file_of


def state_of(row: Row, root: Path) -> str:
    """Differs when the row, the module that it breaks or one of the files of its tests has changed."""
    state = hashlib.sha256(repr(row).encode())
    for file in (f"src/dragoman/{row.file}", *sorted({file_of(test) for test in row.tests})):
        state.update((root / file).read_bytes())
    return state.hexdigest()


class Remembered:
    """The rows that were noticed, in a file that is written after each; one that was not noticed is tried again."""

    def __init__(self, file: Path, root: Path) -> None:
        self._file, self._root = file, root
        self._found: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.exists() else {}

    def verdict(self, row: Row) -> Verdict | None:
        """The verdict on a row that has not changed since."""
        found = self._found.get(row.name)
        if found is None or found["state"] != state_of(row, self._root):
            return None
        return Verdict(row, None, found["cost"], found["skipped"], found["seconds"])

    def add(self, verdict: Verdict) -> None:
        self._found.pop(verdict.row.name, None)
        if not verdict.fault:
            self._found[verdict.row.name] = {
                "state": state_of(verdict.row, self._root),
                "cost": verdict.cost,
                "skipped": verdict.skipped,
                "seconds": verdict.seconds,
            }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self._found, indent=0, ensure_ascii=False))
        new.replace(self._file)
