"""Tokens of MCP servers: kept in one file that only the user can read, by the server's address."""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...foundation.directories import config_directory
from ...foundation.documents import Document, document
from ...host.disk import lock, plain_content, replace

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

MAX_FILE = 4 * 1024 * 1024


def tokens_file() -> Path:
    """The token file, beside the keys of model providers."""
    return config_directory() / "mcp_logins.json"


class StoredLogin:
    """The tokens of one server and the client they were issued to; the library reads and writes them here."""

    def __init__(self, url: str, secret: Callable[[str], None]) -> None:
        self._key = hashlib.sha256(url.encode()).hexdigest()
        self._secret = secret  # called with each secret value, so that nothing repeats it
        self._known: dict[str, object] = {**_stored().get(self._key, {})}
        self._tell()

    @property
    def port(self) -> int:
        """The port in the client's registered redirect address; 0 if there is none."""
        port = self._known.get("port")
        return port if isinstance(port, int) else 0

    @property
    def expires_at(self) -> float | None:
        """When the access token expires."""
        at = self._known.get("expires_at")
        return float(at) if isinstance(at, int | float) else None

    async def get_tokens(self) -> "OAuthToken | None":
        """The stored tokens, if they can be read."""
        from mcp.shared.auth import OAuthToken

        with suppress(ValueError):
            return OAuthToken.model_validate(self._known["tokens"]) if "tokens" in self._known else None
        return None

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        """Store new tokens."""
        expires = time.time() + tokens.expires_in if tokens.expires_in is not None else None
        await self._keep({"tokens": tokens.model_dump(mode="json", exclude_none=True), "expires_at": expires})

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        """The client that the server registered."""
        from mcp.shared.auth import OAuthClientInformationFull

        with suppress(ValueError):
            found = self._known.get("client")
            return OAuthClientInformationFull.model_validate(found) if found else None
        return None

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        """Store a newly registered client, with the port of its redirect address."""
        port = client_info.redirect_uris[0].port if client_info.redirect_uris else None
        await self._keep({"client": client_info.model_dump(mode="json", exclude_none=True), "port": port or 0})

    async def forget(self) -> None:
        """Remove everything, so that the next login starts over."""
        self._known = {}
        await asyncio.to_thread(_write, self._key, None)

    async def _keep(self, members: Mapping[str, object]) -> None:
        self._known |= members
        self._tell()
        await asyncio.to_thread(_write, self._key, self._known)

    def _tell(self) -> None:
        for part in ("tokens", "client"):
            found = self._known.get(part)
            for name in ("access_token", "refresh_token", "id_token", "client_secret"):
                if isinstance(found, dict) and isinstance(value := found.get(name), str):
                    self._secret(value)


def _stored() -> dict[str, Document]:
    """The content of the file; empty if it cannot be read."""
    try:
        found: object = json.loads(plain_content(tokens_file(), MAX_FILE))
        return {key: document(value) for key, value in document(found).items()}
    except (OSError, ValueError, TypeError):
        return {}


def _write(key: str, login: Mapping[str, object] | None) -> None:
    """Add or remove one login in the file, under a lock."""
    path = tokens_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock(fd)
        others = {name: value for name, value in _stored().items() if name != key}
        replace(path, json.dumps(others if login is None else {**others, key: dict(login)}).encode())
    finally:
        os.close(fd)
