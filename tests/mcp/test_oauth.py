"""Servers over HTTP that want a login: shown through the client, kept for the user, told to nobody."""

import asyncio
import json
import logging
import stat
import urllib.request
from pathlib import Path

import pytest
from test_servers import listening_on
from test_trust import Helper

from dragoman import schema as s
from dragoman.foundation.directories import config_directory
from dragoman.mcp.oauth.login import _fault
from dragoman.testing import RecordingClient, pair

pytestmark = pytest.mark.usefixtures("nothing_left")

VAULT = str(Path(__file__).with_name("vault.py"))


class Browser(RecordingClient):
    """A client whose user visits the page at once, which leads back to the agent."""

    async def create_elicitation(self, params: s.CreateElicitationRequest) -> s.CreateElicitationResponse:
        answer = await super().create_elicitation(params)
        if isinstance(params, s.UrlElicitation) and isinstance(answer, s.ElicitationAcceptAction):
            self.visit = asyncio.create_task(asyncio.to_thread(self._visit, params.url))
        return answer

    def _visit(self, url: str) -> None:
        with urllib.request.urlopen(url, timeout=60) as page:
            self.page = page.read()

    def pages(self) -> list[s.UrlElicitation]:
        return [request for request in self.requests if isinstance(request, s.UrlElicitation)]


async def told(client: RecordingClient, server: s.McpServer, cwd: Path) -> str:
    async with pair(Helper, client) as connected, asyncio.timeout(120):
        session = await connected.new_session(cwd, mcp_servers=[server])
        return str([event async for event in session.prompt("tokens")])


@pytest.mark.parametrize(("kind", "path"), [("streamable-http", "mcp"), ("sse", "sse")])
async def test_the_user_logs_in_once_and_no_token_is_repeated(
    kind: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    caplog.set_level(logging.DEBUG)
    of = s.McpServerSse if kind == "sse" else s.McpServerHttp
    async with listening_on(VAULT, kind) as port:
        server = of(name="vault", url=f"http://127.0.0.1:{port}/{path}", headers=[])
        first = Browser(visits=True)
        said = await told(first, server, tmp_path)
        await first.visit
        assert "1 clients, 0 refreshed" in said and b"close this page" in first.page
        (page,) = first.pages()
        assert page.message == "vault: Log in on this page." and page.url.startswith(
            f"http://127.0.0.1:{port}/authorize?"
        )
        assert [note.elicitation_id for note in first.notifications] == [page.elicitation_id]

        second = Browser(visits=True)
        assert "1 clients, 0 refreshed" in await told(second, server, tmp_path) and second.pages() == []

        kept = config_directory() / "mcp_logins.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        logins = json.loads(kept.read_text())
        for login in logins.values():
            login["expires_at"] = 1.0  # long ago
        kept.write_text(json.dumps(logins))
        third = Browser(visits=True)
        assert "1 clients, 1 refreshed" in await told(third, server, tmp_path) and third.pages() == []

        logins |= json.loads(kept.read_text())
    tokens = [login["tokens"][name] for login in logins.values() for name in ("access_token", "refresh_token")]
    everything = said + caplog.text + "".join(str((c.updates, c.requests)) for c in (first, second, third))
    assert "[redacted]" in everything
    assert [token for token in tokens if token in everything] == [] and "granted_" not in everything


@pytest.mark.parametrize(
    ("client", "why"),
    [(RecordingClient(visits=False), "the user did not log in"), (RecordingClient(permissions="allow"), "vault")],
)
async def test_without_a_login_the_session_goes_on_and_says_why(
    client: RecordingClient, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    async with listening_on(VAULT, "streamable-http") as port:
        server = s.McpServerHttp(name="vault", url=f"http://127.0.0.1:{port}/mcp", headers=[])
        assert why in await told(client, server, tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "javascript:alert(1)", "http://login.example/", "https://ann@login.example/"),
        *(
            "https://login.example/\n",
            "https://login.example/ --x",
            "--upload-pack=x",
            "https://[x",
            "ftp://127.0.0.1/",
        ),
        "https://login.example/" + "a" * 2048,
    ],
)
def test_a_page_that_nobody_should_open_is_not_shown(url: str) -> None:
    assert _fault(url)


@pytest.mark.parametrize("url", ["https://login.example/authorize?state=x", "http://127.0.0.1:8000/authorize"])
def test_a_page_of_a_login_is_shown(url: str) -> None:
    assert not _fault(url)
