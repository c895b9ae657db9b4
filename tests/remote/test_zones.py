"""Agents behind an address of the local link, which is reached through the network interface that its URL names."""

import asyncio
import ipaddress
import socket
from pathlib import Path

import pytest

from dragoman import AgentStartError, connect
from dragoman.testing import Echo
from dragoman.transports.remote.addresses import read_url
from dragoman.transports.remote.proxies import proxy_for
from dragoman.transports.remote.server.asgi import endpoint
from dragoman.transports.remote.server.server import listening

from .serving import WIRES, dial

LIMIT = 20  # seconds


def local_links():
    """The addresses of the local link that this machine has: (address, interface)."""
    try:
        rows = [line.split() for line in Path("/proc/net/if_inet6").read_text().splitlines()]
    except OSError:
        return []
    found = [(ipaddress.IPv6Address(int(row[0], 16)), row[5]) for row in rows]
    return [(str(address), name) for address, name in found if address.is_link_local]


@pytest.mark.skipif(not local_links(), reason="this machine has no IPv6 address of the local link")
@pytest.mark.parametrize("mark", ["%25", "%"])
@pytest.mark.parametrize("wire", WIRES)
async def test_an_agent_is_reached_through_the_interface_that_its_url_names(wire, mark, nothing_left):
    address, interface = local_links()[0]
    agents = endpoint(Echo)
    async with asyncio.timeout(LIMIT), listening(agents, f"{address}%{interface}") as server:
        url = f"http://[{address}{mark}{interface}]:{server.port}/acp"
        async with connect(await dial(wire, url)) as client:
            assert (await (await client.new_session("/")).prompt("hello")).stop_reason == "end_turn"
        await agents.close()


def test_the_zone_is_for_the_socket_alone():
    _, name = socket.if_nameindex()[0]
    address, _ = read_url(f"http://[fe80::1%25{name}]:8080/acp?token=secret")
    assert (address.node, address.authority) == (f"fe80::1%{name}", "[fe80::1]:8080")
    assert address.shown == f"http://[fe80::1%25{name}]:8080/acp"


@pytest.mark.parametrize("scheme", ["ws", "http", "wss", "https"])
@pytest.mark.parametrize("zone", ["%25nosuch", "%nosuch", "%25999999"])
async def test_an_interface_that_is_not_here_is_named(scheme, zone):
    name = zone.removeprefix("%").removeprefix("25")
    with pytest.raises(AgentStartError, match=f"this machine has no network interface '{name}'"):
        async with connect(f"{scheme}://[fe80::1{zone}]/acp"):
            raise NotImplementedError


def test_an_interface_has_a_number_too():
    index, _ = socket.if_nameindex()[0]
    assert read_url(f"http://[fe80::1%25{index}]/acp")[0].node == f"fe80::1%{index}"


def test_no_proxy_leads_to_a_link_of_this_machine(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:3128")
    _, name = socket.if_nameindex()[0]
    assert proxy_for(read_url("http://[fe80::1]/acp")[0]) is not None
    assert proxy_for(read_url(f"http://[fe80::1%25{name}]/acp")[0]) is None
