"""Connections that break in one direction, late or in turns lose no update, repeat none and keep the order."""

import os

import pytest

from .enduring import CLIENTS, PLACES, endure
from .half_open import KINDS
from .serving import WIRES
from .stopping import endure_stops

BREAKS = int(os.environ.get("DRAGOMAN_BREAKS", "30"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("place", PLACES)
async def test_turns_survive_connections_that_break_in_any_way(place, client, wire, kind, nothing_left):
    await endure(place, client, wire, kind, BREAKS)


@pytest.mark.parametrize("wire", WIRES)
async def test_connections_that_carry_a_few_kilobytes_each_make_progress(wire, nothing_left):
    """Less than a frame of HTTP/2 may hold, and the handshakes count."""
    await endure("endpoint", "connect", wire, "both halves", 4 * BREAKS, longest=8_000)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("place", "client"), [*zip(PLACES, CLIENTS, strict=True)])
async def test_turns_survive_a_client_that_is_stopped_while_connections_break(place, client, wire, nothing_left):
    await endure_stops(place, client, wire, stops=5)
