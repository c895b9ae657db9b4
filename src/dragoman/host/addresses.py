"""Where a URL leads, and whether people and programs would all read it alike."""

import re
from urllib.parse import urlsplit

from msgspec import Struct

from ..foundation.destinations import PORTS, is_host, read_origin
from .display import scripts, visible

MAX_URL = 65_536  # characters
MAX_HOST = 253
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


class Origin(Struct, frozen=True):
    """Where a URL leads; in a rule, a missing part matches anything, and a host may begin with `*.`"""

    scheme: str
    host: str
    port: int | None

    def fits(self, wanted: "Origin") -> bool:
        return (
            wanted.scheme in ("", self.scheme)
            and wanted.port in (None, self.port)
            and (wanted.host == self.host or (wanted.host[:2] == "*." and self.host.endswith(wanted.host[1:])))
        )


def origin(url: str) -> Origin | None:
    """Where a URL leads; None when two programs might not agree on it."""
    found = read_origin(url) if len(url) <= MAX_URL else None
    return None if found is None else Origin(*found)


def host_pattern(text: str, *, exact: bool) -> Origin | None:
    """A host as a rule names it: `example.com`, `*.example.com`, `http://localhost:8080`; None when it is not one.

    An exact host means https and its default port unless it says otherwise.
    """
    scheme, _, rest = text.casefold().rpartition("://")
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if parts.netloc != rest or parts.username is not None or not is_host(host.removeprefix("*.")):
        return None
    if exact:
        scheme = scheme or "https"
        port = port or PORTS.get(scheme)
    return Origin(scheme, host, port)


def host_warning(url: str) -> str | None:
    """Why the host of a URL, or a bare host name, is misleading; None when it is not."""
    if len(url) > MAX_URL:
        return f"this address is longer than {MAX_URL} characters"
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host, port_is_legal = parts.hostname or "", parts.port is None or parts.port >= 0
    except ValueError:
        return "this is no address a browser and a program would read alike"
    shown = visible(host)
    if len(host) > MAX_HOST:
        return f"a host's name has at most {MAX_HOST} characters"
    if not host or not port_is_legal or re.search(r"[\s\\\x00-\x20\x7f]", url):
        return "this is no address a browser and a program would read alike"
    if parts.username is not None or parts.password is not None:
        return f"the part before the @ is a user name: this leads to {shown}"
    if not host.isascii():
        return f"the host is written in {' and '.join(scripts(host))} letters; its real name is {_ascii(host)}"
    if "xn--" in host:
        return f"{shown} is shown by browsers as {visible(_readable(host))}"
    return _oddly_spelt(host)


def _oddly_spelt(host: str) -> str | None:
    plain = host.removesuffix(".")
    if is_host(plain):
        return None
    is_number = ":" in plain or _NUMBER.fullmatch(plain.rpartition(".")[2])
    return f"{visible(host)} is {'an IP address in an unusual spelling' if is_number else 'not a host name'}"


def _ascii(host: str) -> str:
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return "no legal host name"


def _readable(host: str) -> str:
    try:
        return host.encode().decode("idna")
    except UnicodeError:
        return "nothing legal"
