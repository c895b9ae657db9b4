"""What clients set and see around the turns: servers of MCP, logins, titles, lists, own commands, dialects."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import PATIENCE

import dragoman.schema as s
from dragoman import connect
from dragoman.bridges.claude import ClaudeAgent, history
from dragoman.bridges.claude.messages.updates import MessageTranslator
from dragoman.bridges.claude.own_commands import mcp_report, usage_report
from dragoman.dialects import NAMES
from dragoman.errors import Error, InvalidParams
from dragoman.foundation.programs import own_command
from dragoman.roles import extension
from dragoman.testing import RecordingClient, pair

from . import mcp_server
from .anthropic_server import AnthropicServer, Conversation, Hold, text, tool
from .clients import Bare, turn


class Identified(Bare):
    """Notes who pays."""

    def __init__(self) -> None:
        super().__init__(form={"colour": "green"}, visits=True)
        self.paying: list[str] = []

    @extension("_auth/status_update")
    def identity(self, params: dict) -> None:  # type: ignore[type-arg]
        self.paying.append(params["authStatus"]["kind"])


@pytest.fixture
def servers() -> Iterator[mcp_server.HttpServer]:
    server = mcp_server.HttpServer()
    yield server
    server.close()


async def test_servers_of_mcp_are_reached_over_http_and_events_with_their_headers_and_may_ask_the_user(
    model: Conversation, work: Path, servers: mcp_server.HttpServer
) -> None:
    secret = [s.HttpHeader(name="x-secret", value="a-secret")]
    named: list[s.McpServer] = [
        s.McpServerHttp(name="web", url=f"{servers.url}/mcp", headers=secret),
        s.McpServerSse(name="events", url=f"{servers.url}/sse", headers=secret),
        s.McpServerStdio(name="local", command=sys.executable, args=[mcp_server.__file__], env=[]),
    ]
    calls = {
        "t1": "mcp__web__greet",
        "t2": "mcp__events__greet",
        "t3": "mcp__local__ask",
        "t4": "mcp__local__visit",
    }
    for id, name in calls.items():
        model.say(tool(name, id))
    model.say(text("ok"))
    client = Identified()
    async with pair(ClaudeAgent, client):
        session = await client.new_session(work, mcp_servers=named)
        told = await turn(session, "greet")
        reported = await turn(session, "/mcp")
        disabled = await turn(session, "/mcp disable web")
        missing = await turn(session, "/mcp reconnect nowhere")
        usage = await turn(session, "/usage")
        commands = [u.update for u in client.updates if isinstance(u.update, s.AvailableCommandsUpdate)]
    texts = {id: told.call(id)["content"][0]["content"]["text"] for id in calls}
    assert texts["t1"] == texts["t2"] == "greeted with a-secret"
    assert json.loads(texts["t3"]) == {"action": "accept", "content": {"colour": "green"}}
    assert json.loads(texts["t4"])["action"] == "accept"
    (page,) = [asked for asked in client.requests if isinstance(asked, s.UrlElicitation)]
    assert (page.message, page.url, page.elicitation_id) == ("Log in", "https://example.com/in", "e1")
    completed = [note for note in client.notifications if isinstance(note, s.CompleteElicitationNotification)]
    assert [note.elicitation_id for note in completed] == ["e1"]
    assert [asked.message for asked in client.requests if isinstance(asked, s.FormElicitation)] == ["Which colour?"]
    assert "**web**: connected, 3 tools" in reported.text and "**local**: connected" in reported.text
    assert disabled.text.startswith("- web: disabled") and "**web**: disabled" in disabled.text
    assert missing.text.startswith("There is no MCP server nowhere.")
    assert usage.text.startswith("Cost of this session: $0.0")
    assert "500 in, 125 out" in usage.text
    assert {"mcp", "usage"} <= {command.name for command in commands[0].available_commands}
    assert len(model.requests) == 5  # commands of ours ask no model
    assert client.paying == ["api_key"]


def test_reports_show_words_of_others_as_they_are() -> None:
    server = {"name": "a*b", "status": "failed", "error": "line\n[link](x)"}
    assert mcp_report({"mcpServers": [server]}) == "MCP servers:\n- **a\\*b**: failed, line \\[link\\](x)"
    assert mcp_report({}) == "No MCP servers are configured."
    limits = {"five_hour": {"utilization": 12, "resets_at": "soon"}, "seven_day": None}
    assert usage_report({"rate_limits": limits}).splitlines()[1] == "- 5 hours: 12 % used, resets soon"


async def test_pdf_files_reach_the_model_and_other_files_are_refused(model: Conversation, work: Path) -> None:
    def embedded(kind: str, blob: str) -> list[s.ContentBlock]:
        file = s.BlobResourceContents(uri="file:///d", blob=blob, mime_type=kind)
        return [s.EmbeddedResource(resource=file)]

    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        for kind, blob in (("application/zip", "UEsDBA=="), ("text/plain", "/w==")):
            with pytest.raises(InvalidParams, match="file:///d"):
                await turn(session, embedded(kind, blob))
        await turn(session, embedded("application/pdf", "JVBERi0xLjQK"))
    blocks = [b for m in model.requests[0]["messages"] if m["role"] == "user" for b in m["content"]]
    (document,) = [block["source"] for block in blocks if block["type"] == "document"]
    assert (document["media_type"], document["data"]) == ("application/pdf", "JVBERi0xLjQK")


async def test_a_logout_ends_the_login_and_is_told(model: Conversation, work: Path) -> None:
    home = Path(os.environ["CLAUDE_CONFIG_DIR"])
    home.mkdir()
    login = {"claudeAiOauth": {"accessToken": "a", "refreshToken": "r", "expiresAt": 9999999999999, "scopes": []}}
    credentials = home / ".credentials.json"
    credentials.write_text(json.dumps(login))
    client = Identified()
    async with pair(ClaudeAgent, client):
        await client.agent.logout(s.LogoutRequest())
        kept = json.loads(credentials.read_text()) if credentials.exists() else {}
        assert "claudeAiOauth" not in kept
        status = await client.agent.auth_status(s.AuthStatusRequest())
    assert client.paying == ["none"]
    assert status.state == "unknown"


@pytest.mark.parametrize(("api", "path"), [("bedrock", "/model/"), ("vertex", "/publishers/anthropic/models/")])
async def test_clouds_are_asked_at_the_address_that_the_client_sets(
    model: Conversation,
    anthropic: AnthropicServer,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    path: str,
) -> None:
    monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "project")
    monkeypatch.setenv("CLOUD_ML_REGION", "us-east5")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    client = Identified()
    async with pair(ClaudeAgent, client):
        provider = s.SetProviderRequest(
            provider_id="main", api_type=api, base_url=model.url, headers={"x-team": "b"}
        )
        await client.agent.set_provider(provider)
        session = await client.new_session(work)
        with pytest.raises(Error):  # there is no such cloud at that address
            await turn(session, "hi")
    name = model.url.rsplit("/", 1)[1]
    assert [stray for stray in anthropic.strays if stray.startswith(f"/{name}/") and path in stray]
    assert client.paying == ["gateway"]
    assert not model.requests


async def test_the_program_finds_a_title_unless_the_user_gives_one(
    model: Conversation, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC")
    model.beside = json.dumps({"title": "Repair the clock"})
    client = Bare()
    async with pair(ClaudeAgent, client):
        first, second = await client.new_session(work), await client.new_session(work)
        await turn(first, "please repair the clock in the hall")
        titles = s.SetSessionTitleRequest(session_id=first.id, title="  My \n clock ")
        while not [u for u in client.updates if isinstance(u.update, s.SessionInfoUpdate)]:
            await client.agent.list_sessions(s.ListSessionsRequest(cwd=str(work)))
        assert (await client.agent.set_title(titles)).title == "My clock"
        await turn(second, "hi")
        listed = {info.session_id: info.title for info in await client.list_sessions(cwd=work)}
        with pytest.raises(InvalidParams):
            await client.agent.set_title(s.SetSessionTitleRequest(session_id=first.id, title=" "))
    told = {u.session_id: u.update.title for u in client.updates if isinstance(u.update, s.SessionInfoUpdate)}
    assert told == {first.id: "Repair the clock", second.id: "hi"}
    assert listed[first.id] == "My clock"


async def test_a_title_of_the_user_s_wins_over_one_that_is_being_found(
    model: Conversation, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC")
    hold = Hold()
    model.holds.append(hold)
    model.before_beside, model.beside = [hold], json.dumps({"title": "Repair the clock"})
    async with pair(ClaudeAgent, Bare()) as client:
        session = await client.new_session(work)
        await turn(session, "please repair the clock in the hall")
        assert await asyncio.to_thread(hold.reached.wait, PATIENCE)
        await client.agent.set_title(s.SetSessionTitleRequest(session_id=session.id, title="Mine"))
        hold.released.set()
        (open,) = [task for task in asyncio.all_tasks() if task.get_name() == "claude's title"]
        await asyncio.wait([open], timeout=PATIENCE)
    assert not [u for u in client.updates if isinstance(u.update, s.SessionInfoUpdate)]


async def test_a_long_list_of_sessions_comes_in_pages(
    model: Conversation, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "PAGE", 2)
    async with pair(ClaudeAgent, Bare()) as client:
        opened = [await client.new_session(work) for _ in range(3)]
        for session in opened:
            await turn(session, "hi")
        first = await client.agent.list_sessions(s.ListSessionsRequest(cwd=str(work)))
        assert first.next_cursor
        rest = await client.agent.list_sessions(s.ListSessionsRequest(cwd=str(work), cursor=first.next_cursor))
        with pytest.raises(InvalidParams, match="cursor"):
            await client.agent.list_sessions(s.ListSessionsRequest(cursor="elsewhere"))
    assert (len(first.sessions), len(rest.sessions), rest.next_cursor) == (2, 1, None)
    assert {info.session_id for info in [*first.sessions, *rest.sessions]} == {session.id for session in opened}


def test_what_the_program_remembers_is_a_tool_call_that_has_read_it() -> None:
    memories = [{"path": "/home/.claude/a.md"}, {"path": "team"}]
    message = {"type": "system", "subtype": "memory_recall", "uuid": "u1", "memories": memories}
    (call,) = MessageTranslator("/work").updates(message)
    assert isinstance(call, s.ToolCall)
    assert (call.title, call.kind, call.status) == ("Recalled 2 memories", "read", "completed")
    assert [place.path for place in call.locations] == ["/home/.claude/a.md"]


@pytest.mark.parametrize("dialect", [name for name in NAMES if name not in ("v1", "v2")])
async def test_claude_answers_clients_of_every_dialect(model: Conversation, work: Path, dialect: str) -> None:
    model.say(text("Hel", "lo."), tool("Write", "t1", file_path=str(work / "a"), content="x"))
    model.say(text("Done."))
    command = own_command("dragoman", "agent", "claude", "--own-tools")
    async with connect(command, RecordingClient(), dialect=dialect) as client:
        told = await turn(await client.new_session(work), "hi")
    assert told.text == "Hello.Done." and told.response.stop_reason == "end_turn"
    assert (work / "a").read_text() == "x"
