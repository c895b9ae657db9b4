"""Whatever we send, the official SDK reads whole: nothing it refuses, nothing it leaves out, nothing it logs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dragoman_editor import Editor, choose, play
from sdk import acp, schema
from sdk_agent_process import sdk_agent
from sdk_editor import dragoman_agent

from dragoman import schema as s

TO_AGENT = {
    "initialize": (schema.InitializeRequest, schema.InitializeResponse),
    "authenticate": (schema.AuthenticateRequest, schema.AuthenticateResponse),
    "session/new": (schema.NewSessionRequest, schema.NewSessionResponse),
    "session/load": (schema.LoadSessionRequest, schema.LoadSessionResponse),
    "session/list": (schema.ListSessionsRequest, schema.ListSessionsResponse),
    "session/resume": (schema.ResumeSessionRequest, schema.ResumeSessionResponse),
    "session/fork": (schema.ForkSessionRequest, schema.ForkSessionResponse),
    "session/close": (schema.CloseSessionRequest, schema.CloseSessionResponse),
    "session/set_mode": (schema.SetSessionModeRequest, schema.SetSessionModeResponse),
    "session/set_config_option": (
        (schema.SetSessionConfigOptionBooleanRequest, schema.SetSessionConfigOptionSelectRequest),
        schema.SetSessionConfigOptionResponse,
    ),
    "session/prompt": (schema.PromptRequest, schema.PromptResponse),
    "session/cancel": (schema.CancelNotification, None),
}
TO_CLIENT = {
    "session/update": (schema.SessionNotification, None),
    "session/request_permission": (schema.RequestPermissionRequest, schema.RequestPermissionResponse),
    "fs/read_text_file": (schema.ReadTextFileRequest, schema.ReadTextFileResponse),
    "fs/write_text_file": (schema.WriteTextFileRequest, schema.WriteTextFileResponse),
    "terminal/create": (schema.CreateTerminalRequest, schema.CreateTerminalResponse),
    "terminal/output": (schema.TerminalOutputRequest, schema.TerminalOutputResponse),
    "terminal/wait_for_exit": (schema.WaitForTerminalExitRequest, schema.WaitForTerminalExitResponse),
    "terminal/kill": (schema.KillTerminalRequest, schema.KillTerminalResponse),
    "terminal/release": (schema.ReleaseTerminalRequest, schema.ReleaseTerminalResponse),
    "elicitation/create": (
        (schema.CreateFormSessionElicitationRequest, schema.CreateUrlSessionElicitationRequest),
        (schema.AcceptElicitationResponse, schema.DeclineElicitationResponse),
    ),
    "elicitation/complete": (schema.CompleteElicitationNotification, None),
}

# Newer than the schema the SDK was made from; it reads past them.
NEWER = {
    "clientCapabilities.session.compaction",
    "clientCapabilities.session.notices",
    "clientCapabilities.subagents",
}

LETTER = {"path": "letter.txt", "content": "dear\nreader\n"}
COMMAND = {"command": "/bin/sh", "args": ["-c", "echo hi"], "env": {"A": "b"}, "output_byte_limit": 10}
SLEEP = {"command": "/bin/sh", "args": ["-c", "echo hi; exec sleep 60"]}


def unread(value: Any, models: Any) -> set[str]:
    """The places of a value that none of the SDK's models takes over as they are."""
    if not isinstance(models, tuple):
        models = (models,)
    return min((_unread_by(model, value) for model in models), key=len)


def _unread_by(model: Any, value: Any) -> set[str]:
    try:
        kept = model.model_validate(value).model_dump(mode="json", by_alias=True, exclude_unset=True)
    except ValueError as exc:
        return {f"refused: {exc}"}
    return set(_differences(value, kept, ""))


def _differences(sent: Any, kept: Any, place: str) -> Iterator[str]:
    if isinstance(sent, dict) and isinstance(kept, dict):
        for name in sent.keys() | kept.keys():
            yield from _differences(sent.get(name, ...), kept.get(name, ...), f"{place}.{name}".lstrip("."))
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        for index, (one, other) in enumerate(zip(sent, kept, strict=True)):
            yield from _differences(one, other, f"{place}[{index}]")
    elif sent != kept:
        yield place


def lost(sent: list[Any], heard: list[Any], ours: Any, theirs: Any) -> set[str]:
    """The places in what we sent that the SDK does not take over, given the methods we call and those we answer."""
    asked = {frame["id"]: frame["method"] for frame in heard if "method" in frame and "id" in frame}
    places: set[str] = set()
    for frame in sent:
        if "method" in frame:
            places |= unread(frame["params"], ours[frame["method"]][0])
        elif "result" in frame:
            places |= unread(frame["result"], theirs[asked[frame["id"]]][1])
        else:
            places |= unread(frame["error"], schema.Error)
    return places


def called(frames: list[Any]) -> set[str]:
    return {frame["method"] for frame in frames if "method" in frame}


async def test_the_sdk_reads_all_that_our_client_sends(tmp_path: Path):
    async with sdk_agent(tmp_path) as agent:
        await drive(agent.client, tmp_path)
    sent = [json.loads(frame) for frame in agent.wire.sent]
    heard = [json.loads(frame) for frame in agent.wire.heard]
    assert called(sent) == set(TO_AGENT)
    assert called(heard) == set(TO_CLIENT)
    assert lost(sent, heard, TO_AGENT, TO_CLIENT) == NEWER


async def drive(client: Any, folder: Path) -> None:
    """Everything our client can ask of an SDK agent, and everything such an agent can ask of it."""
    assert isinstance(client, Editor)
    client.answer, client.filled_in = choose("yes"), {"name": "Ada", "age": 36}
    await client.authenticate("token")
    session = await client.new_session(
        folder,
        additional_directories=[folder],
        mcp_servers=[
            s.McpServerStdio(name="a", command="/a", args=[], env=[]),
            s.McpServerHttp(name="b", url="https://b.test", headers=[]),
            s.McpServerSse(name="c", url="https://c.test", headers=[]),
        ],
        meta={"trace": "t"},
    )
    await session.set_mode("code")
    await session.set_config_option("model", "large")
    await session.set_config_option("verbose", True)
    await play(session, "echo", s.ImageContent(data="", mime_type="image/png"), s.ResourceLink(name="r", uri="r:"))
    letter = {**LETTER, "path": str(folder / LETTER["path"])}
    await play(session, "write", **letter)
    await play(session, "read", path=letter["path"], line=1, limit=1)
    await play(session, "run", **COMMAND)
    await play(session, "kill", **SLEEP)
    for verb in ("updates", "ask", "fill"):
        await play(session, verb)
    await play(session, "visit", url="https://v.test/")
    client.answer = client.filled_in = None
    await play(session, "ask")
    await play(session, "fill")
    turn = session.prompt("wait")
    await anext(turn)
    session.cancel()
    await turn
    await client.list_sessions(folder)
    forked = await session.fork(folder)
    await client.load_session(session.id, folder)
    await client.resume_session(session.id, folder)
    await forked.close()


async def test_the_sdk_reads_all_that_our_agent_sends(tmp_path: Path):
    (tmp_path / "letter.txt").write_text("dear\nreader\n")
    async with dragoman_agent(tmp_path) as agent:
        await be_driven(agent)
    sent, heard = [
        [event.message for event in agent.frames if event.direction.value == direction]
        for direction in ("incoming", "outgoing")
    ]
    assert called(sent) == set(TO_CLIENT)
    assert called(heard) == set(TO_AGENT)
    assert lost(sent, heard, TO_CLIENT, TO_AGENT) == set()


async def be_driven(agent: Any) -> None:
    """Everything the SDK's client can ask of our agent, and everything our agent can ask of it."""
    connection, editor, session_id = agent.connection, agent.editor, agent.opened.session_id
    here = {"cwd": str(agent.directory)}
    editor.choice, editor.filled_in = "yes", {"name": "Ada"}
    await connection.authenticate("token")
    await connection.set_session_mode(session_id, "code")
    await connection.set_config_option(config_id="model", session_id=session_id, value="large")
    await connection.set_config_option(config_id="verbose", session_id=session_id, value=True)
    await agent.play("echo", acp.image_block("", "image/png"), acp.resource_link_block("r", "r:"))
    await agent.play("write", **LETTER)
    await agent.play("read", path="letter.txt", line=1, limit=1)
    await agent.play("run", **COMMAND)
    await agent.play("kill", **SLEEP)
    for verb in ("updates", "ask", "fill", "meta"):
        await agent.play(verb)
    await agent.play("visit", url="https://v.test/")
    await connection.cancel(session_id)
    await connection.list_sessions()
    forked = await connection.fork_session(session_id=session_id, **here)
    await connection.load_session(session_id=session_id, **here)
    await connection.resume_session(session_id=session_id, **here)
    await connection.close_session(forked.session_id)


@pytest.mark.parametrize(
    ("value", "lost"),
    [
        ({"stopReason": "end_turn"}, set()),
        ({"stopReason": "end_turn", "new": 1}, {"new"}),
        ({"stopReason": "end_turn", "usage": "much"}, {"usage"}),
        ({"stopReason": "end_turn", "usage": None}, set()),
    ],
)
def test_a_place_the_sdk_leaves_out_is_noticed(value, lost):
    assert unread(value, schema.PromptResponse) == lost


def test_a_value_the_sdk_refuses_is_noticed():
    (refusal,) = unread({"stopReason": "tired"}, schema.PromptResponse)
    assert refusal.startswith("refused")
