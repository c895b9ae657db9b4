"""Each attack on the server for a minute at the full speed of a core; a short while of each is in tests/remote."""

import os

import pytest
from remote.attacked import GROWTH, target, work_beside_process
from remote.attacks import ATTACKS
from remote.serving import WIRES

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]

SECONDS = float(os.environ.get("DRAGOMAN_ATTACK_SECONDS", "60"))
LONGEST = 1.0  # seconds a turn of somebody else may take, in 99 of 100 cases


@pytest.mark.parametrize("name", ATTACKS)
async def test_others_hardly_notice(name):
    with target() as server:
        took = sorted(await work_beside_process(server, name, WIRES[len(name) % len(WIRES)], SECONDS))
        assert took[int(len(took) * 0.99)] < LONGEST
        assert server.growth() < GROWTH
