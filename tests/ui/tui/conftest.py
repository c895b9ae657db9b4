"""Screens keep their history and layout in a directory of the test's own, as the tests of `run` do."""

from pathlib import Path

import pytest


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A small project."""
    shop = tmp_path / "shop"
    (shop / "src").mkdir(parents=True)
    (shop / ".git").mkdir()
    (shop / "prices.py").write_text('RATES = {"standard": 0.2}\n')
    (shop / "src" / "pricing.py").write_text("def total() -> int:\n    return 1\n")
    (shop / ".gitignore").write_text("build/\n")
    (shop / "build").mkdir()
    (shop / "build" / "prices.bin").write_text("x")
    return shop
