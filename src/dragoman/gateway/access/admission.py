"""Admits clients by a bearer token, a signed one (JWT), a certificate or as a user of a Unix socket.

Guessing is slowed down.  A client's rights come from our own files or from a token that its issuer signed, never
from its own messages.
"""

import logging
import os
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...transports.remote.server.accepted import WebRequest
from ...transports.remote.server.answers import RequestRefused
from ...transports.remote.unix_sockets import PeerCredentials
from .throttle import Throttle
from .tokens import PREFIX, Grant, TokenFile, TokenFileError, is_name

if TYPE_CHECKING:
    from .signed import SignedTokens

log = logging.getLogger("dragoman")

SUBPROTOCOL = "acp"  # the subprotocol for browsers, which can send a token only as another subprotocol
BEARER = "dragoman.bearer."
COOKIE = "dragoman_token"  # the cookie of a page that this server has shown
SAME_SITE = ("same-origin", "none")
KNOWN_BY = 16  # characters of a token that a guesser of the rest has to know
CERTIFICATE, PEER = "certificate", "peer"  # facts about the connection, below its messages
PASSED_ON = ("forwarded", "x-forwarded-for", "x-real-ip", "via")  # headers that proxies add
CHALLENGE = {"www-authenticate": "Bearer"}


@dataclass(frozen=True)
class Principal:
    """An admitted client, and its credential.

    Two with different expiry are the same to a connection: a renewed token does not make another client.
    """

    name: str
    scopes: tuple[str, ...] = ("use",)
    via: Hashable = None  # two with different values are not the same to a connection
    expires: float | None = field(default=None, compare=False)


class Admission:
    """Determines the principal of a request, or refuses it."""

    def __init__(
        self,
        tokens: TokenFile | None = None,
        signed: "SignedTokens | None" = None,
        *,
        certificates: bool = False,
        users: "SocketUsers | None" = None,
        anybody: str | None = None,
        damping: Throttle | None = None,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.tokens, self._signed = tokens, signed
        self._certificates, self._users, self._anybody = certificates, users, anybody
        self._damping = damping or Throttle()
        self._refused = refused

    async def __call__(self, request: WebRequest) -> Principal:
        """The principal of a request; raises Refused."""
        token = _token(request)
        if self._certificates and (named := _named_by_certificate(request)):
            return named
        if self._users and not token and (user := self._users.principal(request)):
            return user
        principal = await self._by_token(token) if token else None
        if principal is None and self._anybody is not None and not token:
            return Principal(self._anybody, ("use", "admin"))
        if principal is None:
            raise self._failed(request, token)
        return principal

    def _failed(self, request: WebRequest, token: str) -> RequestRefused:
        """Why a request without a valid credential is refused; only such requests are slowed down.

        A client with a valid one is admitted, however many others guess at the same address.
        """
        sources = _sources(request, token)
        if wait := max(map(self._damping.wait, sources)):
            self._refused("damped")
            return RequestRefused(429, "too many failures; wait", {"retry-after": str(int(wait) + 1)})
        if token:
            for source in sources:
                self._damping.failed(source)
        self._refused("credential")
        return RequestRefused(401, "a valid token is needed", CHALLENGE)

    def still_holds(self, principal: Principal) -> bool:
        """Whether an admitted client would still be admitted."""
        if principal.expires is not None and time.time() >= principal.expires:
            return False
        if isinstance(principal.via, Grant):
            return self.tokens is not None and self.tokens.still_holds(principal.via)
        if self._signed is not None and principal.via not in (None, CERTIFICATE, PEER):
            return self._signed.still_holds(principal.via)
        return True

    def refresh(self) -> None:
        """Reread the token file if it has changed."""
        if self.tokens:
            self.tokens.refresh()

    async def refresh_keys(self) -> None:
        """Fetch the issuer's keys again if they are due."""
        if self._signed:
            await self._signed.refresh()

    async def _by_token(self, token: str) -> Principal | None:
        if self.tokens:
            try:
                self.tokens.refresh()
            except TokenFileError as exc:
                self._refused("token_file")
                raise RequestRefused(503, "no client can be admitted at the moment", {"retry-after": "5"}) from exc
            if grant := self.tokens.grant(token):
                return Principal(grant.principal, tuple(grant.scopes), grant, grant.expires)
        return await self._signed.principal(token) if self._signed else None


class SocketUsers:
    """The users without a token at a Unix socket: listed ones, or every user of this machine by name."""

    def __init__(self, listed: Mapping[int, str]) -> None:
        self._listed = listed

    def principal(self, request: WebRequest) -> Principal | None:
        """The principal of the user at the other end, from the kernel; None if it is not known or not enough.

        A request that a proxy passes on comes from the proxy's client, not from the proxy.
        """
        peer: PeerCredentials | None = (request.scope.get("extensions") or {}).get("peer_credentials")
        if peer is None or any(name in request.headers for name in PASSED_ON):
            return None
        name = self._listed.get(peer.uid, "") if self._listed else name_of_user(peer.uid)
        if not is_name(name):
            why = "is not in --socket-user" if self._listed else "has no name on this machine"
            log.warning("a client of the Unix socket is refused: the uid %d %s", peer.uid, why)
            return None
        return Principal(name, ("use", "admin") if peer.uid == os.geteuid() else ("use",), PEER)


def name_of_user(uid: int) -> str:
    from ...foundation.unix import pwd  # not every system has it

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _sources(request: WebRequest, token: str) -> list[str]:
    """The sources of a failure: its address, and the token of ours whose beginning it knows.

    The name in a signed token is not one of them, so that nobody can lock out others by using their names.
    """
    address = f"address {request.peer}"
    return [address, f"token {token[:KNOWN_BY]}"] if token.startswith(PREFIX) else [address]


def _token(request: WebRequest) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    for name in request.scope.get("subprotocols") or ():
        if isinstance(name, str) and name.startswith(BEARER):
            return name.removeprefix(BEARER)
    return _cookie(request)


def _cookie(request: WebRequest) -> str:
    """The token in a cookie; none if a page of another site caused the request, with which it is sent, too."""
    if request.headers.get("sec-fetch-site", SAME_SITE[0]) not in SAME_SITE:
        return ""
    for pair in request.headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _named_by_certificate(request: WebRequest) -> Principal | None:
    """The name in a client's certificate, which the TLS layer has verified."""
    tls: Mapping[str, object] = (request.scope.get("extensions") or {}).get("tls") or {}
    certificate: Mapping[str, Any] | None = getattr(tls.get("object"), "getpeercert", dict)()
    for pairs in (certificate or {}).get("subject", ()):
        for name, value in pairs:
            if name == "commonName" and is_name(value):
                return Principal(value, via=CERTIFICATE)
    return None
