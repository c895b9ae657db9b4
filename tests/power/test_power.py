"""The power fails at any moment: what was said to be done is there, and nothing is half done."""

import os
from pathlib import Path

import pytest
from torture.store_faults import works
from torture.store_power import fail_power as sessions

from .failing import fail_power
from .programs import PARTS

pytestmark = pytest.mark.skipif(not works(), reason="strace cannot trace here")
FAILURES = int(os.environ.get("POWER_FAILURES", "20000"))


@pytest.mark.parametrize("part", PARTS)
async def test_a_power_failure_takes_nothing_that_was_done_and_leaves_nothing_half_done(
    part: str, tmp_path: Path
) -> None:
    count = 60 if part == "gateway's log" else 150  # which takes longer to open
    counts = await fail_power(PARTS[part], tmp_path, count, seed=24)
    assert counts.total() == count
    assert len(counts) > 2, "it failed at different moments"


def test_a_power_failure_takes_no_update_that_was_shown_and_brings_no_session_back() -> None:
    assert sessions(20, 24)["updates"] > 100


@pytest.mark.torture
@pytest.mark.parametrize("part", PARTS)
async def test_20_000_power_failures_take_nothing_that_was_done(part: str, tmp_path: Path) -> None:
    print(part, dict(await fail_power(PARTS[part], tmp_path, FAILURES, seed=2400)))
