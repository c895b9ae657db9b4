"""Checks tokens signed by an issuer (JWT, as from OIDC providers) against its public keys.

Only asymmetric algorithms are accepted, so a public key can never serve as a shared secret.  A key is used for the
algorithm it names, or for those of its type, whatever a token says.  Issuer, audience and expiry are required and
checked.  Keys are fetched again regularly; a removed key admits nobody.
"""

import asyncio
import json
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from ...errors import Error
from ...foundation.documents import Document, string
from .admission import Principal
from .tokens import is_name

log = logging.getLogger("dragoman")

# The algorithms of each key type or curve.  None of them uses a shared secret.
ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
    "Ed448": ("EdDSA",),
}
ADMIN = "dragoman.admin"  # in the claim `scope`
REFRESH = 300.0  # seconds after which the keys at an address are fetched again
FETCH_EVERY = 30.0  # the least seconds between two fetches
KEPT = 3600.0  # seconds for which known keys count if they cannot be fetched
FETCH_TIMEOUT = 5.0
MAX_KEYS = 1024 * 1024  # bytes
MAX_TOKEN = 16 * 1024
LEEWAY = 30  # seconds by which clocks may differ


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: keys come only from the address that the operator gave."""

    def redirect_request(self, *_: object) -> None:
        return None


_DIRECTLY = urllib.request.build_opener(_NoRedirects)


class Key(Struct, frozen=True):
    """A public key of an issuer, and the algorithms it is for."""

    public: Any
    algorithms: tuple[str, ...]
    data: bytes  # the issuer's own JSON


@dataclass(frozen=True)
class SignedBy:
    """The key of an issuer that admitted a client; a principal stays the same when the issuer changes its key."""

    issuer: str
    key: bytes = field(compare=False)


class SignedTokens:
    """Checks tokens of one issuer; `keys` is where its keys are: a file, or an https URL."""

    def __init__(self, issuer: str, audience: str, keys: str) -> None:
        try:
            import jwt
        except ModuleNotFoundError:
            raise Error("signed tokens need the gateway extra: pip install 'dragoman[gateway]'") from None
        self._jwt: Any = jwt
        self._issuer, self._audience, self._place = issuer, audience, keys
        parts = urlsplit(keys)
        self._is_remote = parts.scheme in ("http", "https")
        if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise Error("the keys of an issuer are read only over https")
        self._keys: Mapping[str, Key] = {}
        self._seen: tuple[int, ...] = ()  # of a file
        self._looked = self._read_at = float("-inf")
        self._looking = asyncio.Lock()
        if not self._is_remote:
            self._read()

    async def principal(self, token: str) -> Principal | None:
        """The principal that a token names; None for an invalid one."""
        if token.count(".") != 2 or len(token) > MAX_TOKEN:
            return None
        try:
            header = self._jwt.get_unverified_header(token)
            key = await self._key(str(header.get("kid") or ""))
            if key is None or "crit" in header:
                return None
            claims = self._jwt.decode(
                token,
                key.public,
                algorithms=list(key.algorithms),
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except self._jwt.PyJWTError as exc:
            log.info("a signed token was refused: %s", type(exc).__name__)
            return None
        if not is_name(claims["sub"]):
            log.info("a signed token was refused: its subject is no name")
            return None
        scopes = ("use", "admin") if ADMIN in str(claims.get("scope", "")).split() else ("use",)
        return Principal(claims["sub"], scopes, SignedBy(self._issuer, key.data), float(claims["exp"]) + LEEWAY)

    def still_holds(self, via: object) -> bool:
        """Whether the key that admitted a client is still valid."""
        if not isinstance(via, SignedBy):
            return False
        return time.monotonic() - self._read_at < KEPT and any(key.data == via.key for key in self._keys.values())

    async def refresh(self, wanted: str | None = None) -> None:
        """Fetch the keys again if they are due or the wanted key is unknown."""
        async with self._looking:
            if not self._is_due(wanted):
                return
            self._looked = time.monotonic()
            try:
                await asyncio.to_thread(self._read)
            except Error as exc:
                log.error("%s", exc)
                if not self._is_remote:
                    self._keys = {}  # without the file, its keys admit nobody

    def _is_due(self, wanted: str | None) -> bool:
        if not self._is_remote:
            return self._stamp() != self._seen
        age = time.monotonic() - self._read_at
        is_due = age > REFRESH or (wanted is not None and wanted not in self._keys)
        return is_due and time.monotonic() - self._looked > FETCH_EVERY

    async def _key(self, name: str) -> Key | None:
        await self.refresh(name)
        return self._keys.get(name) if time.monotonic() - self._read_at < KEPT or not self._is_remote else None

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._place)
        except OSError:
            return (0,)
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _read(self) -> None:
        self._seen = () if self._is_remote else self._stamp()
        try:
            if self._is_remote:
                with _DIRECTLY.open(self._place, timeout=FETCH_TIMEOUT) as response:
                    data = response.read(MAX_KEYS)
            else:
                with open(self._place, "rb") as file:
                    data = file.read(MAX_KEYS)
            found = [entry for entry in json.loads(data)["keys"] if _is_for_signing(entry)]
            keys = {str(entry.get("kid") or ""): self._made(entry) for entry in found}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, self._jwt.PyJWTError) as exc:
            if isinstance(exc, urllib.error.HTTPError):
                exc.close()  # it owns the connection
            raise Error(f"the keys at {self._place} cannot be read: {exc}") from None
        if len(keys) != len(found):
            raise Error(f"the keys at {self._place} cannot be read: two of them have the same name")
        self._keys, self._read_at = keys, time.monotonic()

    def _made(self, entry: Document) -> Key:
        """A key for the algorithm that it names, or for those of its type."""
        allowed = ALGORITHMS["RSA" if entry["kty"] == "RSA" else string(entry["crv"])]
        named = entry.get("alg")
        algorithms = allowed if named is None else tuple(name for name in allowed if name == named)
        data = json.dumps(entry, sort_keys=True).encode()
        return Key(self._jwt.PyJWK(dict(entry), algorithms[0] if algorithms else allowed[0]).key, algorithms, data)


def _is_for_signing(entry: Document) -> bool:
    """Whether a key is a signature key of a known type."""
    kind = entry.get("crv") if entry.get("kty") != "RSA" else "RSA"
    uses = entry.get("key_ops", ["verify"])
    verifies = isinstance(uses, list | str) and "verify" in uses
    return kind in ALGORITHMS and entry.get("use", "sig") == "sig" and verifies
