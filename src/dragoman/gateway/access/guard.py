"""Checks first of all under which name a request comes and whether a web page caused it.

The Host header reveals a page that rebinds its own name to this machine, the Origin header a page of another site.
"""

import re
from collections.abc import Callable, Collection

from ...transports.remote.server.answers import RequestRefused, Scope

HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,200}")  # characters of a header that an error shows


class Guard:
    """The allowed names: `hosts` of the server, `origins` of pages that may use it."""

    def __init__(
        self,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.hosts = {host.lower() for host in hosts}
        self.origins = set(origins)
        self._refused = refused

    def check(self, scope: Scope) -> None:
        """Raise RequestRefused unless a request has an allowed host and origin."""
        named = values_of(scope, b"host")
        if len(named) != 1 or named[0].lower() not in self.hosts:
            self._refused("host")
            raise RequestRefused(421, _not_ours(named))
        self.check_page(scope)

    def check_page(self, scope: Scope) -> None:
        """Raise RequestRefused for a request of a page that may not use the server."""
        pages = values_of(scope, b"origin")
        if pages and (len(pages) > 1 or pages[0] not in self.origins):
            self._refused("origin")
            raise RequestRefused(403, "this page may not connect")


def values_of(scope: Scope, header: bytes) -> list[str]:
    """All values of a header in a request."""
    return [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == header]


def local_names(host: str, port: int) -> set[str]:
    """The names of a server on this machine."""
    shown = f"[{host}]" if ":" in host else host
    return {f"{name}:{port}" for name in (shown, "localhost", "127.0.0.1", "[::1]")}


def _not_ours(named: list[str]) -> str:
    """Why a request under another name is refused, and how to allow the name."""
    if len(named) != 1 or not HOST.fullmatch(named[0]):
        return "this server does not answer to that Host header"
    return f"this server does not answer to the name {named[0]}; it does when started with --host {named[0]}"
