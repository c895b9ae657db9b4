"""Bearer tokens and the principals that they admit.

A token file contains only hashes, so its readers cannot log in with it.  It is reread whenever it changes: a
revoked token is refused from the next request on, and live connections ask `still_holds`.  The rights of a token
come from this file alone; a client cannot claim them itself.
"""

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ...errors import Error
from ...host.disk import replace

Scope = Literal["use", "admin"]

PREFIX = "dgm_"  # secret scanners recognise leaked tokens by it
BYTES = 32
MAX_NAME = 256  # characters of a principal's name
MAX_TOKEN = 512  # characters of a presented token; a longer one is not even hashed


def is_name(name: object) -> bool:
    """Whether this can be a principal's name: visible characters only, and at least one."""
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable() and name.strip() == name


class TokenFileError(Error):
    """The token file cannot be used; a partly readable one admits nobody."""


class Grant(Struct, frozen=True):
    """The rights of one token."""

    name: str
    principal: str
    sha256: str
    scopes: Sequence[Scope] = ("use",)
    expires: float | None = None  # seconds since the epoch

    def is_good(self, now: float) -> bool:
        return self.expires is None or now < self.expires


class _File(Struct, forbid_unknown_fields=True):
    tokens: list[Grant]


class TokenFile:
    """The tokens of a gateway, reread whenever the file has changed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._seen: tuple[int, ...] = ()
        self._grants: dict[str, Grant] = {}
        self.refresh()

    def refresh(self) -> None:
        """Reread the file if it has changed; a missing file admits nobody."""
        try:
            found = self.path.stat()
            seen = (found.st_mtime_ns, found.st_ino, found.st_size)
            if seen == self._seen:
                return
            if found.st_mode & 0o077:
                raise TokenFileError(f"{self.path} can be read by others; run: chmod 600 {self.path}")
            grants = msgspec.json.decode(self.path.read_bytes(), type=_File).tokens
        except FileNotFoundError:
            raise TokenFileError(
                f"there is no token file {self.path}; make one with `dragoman gateway tokens add`"
            ) from None
        except OSError as exc:
            raise TokenFileError(f"{self.path} cannot be read: {exc.strerror}") from None
        except msgspec.DecodeError as exc:
            raise TokenFileError(f"{self.path} is not a token file: {exc}") from None
        if nameless := [grant.name for grant in grants if not is_name(grant.principal)]:
            raise TokenFileError(
                f"{self.path} is not a token file: {nameless[0]!r} lets in a principal without a name"
            )
        self._grants = {grant.sha256: grant for grant in grants}
        self._seen = seen

    def grant(self, token: str) -> Grant | None:
        """The rights of a presented token; None if it is not, or no longer, valid."""
        if not token or len(token) > MAX_TOKEN:
            return None
        digest = _hashed(token)
        found = self._grants.get(digest)
        if found is None or not hmac.compare_digest(found.sha256, digest):
            return None
        return found if found.is_good(time.time()) else None

    def still_holds(self, grant: Grant) -> bool:
        """Whether a token that was valid is unchanged."""
        return self._grants.get(grant.sha256) == grant and grant.is_good(time.time())

    @property
    def grants(self) -> list[Grant]:
        return list(self._grants.values())


def add_token(
    path: str | os.PathLike[str],
    name: str,
    principal: str,
    scopes: Sequence[Scope] = ("use",),
    expires: float | None = None,
) -> str:
    """Create a token and add it to a file, which is created if missing; returns the token, which is not stored."""
    if not name.strip() or not is_name(principal):
        raise TokenFileError("a token needs a name and a principal of visible characters")
    file = Path(path)
    grants = TokenFile(file).grants if file.exists() else []
    if any(grant.name == name for grant in grants):
        raise TokenFileError(f"{file} has a token named {name!r} already; revoke it first")
    token = PREFIX + secrets.token_urlsafe(BYTES)
    _write(file, [*grants, Grant(name, principal, _hashed(token), tuple(scopes), expires)])
    return token


def revoke_token(path: str | os.PathLike[str], name: str) -> None:
    """Remove a token from a file."""
    file = Path(path)
    grants = TokenFile(file).grants
    kept = [grant for grant in grants if grant.name != name]
    if len(kept) == len(grants):
        raise TokenFileError(f"{file} has no token named {name!r}")
    _write(file, kept)


def _hashed(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def _write(path: Path, grants: list[Grant]) -> None:
    """Replace the file in one step: a gateway that reads it meanwhile sees the old or the new one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(path, msgspec.json.format(msgspec.json.encode(_File(grants)), indent=2))
