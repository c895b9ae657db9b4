"""Our client drives an agent written with the official SDK: handshake, login, sessions and their settings."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from dragoman_editor import find_out, play
from sdk_agent_process import PEERS, SdkAgentProcess, sdk_agent

from dragoman import (
    AgentStartError,
    AuthRequired,
    InvalidParams,
    NotOffered,
    RemoteProtocolError,
    ResourceNotFound,
    connect,
)
from dragoman import schema as s

pytestmark = pytest.mark.asyncio(loop_scope="module")


# Handshake


async def test_the_handshake_tells_our_client_what_the_sdk_agent_is_and_can(agent: SdkAgentProcess):
    client = agent.client
    assert client.agent_info == s.Implementation(name="sdk-agent", title="SDK agent", version="3.2.1")
    assert client.agent_capabilities == s.AgentCapabilities(
        load_session=True,
        prompt_capabilities=s.PromptCapabilities(image=True, audio=True, embedded_context=True),
        mcp_capabilities=s.McpCapabilities(http=True, sse=True),
        session_capabilities=s.SessionCapabilities(
            list=s.SessionListCapabilities(),
            fork=s.SessionForkCapabilities(),
            resume=s.SessionResumeCapabilities(),
            close=s.SessionCloseCapabilities(),
            additional_directories=s.SessionAdditionalDirectoriesCapabilities(),
        ),
    )
    assert client.auth_methods == [
        s.AuthMethodAgent(id="token", name="Token", description="Reads it from the keyring")
    ]


async def test_the_handshake_tells_the_sdk_agent_what_our_client_is_and_can(agent: SdkAgentProcess):
    heard = await agent.client.agent.request("_peer/handshake")
    assert heard["version"] == 1
    assert heard["info"] == {"name": "interop-editor", "title": "Interop editor", "version": "9.9.9"}
    assert heard["capabilities"] == {
        "fs": {"readTextFile": True, "writeTextFile": True},
        "terminal": True,
        "session": {"configOptions": {"boolean": {}}},
        "elicitation": {"form": {}, "url": {}},
        "plan": {},
        "auth": {"terminal": False},
    }


async def test_an_agent_of_another_protocol_version_is_refused(tmp_path: Path):
    with pytest.raises(AgentStartError, match="protocol version 99"):
        async with sdk_agent(tmp_path, "future"):
            pass


async def test_a_command_line_is_enough_to_reach_an_sdk_agent(tmp_path: Path):
    async with connect(f"{sys.executable} {PEERS / 'sdk_agent.py'}") as client:
        session = await client.new_session(tmp_path)
        updates, response = await play(session, "echo", s.TextContent(text="hello"))
    assert [update.content.text for update in updates] == ["hello"]
    assert response == s.PromptResponse(stop_reason="end_turn")


# Login


async def test_a_locked_agent_opens_no_session_before_authenticate(tmp_path: Path):
    async with sdk_agent(tmp_path, "locked") as agent:
        with pytest.raises(AuthRequired) as refusal:
            await agent.new_session()
        assert refusal.value.code == -32000
        assert refusal.value.data == {"methods": ["token"]}
        with pytest.raises(InvalidParams):
            await agent.client.authenticate("password")
        await agent.client.authenticate("token")
        assert (await agent.new_session()).id == "session-1"


# Sessions


async def test_a_new_session_knows_its_directories_and_servers(agent: SdkAgentProcess, tmp_path: Path):
    session = await agent.client.new_session(
        tmp_path,
        additional_directories=[tmp_path / "lib"],
        mcp_servers=[
            s.McpServerStdio(
                name="files", command="/bin/files", args=["-v"], env=[s.EnvVariable(name="LEVEL", value="3")]
            ),
            s.McpServerHttp(name="web", url="https://mcp.test/", headers=[s.HttpHeader(name="X-Key", value="k")]),
            s.McpServerSse(name="old", url="https://sse.test/", headers=[]),
        ],
        meta={"trace": {"id": "t-1"}},
    )
    found = await find_out(session, "session")
    none = {"_meta": None}
    assert found == {
        "cwd": str(tmp_path),
        "directories": [str(tmp_path / "lib")],
        "servers": [
            {
                "name": "files",
                "command": "/bin/files",
                "args": ["-v"],
                "env": [{"name": "LEVEL", "value": "3", **none}],
                **none,
            },
            {
                "type": "http",
                "name": "web",
                "url": "https://mcp.test/",
                "headers": [{"name": "X-Key", "value": "k", **none}],
                **none,
            },
            {"type": "sse", "name": "old", "url": "https://sse.test/", "headers": [], **none},
        ],
        "meta": {"trace": {"id": "t-1"}},
    }


async def test_a_loaded_session_has_its_history_in_the_backlog_when_load_returns(agent: SdkAgentProcess):
    first = await agent.new_session()
    told, _ = await play(first, "echo", s.TextContent(text="one"), s.TextContent(text="two"))
    loaded = await agent.client.load_session(first.id)
    replayed = list(loaded.backlog())
    assert [(type(update), update.content.text) for update in replayed] == [
        (s.UserMessageChunk, "echo {}"),
        (s.UserMessageChunk, "one"),
        (s.UserMessageChunk, "two"),
        (s.AgentMessageChunk, "one"),
        (s.AgentMessageChunk, "two"),
    ]
    assert replayed[3:] == told
    assert loaded.modes == first.modes
    assert loaded.config_options == first.config_options


async def test_a_resumed_session_goes_on_without_its_history(agent: SdkAgentProcess):
    first = await agent.new_session()
    await play(first, "echo", s.TextContent(text="one"))
    resumed = await agent.client.resume_session(first.id)
    assert list(resumed.backlog()) == []
    assert resumed.modes == first.modes
    updates, _ = await play(resumed, "echo", s.TextContent(text="two"))
    assert [update.content.text for update in updates] == ["two"]


async def test_a_forked_session_remembers_what_its_parent_said(agent: SdkAgentProcess):
    parent = await agent.new_session()
    await parent.set_mode("code")
    await play(parent, "echo", s.TextContent(text="before"))
    child = await parent.fork()
    assert child.id != parent.id
    assert child.modes and child.modes.current_mode_id == "code"
    await play(parent, "echo", s.TextContent(text="after"))
    loaded = await agent.client.load_session(child.id)
    assert [update.content.text for update in loaded.backlog()] == ["echo {}", "before", "before"]


async def test_all_pages_of_the_session_list_are_fetched(agent: SdkAgentProcess, tmp_path: Path):
    opened = [await agent.client.new_session(tmp_path) for _ in range(5)]
    listed = await agent.client.list_sessions(tmp_path)
    assert listed == [
        s.SessionInfo(session_id=session.id, cwd=str(tmp_path), title=f"About {session.id}") for session in opened
    ]
    pages = [frame for frame in agent.wire.sent if b'"session/list"' in frame]
    assert len(pages) == 3
    assert {session.session_id for session in await agent.client.list_sessions()} > {
        session.id for session in opened
    }


async def test_a_closed_session_is_gone(agent: SdkAgentProcess):
    session = await agent.new_session()
    await session.close()
    with pytest.raises(ResourceNotFound) as missing:
        await session.prompt("echo {}")
    assert missing.value.data == {"uri": session.id}
    await session.close()  # what is gone already need not be closed: no error


# Settings


async def test_modes_are_set_and_a_mode_that_does_not_exist_is_refused(agent: SdkAgentProcess):
    session = await agent.new_session()
    assert session.modes == s.SessionModeState(
        current_mode_id="ask",
        available_modes=[
            s.SessionMode(id="ask", name="Ask"),
            s.SessionMode(id="code", name="Code", description="Writes files"),
        ],
    )
    await session.set_mode("code")
    assert session.modes.current_mode_id == "code"
    with pytest.raises(InvalidParams) as refusal:
        await session.set_mode("sleep")
    assert refusal.value.data == {"modeId": "sleep"}
    resumed = await agent.client.resume_session(session.id)
    assert resumed.modes and resumed.modes.current_mode_id == "code"


async def test_config_options_of_both_kinds_are_set(agent: SdkAgentProcess):
    session = await agent.new_session()
    model, verbose = session.config_options
    assert model == s.SessionConfigSelect(
        id="model",
        name="Model",
        category="model",
        current_value="small",
        options=[
            s.SessionConfigSelectOption(value="small", name="Small"),
            s.SessionConfigSelectOption(value="large", name="Large"),
        ],
    )
    assert verbose == s.SessionConfigBoolean(id="verbose", name="Verbose", current_value=False)
    model, verbose = await session.set_config_option("model", "large")
    assert (model.current_value, verbose.current_value) == ("large", False)
    model, verbose = await session.set_config_option("verbose", True)
    assert (model.current_value, verbose.current_value) == ("large", True)
    model, verbose = await session.set_config_option("verbose", False)
    assert (model.current_value, verbose.current_value) == ("large", False)
    with pytest.raises(InvalidParams):
        await session.set_config_option("model", "huge")


# An agent that leaves methods unwritten: the SDK answers success, with null where a result was due


async def test_what_the_sdk_agent_does_not_offer_is_never_sent(agent: SdkAgentProcess):
    session = await agent.new_session()
    sent = len(agent.wire.sent)
    for call in (session.delete(), session.set_title("x"), agent.client.logout()):
        with pytest.raises(NotOffered):
            await call
    assert len(agent.wire.sent) == sent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SdkAgentProcess]:
    async with sdk_agent(tmp_path_factory.mktemp("bare-agent"), program="sdk_bare_agent.py") as agent:
        yield agent


async def test_an_unwritten_method_that_owes_nothing_passes_for_success(bare: SdkAgentProcess):
    assert await bare.client.list_sessions() == []
    loaded = await bare.client.load_session("any")
    assert loaded.modes is None
    await bare.client.authenticate("any")
    await loaded.set_mode("any")


async def test_an_unwritten_method_that_owes_a_result_is_the_agents_error(bare: SdkAgentProcess):
    for call in (bare.new_session(), bare.client.fork_session("any")):
        with pytest.raises(RemoteProtocolError, match="sessionId"):
            await call
    with pytest.raises(RemoteProtocolError, match="stopReason"):
        await bare.client.session("any").prompt("hello")
