"""Which names a server answers to, and which web pages may use it: looked at before anything else of a request.

The Host header gives away a page that rebinds a name of its own to this machine, Origin one of another site.
"""

import re
from collections.abc import Callable, Collection

from ...transports.remote.server.answers import RequestRefused, Scope

HOST = re.compile(r"[A-Za-z0-9.:\[\]_-]{1,200}")  # what may be shown of a header


class Guard:
    """`hosts` are the names a server goes by, `origins` the pages that may use it."""

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
        """Raise RequestRefused unless the request is meant for us and comes from where it may."""
        named = values_of(scope, b"host")
        if len(named) != 1 or named[0].lower() not in self.hosts:
            self._refused("host")
            raise RequestRefused(421, _not_ours(named))
        self.check_page(scope)

    def check_page(self, scope: Scope) -> None:
        """Raise RequestRefused for a request of a web page that may not use the server."""
        pages = values_of(scope, b"origin")
        if pages and (len(pages) > 1 or pages[0] not in self.origins):
            self._refused("origin")
            raise RequestRefused(403, "this page may not connect")


def values_of(scope: Scope, header: bytes) -> list[str]:
    """Every value that a request gives a header."""
    return [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == header]


def local_names(host: str, port: int) -> set[str]:
    """The names a server on this machine goes by."""
    shown = f"[{host}]" if ":" in host else host
    return {f"{name}:{port}" for name in (shown, "localhost", "127.0.0.1", "[::1]")}


def _not_ours(named: list[str]) -> str:
    """Why a request under another name is refused, and what makes the name ours."""
    if len(named) != 1 or not HOST.fullmatch(named[0]):
        return "this server does not answer to that Host header"
    return f"this server does not answer to the name {named[0]}; it does when started with --host {named[0]}"
