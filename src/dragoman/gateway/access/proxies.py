"""Reverse proxies in front of a gateway, which are trusted to name the address of a request's client.

Behind a proxy, all clients have its address.  Without the real one, failures would count for everybody.
"""

import ipaddress
from collections.abc import Iterable

from ...errors import Error
from ...transports.remote.server.answers import Scope
from .guard import values_of

HEADER = b"x-forwarded-for"
MOST = 32  # addresses read in a header, from its end

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """The networks of trusted proxies; `X-Forwarded-For` from other addresses is ignored."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = [_network(written) for written in networks]

    def __bool__(self) -> bool:
        return bool(self._networks)

    def trusts(self, host: str) -> bool:
        """Whether an address belongs to a trusted proxy."""
        address = _address(host)
        return address is not None and any(address in network for network in self._networks)

    def seen_through(self, scope: Scope) -> Scope:
        """The request with its client's address, if a trusted proxy has passed it on."""
        peer = scope.get("client")
        if not peer or not self.trusts(peer[0]):
            return scope
        hops = [hop for value in values_of(scope, HEADER) for hop in value.split(",")][-MOST:]
        found = peer[0]
        for hop in reversed(hops):  # the last address that is not a proxy of ours is the one that our proxy saw
            address = _address(hop.strip())
            if address is None:
                break
            found = str(address)
            if not self.trusts(found):
                break
        return {**scope, "client": (found, 0)}


def _network(written: str) -> Network:
    try:
        return ipaddress.ip_network(written)
    except ValueError as exc:
        raise Error(f"a trusted proxy is an address or a network such as 10.0.0.0/8: {exc}") from None


def _address(written: str) -> Address | None:
    """An address in a proxy's notation, perhaps with a port or brackets."""
    host = written
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address
