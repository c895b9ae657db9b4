"""The tables of the benchmarks: what is required is held against medians, which say how far samples lie apart."""

import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.delitem(sys.modules, "table", raising=False)
    import table  # type: ignore[import-not-found, unused-ignore]

    yield table
    del sys.modules["table"]


@pytest.mark.parametrize(("ours", "is_met"), [(900.0, True), (700.0, False)])
def test_a_ratio_is_met_where_the_medians_reach_it(table: Any, ours: float, is_met: bool) -> None:
    samples = {"ours": {"streaming": [ours, ours, ours]}, "sdk": {"streaming": [100.0, 90.0, 5000.0]}}
    (row,) = table.rows(samples)
    assert row.met is is_met


def test_each_median_says_how_far_its_samples_lie_apart(table: Any) -> None:
    samples = {"ours": {"streaming": [900.0, 1000.0, 1200.0]}, "sdk": {"streaming": [100.0]}}
    told = table.render(table.rows(samples), ["ours", "sdk"])
    assert "| 1,000 /s ±15% |" in told
    assert "| 100 /s |" in " ".join(told.split())


def test_every_contender_says_what_it_checks(table: Any) -> None:
    assert table.VALIDATION.keys() == table.TITLES.keys()
