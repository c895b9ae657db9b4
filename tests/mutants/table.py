"""The rows of the table, read from `rows/`, and what can be said of a row without running anything."""

import ast
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = Path(__file__).parent / "rows"
KINDS = ("AssertionError", "Failed")  # what `assert` and `pytest.raises` raise


@dataclass(frozen=True)
class Row:
    """In `file`, `old` becomes `new`; each of `tests` then fails with an error of one of these `kinds`."""

    package: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    kinds: tuple[str, ...] = field(default=KINDS)

    def problem(self, root: Path) -> str | None:
        """Why this row cannot be tried on the tree at `root`."""
        path = root / "src" / "dragoman" / self.file
        if not path.is_file():
            return f"there is no file {self.file}"
        text = path.read_text()
        if (count := text.count(self.old)) != 1:
            return f"{self.file} has the old text {count} times, not once"
        try:
            ast.parse(text.replace(self.old, self.new))
        except SyntaxError as error:
            return f"the new text is no Python: {error}"
        return None if self.old != self.new else "the new text is the old text"


def read(directory: Path = ROWS) -> list[Row]:
    """All rows, in the order of the files' names and of the rows in them."""
    rows = []
    for path in sorted(directory.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["row"]:
            kinds = tuple(entry.get("kinds", KINDS))
            rest = {key: value for key, value in entry.items() if key not in ("tests", "kinds")}
            rows.append(Row(package=path.stem, tests=tuple(entry["tests"]), kinds=kinds, **rest))
    return rows
