"""A thousand cuts on each remote wire; fewer of them are in tests/remote."""

import os

import pytest
from remote.serving import WIRES
from remote.surviving import survive

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]

CUTS = int(os.environ.get("DRAGOMAN_CUTS", "1000"))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_survives_a_thousand_cuts(wire):
    await survive(wire, CUTS, limit=1200)
