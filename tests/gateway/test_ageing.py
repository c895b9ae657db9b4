"""Cycles and reconnects leave nothing behind: a small share of what `make torture` does at full size."""

from pathlib import Path

import pytest

from .ageing import open_and_close, reconnect

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_sessions_that_were_opened_and_closed_leave_nothing_behind(tmp_path: Path) -> None:
    await open_and_close(tmp_path, cycles=60, kilobytes=8 * 1024)


async def test_a_client_that_comes_back_again_and_again_leaves_nothing_behind(tmp_path: Path) -> None:
    await reconnect(tmp_path, hours=1.5, kilobytes=8 * 1024)
