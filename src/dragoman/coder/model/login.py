"""Keys of providers: entered in a terminal or on a local page, stored where only the user can read them."""

import asyncio
import getpass
import html
import json
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs

from ...foundation.directories import config_directory
from ...foundation.listening import stop_listening
from ...foundation.owning import Visits
from ...host.disk import plain_content, replace
from .choice import PROVIDERS

MAX_REQUEST = 16 * 1024
MAX_FILE = 1024 * 1024  # bytes of the key file
PATIENCE = 600.0  # seconds a user may take to enter a key
_PAGE = """<!doctype html><meta charset="utf-8"><title>Dragoman</title>
<style>body{{font:16px system-ui;max-width:30em;margin:4em auto}}input,select,button{{font:inherit}}</style>
<h1>Enter a key</h1>{body}"""
_FORM = """<form method="post"><p><select name="provider">{options}</select>
<p><input name="key" type="password" size="40" autocomplete="off" autofocus required>
<p><button>Save</button></form><p>It is kept in a file of yours on this machine and sent to the provider alone."""


def keys_file() -> Path:
    """The key file, in the user's XDG configuration directory."""
    return config_directory() / "keys.json"


def stored_keys() -> dict[str, str]:
    """The stored keys by provider; an unreadable file has none."""
    try:
        found = json.loads(plain_content(keys_file(), MAX_FILE))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: key for name, key in found.items() if name in PROVIDERS and isinstance(key, str) and key}


def store_keys(keys: Mapping[str, str]) -> None:
    """Store exactly these keys; the file is readable by the user alone from the first byte on."""
    path = keys_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace(path, json.dumps(dict(keys)).encode())


def enter_in_terminal() -> int:
    """Ask for a provider and its key on the terminal; returns the exit code."""
    names = list(PROVIDERS)
    for number, name in enumerate(names, 1):
        sys.stderr.write(f"{number}. {PROVIDERS[name].title}\n")
    sys.stderr.write("Provider: ")
    sys.stderr.flush()
    wanted = sys.stdin.readline().strip().lower()
    name = names[int(wanted) - 1] if wanted.isdigit() and 0 < int(wanted) <= len(names) else wanted
    if name not in PROVIDERS:
        sys.stderr.write(f"There is no provider {wanted!r}.\n")
        return 64
    key = (getpass.getpass("Key: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    if not key:
        sys.stderr.write("Nothing was entered; nothing has changed.\n")
        return 64
    store_keys({**stored_keys(), name: key})
    sys.stderr.write(f"The key for {PROVIDERS[name].title} is kept in {keys_file()}.\n")
    return 0


class KeyPage:
    """A local page, under an address that cannot be guessed, where the user enters a key once."""

    def __init__(self) -> None:
        self._path = f"/{secrets.token_urlsafe(24)}"
        self._entered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._server: asyncio.Server | None = None
        self._visits = Visits()

    async def open(self) -> str:
        """Start serving; returns the address."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self._host = f"127.0.0.1:{port}"
        return f"http://{self._host}{self._path}"

    async def entered(self) -> str:
        """Wait until a key is stored; returns its provider.  Raises TimeoutError."""
        async with asyncio.timeout(PATIENCE):
            return await self._entered

    async def close(self) -> None:
        if self._server:
            await stop_listening(self._server)
            await self._visits.end()
            await self._server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visits.begin(self._serve(reader, writer), "a visit to the login page")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                status, body = await self._answer(head, reader)
            answer = _PAGE.format(body=body).encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\n"
                f"Content-Length: {len(answer)}\r\nConnection: close\r\n\r\n".encode()
                + answer
            )
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # such a request needs no answer
        finally:
            writer.close()

    async def _answer(self, head: str, reader: asyncio.StreamReader) -> tuple[str, str]:
        request, *lines = head.split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        method, path, _ = request.split(" ", 2)
        if path != self._path or headers.get("host") != self._host:
            return "404 Not Found", "<p>There is nothing here."
        if method != "POST":
            options = "".join(f'<option value="{name}">{html.escape(p.title)}' for name, p in PROVIDERS.items())
            return "200 OK", _FORM.format(options=options)
        fields = parse_qs(
            (await reader.readexactly(min(int(headers.get("content-length", 0)), MAX_REQUEST))).decode()
        )
        provider, key = fields.get("provider", [""])[0], fields.get("key", [""])[0].strip()
        if provider not in PROVIDERS or not key or self._entered.done():
            return "400 Bad Request", "<p>Nothing was saved."
        store_keys({**stored_keys(), provider: key})
        self._entered.set_result(provider)
        return "200 OK", "<p>Saved. You can close this page."
