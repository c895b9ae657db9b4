"""Three hundred broken connections for every wire, place and kind of client; thirty of each are in tests/remote."""

import os

import pytest
from remote.enduring import CLIENTS, PLACES, endure
from remote.half_open import KINDS
from remote.serving import WIRES
from remote.stopping import endure_stops

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]

BREAKS = int(os.environ.get("DRAGOMAN_BREAKS", "300"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("place", PLACES)
async def test_turns_survive_three_hundred_broken_connections(place, client, wire, kind):
    await endure(place, client, wire, kind, BREAKS, seed=1, limit=1200, linger=10, life=2)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("place", PLACES)
async def test_turns_survive_a_client_that_is_stopped_for_seconds(place, client, wire):
    await endure_stops(place, client, wire, stops=10, longest_stop=10, limit=1200)
