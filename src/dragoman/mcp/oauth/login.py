"""A login at a server: the client shows its page, and the browser returns to a local address of ours."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from ... import schema as s
from ...agent.turn import AgentSession, new_id
from ...errors import Error
from ...foundation.destinations import DestinationRefused, find
from ...foundation.listening import stop_listening
from ...foundation.owning import Visits
from ...host.audit.redaction import Redactor
from ...roles import offered
from .tokens import StoredLogin

if TYPE_CHECKING:
    import httpx2
    from mcp.client.auth import AuthorizationCodeResult

    from .authorizing import Authorizing

PATIENCE = 600.0  # seconds a user may take to log in
MAX_URL = 2048
LOOPBACK = "127.0.0.1"
CALLBACK = "/callback"
LOCAL = (LOOPBACK, "localhost", "::1")
PAGE = "<!doctype html><meta charset=utf-8><title>Dragoman</title><p>You can close this page."


class LoginFailed(Error):
    """The user did not or could not log in."""


class ServerLogin:
    """Logs the user in at one server; `is_waiting` while the user is asked to."""

    def __init__(self, name: str, url: str, session: AgentSession, redactor: Redactor) -> None:
        self.is_waiting = False
        self._name = name
        self._url = url
        self._session = session
        self._redactor = redactor
        self._stored = StoredLogin(url, redactor.add)
        self._port = self._stored.port or _free_port()
        self._visits = Visits()
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[dict[str, str]] | None = None
        self._page = self._state = ""

    def auth(self) -> "Authorizing":
        """The authorization of requests to the server."""
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientMetadata

        from .authorizing import Authorizing

        metadata = OAuthClientMetadata.model_validate(
            {
                "client_name": "Dragoman",
                "redirect_uris": [f"http://{LOOPBACK}:{self._port}{CALLBACK}"],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
            }
        )
        provider = OAuthClientProvider(self._url, metadata, self._stored, self._show, self._come_back)
        provider.context.token_expiry_time = self._stored.expires_at
        return Authorizing(provider)

    async def check(self, request: "httpx2.Request") -> None:
        """Allow requests to the server's own origin and to public addresses only; raises LoginFailed."""
        url = str(request.url)
        if _origin(url) == _origin(self._url):
            return
        try:
            await asyncio.to_thread(find, url)
        except DestinationRefused as exc:
            told = f"the MCP server {self._name!r} names an address for its login that may not be asked"
            raise LoginFailed(f"{told}: {exc}") from exc

    async def _show(self, url: str) -> None:
        """Show the page of the login."""
        if why := _fault(url):
            raise LoginFailed(f"the page for the login at {self._name!r} cannot be shown: {why}")
        if not offered(self._session.client.offers, "elicitation.url"):
            raise LoginFailed(f"{self._name!r} wants a login, and the client cannot show its page")
        try:
            self._server = await asyncio.start_server(self._accept, LOOPBACK, self._port)
        except OSError as exc:
            await self._stored.forget()
            raise LoginFailed(f"port {self._port} for the login at {self._name!r} is taken; try again") from exc
        self._answer = asyncio.get_running_loop().create_future()
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        self._page = new_id("ask")
        question = s.UrlElicitation(
            message=f"{self._name}: Log in on this page.",
            session_id=self._session.id,
            url=url,
            elicitation_id=self._page,
        )
        with self._waiting():
            agreed = await self._session.client.create_elicitation(question)
        if not isinstance(agreed, s.ElicitationAcceptAction):
            await self.close()
            raise LoginFailed(f"the user did not log in at {self._name!r}")

    async def _come_back(self) -> "AuthorizationCodeResult":
        """Wait until the browser returns with the outcome."""
        from mcp.client.auth import AuthorizationCodeResult

        assert self._answer
        try:
            with self._waiting():
                async with asyncio.timeout(PATIENCE):
                    came = await self._answer
        except TimeoutError:
            raise LoginFailed(f"nobody logged in at {self._name!r} in {PATIENCE:.0f} s") from None
        finally:
            await self.close()
        self._session.client.complete_elicitation(s.CompleteElicitationNotification(elicitation_id=self._page))
        if "code" not in came:
            raise LoginFailed(f"the login at {self._name!r} failed: {came.get('error', 'it gave no code')[:200]}")
        self._redactor.add(came["code"])
        return AuthorizationCodeResult(code=came["code"], state=came.get("state"), iss=came.get("iss"))

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self.is_waiting = True
        try:
            yield
        finally:
            self.is_waiting = False

    async def close(self) -> None:
        """Stop waiting for the browser."""
        if self._server:
            server, self._server = self._server, None
            await stop_listening(server)
            await self._visits.end()
            await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visits.begin(self._serve(reader, writer), "the end of a login")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, EOFError, asyncio.LimitOverrunError, ValueError):
            async with asyncio.timeout(10):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, target, _ = head.split("\r\n", 1)[0].split(" ", 2)
                parts = urlsplit(target)
                came = {name: values[0] for name, values in parse_qs(parts.query).items()}
                is_ours = method == "GET" and parts.path == CALLBACK and came.get("state") == self._state != ""
                status = "200 OK" if is_ours else "404 Not Found"
                body = (PAGE if is_ours else "").encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nCache-Control: no-store\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
                if is_ours and self._answer and not self._answer.done():
                    self._answer.set_result(came)
        writer.close()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _fault(url: str) -> str:
    """Why a page must not be shown; empty if it may."""
    if len(url) > MAX_URL or not url.isprintable() or " " in url:
        return "its address is too long or has characters that no address has"
    try:
        parts = urlsplit(url)
        is_local = parts.hostname in LOCAL
    except ValueError:
        return "its address cannot be read"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_local):
        return "its address is not https"
    return "its address has a user's name" if "@" in parts.netloc else ""
