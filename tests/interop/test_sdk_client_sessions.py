"""The official SDK's client drives our agent: handshake, login, sessions and their settings."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sdk import acp, schema
from sdk_editor import AGENT, dragoman_agent

MODES = schema.SessionModeState(
    current_mode_id="ask",
    available_modes=[
        schema.SessionMode(id="ask", name="Ask"),
        schema.SessionMode(id="code", name="Code", description="Writes files"),
    ],
)


@asynccontextmanager
async def raw_connection() -> AsyncIterator[Any]:
    """The SDK's connection without its models, to send what they would not let through."""

    async def ignore(method: str, params: Any, is_notification: bool) -> None:
        assert is_notification

    async with acp.spawn_stdio_connection(ignore, sys.executable, str(AGENT), stderr=None) as (connection, _):
        yield connection


async def refusal(call: Any) -> tuple[int, str, Any]:
    with pytest.raises(acp.RequestError) as refused:
        await call
    return refused.value.code, str(refused.value), refused.value.data


# Handshake


async def test_the_handshake_tells_the_sdk_client_what_our_agent_is_and_can(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        answer = agent.initialized
    assert answer.protocol_version == 1
    assert answer.agent_info == schema.Implementation(name="dragoman-peer", title="Dragoman peer", version="1.2.3")
    assert answer.auth_methods == [
        schema.AuthMethodAgent(id="token", name="Token", description="Reads it from the keyring")
    ]
    offers = answer.agent_capabilities.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert set(offers.pop("_meta")) == {"dragoman"}  # modes and options, for dialects that want to know them early
    assert offers == {
        "loadSession": True,
        "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
        "mcpCapabilities": {"http": True, "sse": True, "acp": False},
        "sessionCapabilities": {"list": {}, "fork": {}, "resume": {}, "close": {}, "additionalDirectories": {}},
        "auth": {},
    }


async def test_the_handshake_tells_our_agent_what_the_sdk_client_is_and_can(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        heard = await agent.connection.ext_method("peer/handshake", {})
    assert heard == {
        "protocolVersion": 1,
        "clientInfo": {"name": "sdk-editor", "title": "SDK editor", "version": "7.7.7"},
        "clientCapabilities": {
            "fs": {"readTextFile": True, "writeTextFile": True},
            "terminal": True,
            "session": {"configOptions": {"boolean": {}}},
            "auth": {},
            "elicitation": {"form": {}, "url": {}},
            "plan": {},
        },
    }


@pytest.mark.parametrize(("version", "ours"), [(0, 1), (2, 2), (99, 2)])
async def test_a_client_of_another_version_is_offered_the_nearest_of_ours(version: int, ours: int):
    async with raw_connection() as connection:
        answer = await connection.send_request("initialize", {"protocolVersion": version})
    assert answer["protocolVersion"] == ours


async def test_nothing_is_answered_before_the_handshake_and_no_second_one():
    async with raw_connection() as connection:
        code, _, _ = await refusal(connection.send_request("session/new", {"cwd": "/", "mcpServers": []}))
        assert code == -32600
        await connection.send_request("initialize", {"protocolVersion": 1})
        code, _, _ = await refusal(connection.send_request("initialize", {"protocolVersion": 1}))
        assert code == -32600
        opened = await connection.send_request("session/new", {"cwd": "/", "mcpServers": []})
        assert opened["sessionId"]


# Login


async def test_our_locked_agent_opens_no_session_before_authenticate(tmp_path: Path):
    async with dragoman_agent(tmp_path, "locked") as agent:
        required = (-32000, "Authentication required", {"methods": ["token"]})
        assert await refusal(agent.new_session()) == required
        assert await refusal(agent.connection.authenticate("password")) == (
            -32602,
            "Invalid params",
            {"methodId": "password"},
        )
        assert await agent.connection.authenticate("token") == schema.AuthenticateResponse()
        assert (await agent.new_session()).session_id


# Sessions


async def test_our_new_session_knows_its_directories_and_servers(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        agent.opened = await agent.new_session(
            additional_directories=[str(tmp_path / "lib")],
            mcp_servers=[
                schema.McpServerStdio(
                    name="files",
                    command="/bin/files",
                    args=["-v"],
                    env=[schema.EnvVariable(name="LEVEL", value="3")],
                ),
                schema.HttpMcpServer(
                    type="http",
                    name="web",
                    url="https://mcp.test/",
                    headers=[schema.HttpHeader(name="X-Key", value="k")],
                ),
                schema.SseMcpServer(type="sse", name="old", url="https://sse.test/", headers=[]),
            ],
            trace={"id": "t-1"},
        )
        found = await agent.find_out("session")
    assert found == {
        "cwd": str(tmp_path),
        "directories": [str(tmp_path / "lib")],
        "servers": [
            {
                "name": "files",
                "command": "/bin/files",
                "args": ["-v"],
                "env": [{"name": "LEVEL", "value": "3"}],
            },
            {
                "type": "http",
                "name": "web",
                "url": "https://mcp.test/",
                "headers": [{"name": "X-Key", "value": "k"}],
            },
            {"type": "sse", "name": "old", "url": "https://sse.test/", "headers": []},
        ],
        "meta": {"trace": {"id": "t-1"}},
    }
    assert agent.opened.modes == MODES
    assert agent.opened.field_meta == {"opened": agent.opened.session_id}


async def test_a_session_our_agent_cannot_serve_is_refused(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        server = schema.AcpMcpServer(type="acp", name="inner", server_id="1")
        assert (await refusal(agent.new_session(mcp_servers=[server])))[0] == -32602
        assert (await refusal(agent.new_session(Path("relative"))))[0] == -32602


async def test_our_agent_announces_its_commands_after_the_session_is_known(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        incoming = [event.message for event in agent.frames if event.direction.value == "incoming"]
    kinds = [frame["params"]["update"]["sessionUpdate"] if "method" in frame else "answer" for frame in incoming]
    assert kinds == ["answer", "answer", "available_commands_update"]
    command = agent.editor.updates[0].available_commands[0]
    assert (command.name, command.description, command.input.root.hint) == ("test", "Runs tests", "what to test")


async def test_our_loaded_session_is_replayed_before_load_is_answered(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        session_id = agent.opened.session_id
        await agent.play("echo", acp.text_block("one"), acp.text_block("two"))
        agent.editor.updates.clear()
        seen = len(agent.frames)
        loaded = await agent.connection.load_session(cwd=str(tmp_path), session_id=session_id)
        arrived = [event.message for event in agent.frames[seen:] if event.direction.value == "incoming"]
        # The SDK hands a replay to its handlers behind the answer, so the order is told by the frames.
        replayed = [frame["params"]["update"] for frame in arrived[: _answer(arrived)]]
        chunks = [update for update in replayed if "content" in update]
        assert [(chunk["sessionUpdate"], chunk["content"]["text"]) for chunk in chunks] == [
            ("user_message_chunk", "echo {}"),
            ("user_message_chunk", "one"),
            ("user_message_chunk", "two"),
            ("agent_message_chunk", "one"),
            ("agent_message_chunk", "two"),
        ]
        await agent.editor.until(lambda: len(agent.editor.updates) >= len(replayed))
    assert loaded.modes == MODES
    assert loaded.config_options == agent.opened.config_options


def _answer(frames: list[Any]) -> int:
    return next(index for index, frame in enumerate(frames) if "result" in frame)


async def test_a_session_our_agent_does_not_know_is_not_found(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        unknown = {"cwd": str(tmp_path), "session_id": "unknown"}
        assert await refusal(agent.connection.load_session(**unknown)) == (
            -32002,
            "Resource not found",
            {"uri": "unknown"},
        )
        assert (await refusal(agent.connection.resume_session(**unknown)))[0] == -32002
        assert (await refusal(agent.connection.prompt("unknown", [acp.text_block("echo")])))[0] == -32002


async def test_our_session_is_resumed_without_its_history(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        session_id = agent.opened.session_id
        await agent.connection.set_session_mode(session_id, "code")
        await agent.play("echo", acp.text_block("one"))
        resumed = await agent.connection.resume_session(session_id=session_id, cwd=str(tmp_path))
        assert resumed.modes.current_mode_id == "code"
        await agent.play("echo", acp.text_block("two"))
    said = [update.content.text for update in agent.editor.updates if hasattr(update, "content")]
    assert said == ["one", "two"]


async def test_our_session_is_forked_and_both_go_on(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        parent = agent.opened.session_id
        await agent.connection.set_session_mode(parent, "code")
        forked = await agent.connection.fork_session(session_id=parent, cwd=str(tmp_path))
        assert forked.session_id != parent
        assert forked.modes.current_mode_id == "code"
        for session in (forked, agent.opened):
            agent.opened = session
            updates, _ = await agent.play("echo", acp.text_block("hello"))
            assert updates[-1].content.text == "hello"


async def test_our_session_list_is_paged(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        folder = tmp_path / "folder"
        opened = [(await agent.new_session(folder)).session_id for _ in range(3)]
        first = await agent.connection.list_sessions(cwd=str(folder))
        second = await agent.connection.list_sessions(cwd=str(folder), cursor=first.next_cursor)
        everything = await agent.connection.list_sessions()
    assert [info.session_id for info in first.sessions + second.sessions] == opened
    assert second.next_cursor is None
    assert first.sessions[0] == schema.SessionInfo(
        session_id=opened[0], cwd=str(folder), title=f"About {opened[0]}"
    )
    assert everything.sessions[0].session_id == agent.opened.session_id


async def test_our_closed_session_ends_its_turn_and_is_gone(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        turn = asyncio.create_task(agent.play("wait"))
        await agent.editor.until(lambda: len(agent.editor.updates) == 3)
        closed = await agent.connection.close_session(agent.opened.session_id)
        assert closed == schema.CloseSessionResponse()
        _, response = await turn
        assert response.stop_reason == "cancelled"
        assert (await refusal(agent.play("echo")))[0] == -32002


# Settings


async def test_our_modes_are_set_and_a_mode_that_does_not_exist_is_refused(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        session_id = agent.opened.session_id
        assert agent.opened.modes == MODES
        answer = await agent.connection.set_session_mode(session_id, "code")
        assert answer == schema.SetSessionModeResponse()
        assert (await refusal(agent.connection.set_session_mode(session_id, "sleep")))[0] == -32602
        resumed = await agent.connection.resume_session(session_id=session_id, cwd=str(tmp_path))
        assert resumed.modes.current_mode_id == "code"


async def test_our_config_options_of_both_kinds_are_set(tmp_path: Path):
    async with dragoman_agent(tmp_path) as agent:
        session_id = agent.opened.session_id
        choose = schema.SessionConfigOptionSelect(
            id="model",
            name="Model",
            category="model",
            type="select",
            current_value="small",
            options=[
                schema.SessionConfigSelectOption(value="small", name="Small"),
                schema.SessionConfigSelectOption(value="large", name="Large"),
            ],
        )
        switch = schema.SessionConfigOptionBoolean(
            id="verbose", name="Verbose", type="boolean", current_value=False
        )
        assert agent.opened.config_options == [choose, switch]
        values = []
        for id, value in (("model", "large"), ("verbose", True), ("verbose", False)):
            answer = await agent.connection.set_config_option(config_id=id, session_id=session_id, value=value)
            values.append([option.current_value for option in answer.config_options])
        assert values == [["large", False], ["large", True], ["large", False]]
        for id, value in (("model", "huge"), ("verbose", "yes"), ("colour", "red")):
            call = agent.connection.set_config_option(config_id=id, session_id=session_id, value=value)
            assert (await refusal(call))[0] == -32602


async def test_a_client_without_switches_is_shown_none(tmp_path: Path):
    async with dragoman_agent(tmp_path, capabilities=schema.ClientCapabilities()) as agent:
        assert [option.id for option in agent.opened.config_options] == ["model"]
