"""The PROXY protocol, versions 1 and 2: the header in which a proxy states the client's address.

https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt
"""

import ipaddress
import struct
from typing import NamedTuple

LINE = b"PROXY "
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
MAX_LINE = 107
MAX_BLOCK = 4096
HEAD = 16


class ProxyHeaderError(ValueError):
    """A connection does not begin with a header of the PROXY protocol."""


class ProxyHeader(NamedTuple):
    """The client's address; none for a connection of the proxy itself."""

    size: int  # bytes of the header
    host: str | None = None
    port: int = 0


def read_proxy_header(data: bytes) -> ProxyHeader | None:
    """The header at the beginning of a connection; None while it is incomplete.  Raises ProxyHeaderError."""
    if data[: len(SIGNATURE)] == SIGNATURE[: len(data)]:
        return _block(data)
    if data[: len(LINE)] == LINE[: len(data)]:
        return _line(data)
    raise ProxyHeaderError("it does not begin with a header of the PROXY protocol")


def _line(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, MAX_LINE)
    if end < 0:
        if len(data) >= MAX_LINE:
            raise ProxyHeaderError("its first line does not end")
        return None
    words = data[:end].decode("latin-1").split(" ")
    if words[1:2] == ["UNKNOWN"]:
        return ProxyHeader(end + 2)
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6") or not words[4].isdecimal():
        raise ProxyHeaderError("its first line is not one of the PROXY protocol")
    return ProxyHeader(end + 2, _host(words[2]), int(words[4]))


def _block(data: bytes) -> ProxyHeader | None:
    if len(data) < HEAD:
        return None
    version, family, length = struct.unpack_from("!BBH", data, len(SIGNATURE))
    if version >> 4 != 2 or length > MAX_BLOCK or version & 15 > 1:
        raise ProxyHeaderError("its header is of another version")
    if len(data) < HEAD + length:
        return None
    size = HEAD + length
    wide = {0x11: 4, 0x21: 16}.get(family)
    # the proxy's own connection, such as a health check, or an unknown kind of address
    if version & 15 == 0 or wide is None:
        return ProxyHeader(size)
    if length < 2 * wide + 4:
        raise ProxyHeaderError("its addresses are cut short")
    address = ipaddress.ip_address(data[HEAD : HEAD + wide])
    (port,) = struct.unpack_from("!H", data, HEAD + 2 * wide)
    return ProxyHeader(size, str(address), port)


def _host(written: str) -> str:
    try:
        return str(ipaddress.ip_address(written))
    except ValueError:
        raise ProxyHeaderError("its address is not valid") from None
