"""The gateway's experiments at full size; smaller ones are in tests/gateway."""

import os
import resource
from pathlib import Path

import pytest
from gateway.crowd import crowd
from gateway.house import hosting
from gateway.killing import kill_in_the_middle
from gateway.test_admission import disguised

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]

KILLS = int(os.environ.get("DRAGOMAN_KILLS", "10000"))
CLIENTS = int(os.environ.get("DRAGOMAN_CLIENTS", "1000"))
REQUESTS = int(os.environ.get("DRAGOMAN_REQUESTS", "100000"))


async def test_ten_thousand_kills_of_the_gateway(tmp_path: Path) -> None:
    figures = await kill_in_the_middle(tmp_path, cycles=KILLS, seed=7)
    print(f"\nkills of the gateway: {dict(figures)}")
    assert figures["cycles"] == KILLS


async def test_two_thousand_false_names_and_pages(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        assert await disguised(house.server.port, seed=7, count=1000) == []


async def test_a_thousand_clients_with_the_same_ids(tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    figures = await crowd(tmp_path, clients=CLIENTS, requests=REQUESTS)
    print(f"\na crowd: {figures}")
    assert figures["crossed"] == 0
