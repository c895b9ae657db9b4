"""Cancelled anywhere, at full size: the calls that take long are cancelled at every suspension too."""

import pytest
import suspensions
from test_cancelled_parts import *  # noqa: F403

pytestmark = [pytest.mark.torture, pytest.mark.parametrize("way", suspensions.WAYS)]


@pytest.fixture(autouse=True)
def at_every_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspensions, "SOME", range(1, suspensions.MOST))
