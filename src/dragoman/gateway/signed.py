"""Tokens that somebody else signed (JWT, as OIDC providers issue them), checked against their public keys.

Only asymmetric algorithms are known here: a public key can then never be taken for a shared secret.  Issuer,
audience and expiry have to be there and have to be right.
"""

import asyncio
import json
import logging
import time
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from ..errors import Error
from .admission import Principal

log = logging.getLogger("dragoman")

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
ADMIN = "dragoman.admin"  # in the claim `scope`
FETCH_EVERY = 30.0  # seconds at least between two looks for a key nobody knows
FETCH_TIMEOUT = 5.0
MAX_KEYS = 1024 * 1024  # bytes
MAX_TOKEN = 16 * 1024
LEEWAY = 30  # seconds two clocks may differ


class SignedTokens:
    """Checks tokens of one issuer; `keys` is where its keys are: a file, or an https URL."""

    def __init__(self, issuer: str, audience: str, keys: str) -> None:
        try:
            import jwt
        except ModuleNotFoundError:
            raise Error("signed tokens need more: pip install 'dragoman[gateway]'") from None
        self._jwt: Any = jwt
        self._issuer, self._audience, self._place = issuer, audience, keys
        parts = urlsplit(keys)
        self._is_remote = parts.scheme in ("http", "https")
        if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise Error("the keys of an issuer are read over https alone")
        self._keys: dict[str, Any] = {}
        self._looked = 0.0
        if not self._is_remote:
            self._read()

    async def principal(self, token: str) -> Principal | None:
        """Whom a token names; None for one that is not good."""
        if token.count(".") != 2 or len(token) > MAX_TOKEN:
            return None
        try:
            name = str(self._jwt.get_unverified_header(token).get("kid") or "")
            key = await self._key(name)
            if key is None:
                return None
            claims = self._jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=self._audience,
                issuer=self._issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except self._jwt.PyJWTError as exc:
            log.info("a signed token was refused: %s", type(exc).__name__)
            return None
        scopes = ("use", "admin") if ADMIN in str(claims.get("scope", "")).split() else ("use",)
        return Principal(str(claims["sub"]), scopes, self._issuer, float(claims["exp"]) + LEEWAY)

    async def _key(self, name: str) -> Any:
        if name not in self._keys and time.monotonic() - self._looked > FETCH_EVERY:
            self._looked = time.monotonic()
            try:
                await asyncio.to_thread(self._read)
            except Error as exc:
                log.error("%s", exc)
        return self._keys.get(name)

    def _read(self) -> None:
        try:
            if self._is_remote:
                with urllib.request.urlopen(self._place, timeout=FETCH_TIMEOUT) as response:
                    data = response.read(MAX_KEYS)
            else:
                with open(self._place, "rb") as file:
                    data = file.read(MAX_KEYS)
            keys = self._jwt.PyJWKSet.from_dict(json.loads(data)).keys
        except (OSError, ValueError, self._jwt.PyJWTError) as exc:
            raise Error(f"the keys at {self._place} cannot be read: {exc}") from None
        self._keys = {str(key.key_id or ""): key.key for key in keys}
