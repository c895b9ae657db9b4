"""Where a URL leads: it is read strictly, its host is resolved once, and every address is checked.

A URL that two programs might read differently is refused.  A connection goes to an address that was checked, and
the name is not resolved again, so that it cannot lead somewhere else the second time.
"""

import ipaddress
import os
import re
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from ..errors import Error

PUBLIC_ONLY = "DRAGOMAN_PUBLIC_ONLY"  # set for agents that a gateway hosts: private networks are the gateway's own
PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_LOCAL_NAMES = (
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "home",
    "lan",
    "corp",
    "private",
    "arpa",
)
_MAPPED = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))  # an IPv4 address inside another
_PUBLIC6 = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC6 = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NOT_PUBLIC4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)


class DestinationRefused(Error):
    """A URL leads to an address that may not be reached, or it cannot be told where it leads."""


class Destination(Struct, frozen=True):
    """Where a URL leads."""

    scheme: str
    host: str
    port: int
    addresses: Sequence[str]  # all of them checked; connect to no other


def is_host(host: str) -> bool:
    """Whether this is a host name, or an IP address in its usual form."""
    labels = host.split(".")
    if ":" not in host and not _NUMBER.fullmatch(labels[-1]):
        return all(_LABEL.fullmatch(label) for label in labels)
    try:
        return str(ipaddress.ip_address(host)) == host
    except ValueError:
        return False


def is_public(address: str) -> bool:
    """Whether an IP address is public; where an IPv6 address contains an IPv4 address, that one counts."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if not any(found in network for network in _MAPPED):
            return found in _PUBLIC6 and not any(found in network for network in _NOT_PUBLIC6)
        found = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
    return not any(found in network for network in _NOT_PUBLIC4)


def read_origin(url: str) -> tuple[str, str, int | None] | None:
    """Scheme, host and port of a URL; None when two programs might not agree on them."""
    if re.search(r"[\x00-\x20\x7f\\]", url) or not url.isascii():
        return None
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return None
    if parts.username is not None or parts.password is not None or not is_host(host):
        return None
    return parts.scheme, host, port or PORTS.get(parts.scheme)


def find(url: str, schemes: Sequence[str] = ("https",), *, local: bool = False) -> Destination:
    """Where a URL leads, with every address checked; blocks while the name is resolved.  Raises DestinationRefused.

    With `local`, the host may be in a private network if the URL names it `localhost` or by its address; a name
    that only resolves to such an address may not.
    """
    scheme, host, port = _read(url, schemes)
    is_local = local and not os.environ.get(PUBLIC_ONLY) and _is_named_local(host)
    if not is_local:
        _refuse_local_name(host)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise DestinationRefused(f"there is no host {host}") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        if not (is_public(address) or (is_local and _is_private(address))):
            raise DestinationRefused(f"{host} leads to {address}, which is not on the public internet")
    if not addresses:
        raise DestinationRefused(f"there is no host {host}")
    return Destination(scheme, host, port, addresses)


def connected(place: Destination, timeout: float) -> socket.socket:
    """A socket to one of the addresses of a destination; raises OSError when none answers."""
    for number, address in enumerate(place.addresses, 1):
        try:
            return socket.create_connection((address, place.port), timeout)
        except OSError:
            if number == len(place.addresses):
                raise
    raise AssertionError("a place has addresses")


def _read(url: str, schemes: Sequence[str]) -> tuple[str, str, int]:
    found = read_origin(url)
    if found is None:
        raise DestinationRefused("programs read this address in different ways; write it in the usual form")
    scheme, host, port = found
    if scheme not in schemes or port is None:
        raise DestinationRefused(f"the scheme of the address must be {' or '.join(schemes)}")
    return scheme, host, port


def _is_address(host: str) -> bool:
    return ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def _is_named_local(host: str) -> bool:
    return host == "localhost" or _is_address(host)


def _is_private(address: str) -> bool:
    """Whether an address is of this machine or its network; link-local, multicast and reserved ones are not."""
    found = ipaddress.ip_address(address.partition("%")[0])
    odd = found.is_link_local or found.is_unspecified or found.is_multicast or found.is_reserved
    return found.is_loopback or (found.is_private and not odd)


def _refuse_local_name(host: str) -> None:
    if not _is_address(host) and ("." not in host or host.rpartition(".")[2] in _LOCAL_NAMES):
        raise DestinationRefused(f"{host} is a name of a private network")
