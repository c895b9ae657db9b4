"""Every item that the documents ask for has a test that is there, or says what is missing."""

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ITEMS = tomllib.loads((HERE / "checklist.toml").read_text())
EXPECTED = [
    f"{group}{number}" for group, most in (("A", 85), ("B", 20), ("C", 17)) for number in range(1, most + 1)
]


def test_every_item_is_in_the_table_once() -> None:
    assert sorted(ITEMS) == sorted(EXPECTED)


def test_every_test_that_the_table_names_is_there() -> None:
    missing = []
    for id, item in ITEMS.items():
        assert ("test" in item) != ("to_come" in item), id
        path, _, name = item.get("test", "").partition("::")
        file = HERE / path
        if path and (not file.is_file() or (name and not re.search(rf"def {name}\(", file.read_text()))):
            missing.append(item["test"])
    assert missing == []
