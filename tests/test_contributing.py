"""The files that CONTRIBUTING.md tells a newcomer to open are there, and ARCHITECTURE.md leads to each of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WALKS = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where a change goes\n")[2]
NAMED = sorted(set(re.findall(r"`((?:src|tests|docs|scripts)/[\w./-]+)`", WALKS)))
MODULES = [name for name in NAMED if name.startswith("src/") and name.endswith(".py")]
MAP = (ROOT / "ARCHITECTURE.md").read_text()


def test_there_are_five_changes_each_with_files_to_open() -> None:
    changes = re.split(r"^\*\*(.+)\*\*$", WALKS, flags=re.MULTILINE)[1:]
    assert changes[::2] == [
        "Add a field to an update",
        "Add a client method",
        "Add a dialect form",
        "Change what a viewer may do",
        "Add a command-line option",
    ]
    assert all("1. `src/dragoman/" in steps for steps in changes[1::2])


@pytest.mark.parametrize("name", NAMED)
def test_a_file_that_is_named_exists(name: str) -> None:
    assert (ROOT / name).exists()


@pytest.mark.parametrize("name", MODULES)
def test_the_code_map_leads_to_the_module(name: str) -> None:
    """By its name, or where a package has a module a topic, by the name of the package."""
    module = Path(name)
    parts = module.parts[2:]
    words = {module.stem, *("/".join(parts[at:]) for at in range(len(parts))), *(f"{part}/" for part in parts[:-1])}
    assert any(f"`{word}`" in MAP for word in words), module
