"""The token for a server: never an argument, which other users could read."""

import os
from pathlib import Path

HELP = "file that holds the token (default: DRAGOMAN_TOKEN, or the token of this machine's gateway)"


def headers_for(url: str, file: str | None) -> dict[str, str]:
    """The headers that show a token to the server at a URL; raises an Error for a URL that is none.

    The token of this machine's gateway goes to no other machine, and to no Unix socket, which may be others'.
    """
    from ...transports.remote.addresses import read_url

    address, _ = read_url(url)
    token = _token(file, address.is_local and not address.socket)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    read_url(url, headers)  # which refuses to send one in the clear
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
