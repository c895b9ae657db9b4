"""Fetches pages, once the user allows it."""

import asyncio
import http.client
import ssl
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Annotated
from urllib.parse import urljoin, urlsplit

from msgspec import Meta, Struct

from ...foundation import destinations
from ...host.operations import NetworkAccess
from ..context.history import Part
from ..workplace import Workplace
from .tool import Failed, Tool, Work, said

PATIENCE = 20.0  # seconds for every step of a visit
MAX_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 5
SCHEMES = ("http", "https")
_SILENT = {"script", "style", "noscript", "template", "svg", "head"}
_BLOCKS = {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section", "article", "td"}


class FetchUrl(Tool):
    """Fetch a page and read its text."""

    name = "fetch_url"
    kind = "fetch"

    url: Annotated[str, Meta(description="An http or https address.")]

    def title(self, place: Workplace) -> str:
        """Name the URL."""
        return f"Fetch {self.url}"

    async def run(self, work: Work) -> Sequence[Part]:
        """Fetch a public page after the user agreed and return its text."""
        url = self.url
        for _ in range(MAX_REDIRECTS):
            if _scheme(url) not in SCHEMES:
                raise Failed("Only http and https addresses can be fetched.")
            # The user is asked about every address on the way, because a redirect may lead anywhere.
            await work.place.permissions.admit(work.turn, work.call, NetworkAccess(url=url))
            await work.call.start()
            # A host in a private network is visited only if the model named it, not after a redirect.
            page = await _in_thread(url, local=urlsplit(url).hostname == urlsplit(self.url).hostname)
            if not page.elsewhere:
                return said(work.place, page.text, work.call.id)
            url = urljoin(url, page.elsewhere)
        raise Failed("The address leads from one to the next without end.")


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError:  # not a valid URL
        return ""


class _Page(Struct, frozen=True):
    text: str
    elsewhere: str = ""


async def _in_thread(url: str, local: bool) -> _Page:
    try:
        async with asyncio.timeout(PATIENCE * 2):
            return await asyncio.to_thread(_get, url, local)
    except (OSError, destinations.DestinationRefused, http.client.HTTPException, TimeoutError, ValueError) as exc:
        raise Failed(f"{url} cannot be fetched: {exc or type(exc).__name__}") from exc


def _get(url: str, local: bool) -> _Page:
    place = destinations.find(url, SCHEMES, local=local)
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = kind(place.host, place.port, timeout=PATIENCE)
    sock = destinations.connected(place, PATIENCE)
    try:
        connection.sock = sock  # to the resolved address; the name is not resolved again
        if place.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(sock, server_hostname=place.host)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"Accept": "text/*", "User-Agent": "dragoman"})
        answer = connection.getresponse()
        if answer.status in (301, 302, 303, 307, 308):
            return _Page("", answer.getheader("Location") or "")
        if answer.status >= 400:
            raise ValueError(f"it answers {answer.status} {answer.reason}")
        media = answer.headers.get_content_type()
        if not media.startswith("text/") and media not in ("application/json", "application/xml"):
            raise ValueError(f"it is {media}, not text")
        text = answer.read(MAX_BYTES).decode(answer.headers.get_content_charset() or "utf-8", "replace")
        return _Page(_words(text) if media == "text/html" else text)
    finally:
        connection.close()
        sock.close()


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in _SILENT
        if tag in _BLOCKS:
            self.found.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT and self._silent > 0

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.found.append(data)


def _words(page: str) -> str:
    parser = _Words()
    parser.feed(page)
    lines = (" ".join(line.split()) for line in "".join(parser.found).splitlines())
    return "\n".join(line for line in lines if line)
