"""A crowd of clients with colliding ids."""

from pathlib import Path

import pytest

from .crowd import crowd

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_nobody_hears_what_is_for_somebody_else(tmp_path: Path) -> None:
    figures = await crowd(tmp_path, clients=40, requests=800)
    assert figures["requests"] >= 700
    assert figures["crossed"] == 0
