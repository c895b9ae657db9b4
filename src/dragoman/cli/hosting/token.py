"""The token for a server: never an argument, which other users could read."""

import os
from pathlib import Path

HELP = "file that holds the token (default: DRAGOMAN_TOKEN, or the token of this machine's gateway)"


def headers_for(url: str, file: str | None) -> dict[str, str]:
    """The headers with a token for the server at a URL; raises an Error for an invalid URL.

    The token of this machine's gateway is never sent to another machine or to a Unix socket, which may be another
    user's.
    """
    from ...transports.remote.addresses import read_url

    address, _ = read_url(url)
    token = _token(file, address.is_local and not address.socket)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    read_url(url, headers)  # it refuses to send a token unencrypted
    return headers


def _token(file: str | None, is_local: bool) -> str:
    from ...errors import Error
    from ...foundation.directories import LOCAL_TOKEN, gateway_directory

    if file is None and (token := os.environ.get("DRAGOMAN_TOKEN")):
        return token
    path = Path(file) if file else gateway_directory() / LOCAL_TOKEN
    if file is None and not (is_local and path.exists()):
        return ""
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise Error(f"the token in {path} cannot be read: {exc}") from None
