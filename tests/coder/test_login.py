"""Which model is used, and how the user logs in: keys found, entered and kept."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from patience import PATIENCE

from dragoman import schema as s
from dragoman.coder import Coder
from dragoman.coder.model.choice import chosen
from dragoman.coder.model.login import keys_file, store_keys, stored_keys
from dragoman.errors import AuthRequired, InvalidParams
from dragoman.testing import RecordingClient, pair

from .desk import BareClient, DiskClient, said, updates
from .model_servers import Anthropic, Ollama, answer

pytestmark = pytest.mark.usefixtures("nothing_left")

NOWHERE = {"OLLAMA_HOST": "127.0.0.1:9"}  # nobody listens there


# Which model


async def test_a_choice_beats_a_key_beats_a_server_beats_nothing() -> None:
    async with Ollama().running() as server:
        local = server.environ
        key = {"OPENAI_API_KEY": "sk-1", **local}
        assert (await chosen("x:y", {}, key))[0].name == "x:y"
        assert (await chosen(None, {}, {**key, "DRAGOMAN_MODEL": "a:b"}))[0].name == "a:b"
        choice, models = await chosen(None, {}, key)
        assert choice.name.startswith("openai:") and "in OPENAI_API_KEY" in choice.why
        assert "ollama:qwen3-coder" in models and choice.name in models
        assert (await chosen(None, {}, local))[0].name == "ollama:qwen3-coder"
        assert (await chosen(None, {"google": "k"}, local))[0].name.startswith("google:")
    choice, models = await chosen(None, {}, NOWHERE)
    assert (choice.name, models) == ("", [])
    assert "no provider's key" in choice.why


async def test_a_server_elsewhere_is_never_looked_for_unasked() -> None:
    assert (await chosen(None, {}, {"OLLAMA_HOST": "http://192.0.2.1:11434"}))[0].name == ""


async def test_a_server_that_talks_nonsense_is_none() -> None:
    class Nonsense(Ollama):
        def listing(self) -> dict[str, Any]:
            return {"models": 7}

    async with Nonsense().running() as server:
        assert (await chosen(None, {}, server.environ))[0].name == ""


# Logging in


def the_key() -> str:
    return "sk-entered-by-the-user-0001"


async def test_the_ways_to_log_in_are_those_the_client_can_use() -> None:
    async with pair(Coder, RecordingClient()) as client:
        assert [method.id for method in client.auth_methods] == ["environment", "key", "terminal"]
        terminal = client.auth_methods[-1]
        assert isinstance(terminal, s.AuthMethodTerminal) and terminal.args == ["--login"]
    async with pair(Coder, BareClient()) as client:
        assert [method.id for method in client.auth_methods] == ["environment"]


async def test_without_a_key_the_environment_is_no_way_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", NOWHERE["OLLAMA_HOST"])
    async with pair(Coder, RecordingClient()) as client:
        with pytest.raises(AuthRequired, match="no provider's key"):
            await client.authenticate("environment")
        with pytest.raises(InvalidParams, match="nonsense"):
            await client.authenticate("nonsense")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
        await client.authenticate("environment")


async def test_a_model_without_its_key_asks_to_log_in(tmp_path: Path) -> None:
    async with pair(lambda remote: Coder(remote, model="anthropic:claude"), DiskClient()) as client:
        session = await client.new_session(tmp_path)
        with pytest.raises(AuthRequired, match="ANTHROPIC_API_KEY"):
            await session.prompt("Go")


class Browsing(DiskClient):
    """A client whose user opens the page and enters a key there."""

    question: s.UrlElicitation
    tries: list[int]

    async def open_url(self, question: s.UrlElicitation) -> bool:
        self.question, parts = question, urlsplit(question.url)
        assert parts.hostname == "127.0.0.1"
        self.tries = [
            await self._visit(parts.netloc, "/guess", None),
            await self._visit(parts.netloc, parts.path, None, host="evil.example"),
            await self._visit(parts.netloc, parts.path, None),
            await self._visit(parts.netloc, parts.path, {"provider": "nobody", "key": "x"}),
            await self._visit(parts.netloc, parts.path, {"provider": "anthropic", "key": the_key()}),
        ]
        return True

    async def _visit(self, netloc: str, path: str, fields: dict[str, str] | None, host: str | None = None) -> int:
        name, _, port = netloc.partition(":")
        reader, writer = await asyncio.open_connection(name, int(port))
        body = urlencode(fields).encode() if fields else b""
        verb = "POST" if fields else "GET"
        head = f"{verb} {path} HTTP/1.1\r\nHost: {host or netloc}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answered = await reader.read()
        writer.close()
        await writer.wait_closed()
        return int(answered.split()[1])


async def test_a_key_entered_on_the_page_is_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Anthropic(answer("Hello."))
    async with asyncio.timeout(30), server.running():
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.environ["ANTHROPIC_BASE_URL"])
        client = Browsing()
        async with pair(lambda remote: Coder(remote, model=server.name), client):
            await client.authenticate("key")  # no session is needed for it
            assert client.question.session_id is None and client.question.request_id == 2  # our second request
            session = await client.new_session(tmp_path)
            await session.prompt("Go")
            assert client.tries == [404, 404, 200, 400, 200]
            assert stat.S_IMODE(keys_file().stat().st_mode) == 0o600
            assert stored_keys() == {"anthropic": the_key()}
            await client.logout()
            assert stored_keys() == {}
            with pytest.raises(AuthRequired):
                await session.prompt("Again")
    assert said(updates(client)).endswith("Hello.")
    assert the_key() not in str(client.updates) + str(client.requests)
    assert len(client.notifications) == 1  # that the page is done with


async def test_a_page_nobody_opens_is_no_way_in() -> None:
    async with pair(Coder, DiskClient(visits=False)) as client:
        with pytest.raises(AuthRequired, match="no key was entered"):
            await client.authenticate("key")


def test_a_key_is_entered_in_a_terminal(a_home_of_its_own: Path) -> None:
    def login(typed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dragoman", "agent", "coder", "--login"],
            input=typed,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env={"PATH": os.environ["PATH"], "HOME": str(a_home_of_its_own)},
        )

    done = login(f"2\n{the_key()}\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and the_key() not in done.stderr
    kept = a_home_of_its_own / ".config" / "dragoman" / "keys.json"
    assert json.loads(kept.read_text()) == {"openai": the_key()}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    for typed in ("nobody\nx\n", "1\n\n"):
        assert login(typed).returncode == 64
    assert json.loads(kept.read_text()) == {"openai": the_key()}


@pytest.mark.parametrize("content", ["", "[]", "nonsense", '{"openai": 7, "nobody": "x"}'])
def test_a_keys_file_that_is_none_has_no_keys(content: str) -> None:
    store_keys({})
    keys_file().write_text(content)
    assert stored_keys() == {}


def test_keys_that_never_end_are_not_waited_for() -> None:
    keys_file().parent.mkdir(parents=True)
    os.mkfifo(keys_file())
    assert stored_keys() == {}
