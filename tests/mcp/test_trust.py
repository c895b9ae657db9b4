"""What is approved before a server is started, asked about again when it changed, and never repeated."""

import asyncio
import base64
import logging
import re
import secrets
import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_servers import listening_on

from dragoman import Agent
from dragoman import schema as s
from dragoman.agent.turn import Turn
from dragoman.foundation.directories import state_directory
from dragoman.host.audit.log import AuditLog
from dragoman.host.permissions import Permissions, Rules
from dragoman.mcp import McpFailure
from dragoman.store import Store, durable
from dragoman.testing import RecordingClient, pair

pytestmark = pytest.mark.usefixtures("nothing_left")

PEN = Path(__file__).with_name("pen.py")
PARROT = str(Path(__file__).with_name("parrot.py"))


class Helper(Agent):
    """Calls the tools that a prompt names, one after the other."""

    accepts = ("http", "sse")

    async def answer(self, turn: Turn) -> None:
        async with turn.session.tools() as tools:
            for word in turn.text.split():
                try:
                    if "://" in word:
                        for block in await tools.read(word):
                            await turn.say(block)
                    elif word == "prompt":
                        for message in await tools.prompt("x", "prompt"):
                            await turn.say(message.content)
                    elif word == "list":
                        await turn.say(str([*tools, *tools.prompts(), *await tools.resources()]))
                        await turn.say(str(await tools.templates()))
                    elif word == "complete":
                        await turn.say(str(await tools.complete("x", "prompt", "word", "a")))
                    elif word == "picture":
                        for block in (await tools.call(turn, word)).content:
                            await turn.say(block)
                    else:
                        result = await tools.call(turn, word, {"name": "Ada"})
                        await turn.say(result.text)
                        if result.structured is not None:
                            await turn.say(str(result.structured))
                except McpFailure as exc:
                    await turn.say(str(exc))


def policy(request: s.RequestPermissionRequest) -> str:
    ids = [option.option_id for option in request.options]
    return "allow_until_changed" if "allow_until_changed" in ids else ids[0]


def questions(client: RecordingClient) -> list[str]:
    """What the user was asked about servers, in words."""
    asked = [r.tool_call for r in client.requests if isinstance(r, s.RequestPermissionRequest)]
    servers = [call for call in asked if "MCP server" in (call.title or "")]
    shown = [content for call in servers for content in call.content or ()]
    return [c.content.text for c in shown if isinstance(c, s.Content) and isinstance(c.content, s.TextContent)]


async def asked_about(config: s.McpServer, cwd: Path) -> tuple[list[str], str]:
    """What the user is asked of a server in a new process of the agent, and what the agent says."""
    client = RecordingClient(permissions=policy)
    async with pair(Helper, client) as connected:
        session = await connected.new_session(cwd, mcp_servers=[config])
        said = [event async for event in session.prompt("greet")]
    return questions(client), str(said)


async def test_a_server_is_asked_about_once_and_again_when_any_part_of_it_changed(tmp_path: Path) -> None:
    script, program = tmp_path / "server.py", tmp_path / "run"
    script.write_text(PEN.read_text())
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    config = s.McpServerStdio(
        name="pen",
        command=str(program),
        args=["server.py"],
        env=[s.EnvVariable(name="A_TOKEN", value="hunter2222")],
    )
    ((first,), said) = await asked_about(config, tmp_path)
    assert str(program) in first and "server.py" in first and "A_TOKEN" in first and "Hello, Ada!" in said
    assert "hunter2222" not in first
    assert (await asked_about(config, tmp_path))[0] == []
    another = s.EnvVariable(name="A_TOKEN", value="another")
    changes: list[tuple[str, Any, str]] = [
        ("script", PEN.read_text() + "\n", "its file server.py"),
        ("program", program.read_text() + "\n", "its program"),
        ("args", ["server.py", "-v"], "its arguments"),
        ("env", [another], "its variable A_TOKEN"),
        ("env", [], "its variable A_TOKEN"),
        ("command", "./run", "its command"),
    ]
    files = {"script": script, "program": program}
    for part, value, named in changes:
        if part in files:
            files[part].write_text(value)
        else:
            config = msgspec.structs.replace(config, **{part: value})
        ((again,), said) = await asked_about(config, tmp_path)
        assert f"since then this has changed: {named}." in again and "Hello, Ada!" in said
        assert (await asked_about(config, tmp_path))[0] == []
    stored = state_directory() / "mcp_servers.json"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert "hunter2222" not in stored.read_text() and "server.py -v" not in stored.read_text()


async def test_a_server_that_is_refused_is_not_started_and_the_session_goes_on(tmp_path: Path) -> None:
    trace = tmp_path / "started"
    program = f"open({str(trace)!r}, 'w')"
    config = s.McpServerStdio(name="pen", command=sys.executable, args=["-c", program], env=[])
    client = RecordingClient(permissions="reject")
    async with pair(Helper, client) as connected:
        session = await connected.new_session(tmp_path, mcp_servers=[config])
        said = str([event async for event in session.prompt("greet")])
    assert "the user did not allow the MCP server 'pen'" in said and not trace.exists()


async def test_a_program_that_changed_after_the_server_died_is_asked_about_before_it_is_started_again(
    tmp_path: Path,
) -> None:
    script = tmp_path / "server.py"
    rogue = PEN.with_name("rogue_server.py").read_text()
    script.write_text(rogue)
    config = s.McpServerStdio(name="r", command=sys.executable, args=[str(script)], env=[])
    client = RecordingClient(permissions=policy)
    async with pair(Helper, client) as connected:
        session = await connected.new_session(tmp_path, mcp_servers=[config])
        await session.prompt("greet die")
        script.write_text(rogue + "\n")
        said = str([event async for event in session.prompt("greet")])
    assert len(questions(client)) == 2 and "has changed: its file" in questions(client)[1] and "Hello from" in said


async def test_a_server_that_floods_lies_changes_and_dies_costs_the_session_nothing(tmp_path: Path) -> None:
    program = str(PEN.with_name("rogue_server.py"))
    config = s.McpServerStdio(name="r", command=sys.executable, args=[program], env=[])
    client = RecordingClient(permissions=policy)
    async with pair(Helper, client) as connected, asyncio.timeout(120):
        session = await connected.new_session(tmp_path, mcp_servers=[config])
        said = []
        for prompt in ("flood", "lie", "learn", "learned", "die", "greet"):
            events = [event async for event in session.prompt(prompt)]
            chunks = [event.content for event in events if isinstance(event, s.AgentMessageChunk)]
            said.append("".join(chunk.text for chunk in chunks if isinstance(chunk, s.TextContent)))
    flood, lie, learn, learned, die, greet = said
    assert flood == "done" and learn == "done" and learned.startswith("Hello") and greet.startswith("Hello")
    assert lie.startswith("r/lie failed: ") and "many" in lie
    assert die.startswith(("r/die failed", "the MCP server"))
    assert len([u for u in client.updates if isinstance(u.update, s.ToolCallUpdated) and u.update.title]) < 1000


# Calls


async def test_the_users_rules_forbid_a_tool_to_every_agent(tmp_path: Path) -> None:
    (tmp_path / ".dragoman").mkdir()
    rules = tmp_path / ".dragoman" / "permissions.toml"
    rules.write_text('[[deny]]\noperation = "mcp_tool"\nserver = "pen"\ntool = "greet"\nreason = "no greetings"\n')
    config = s.McpServerStdio(name="pen", command=sys.executable, args=[str(PEN)], env=[])
    client = RecordingClient(permissions=policy)
    async with pair(Helper, client) as connected:
        session = await connected.new_session(tmp_path, mcp_servers=[config])
        said = str([event async for event in session.prompt("greet fail")])
    assert "a rule of the user forbids pen/greet: no greetings" in said and "it cannot be done" in said
    titles = [r.tool_call.title for r in client.requests if isinstance(r, s.RequestPermissionRequest)]
    assert titles[1:] == ["pen: fail"]


async def test_the_engine_of_a_client_reads_a_claim_about_a_tool_as_the_call_of_it(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('[[deny]]\noperation = "mcp_tool"\nserver = "my__pen"\ntool = "greet"\n')
    written: list[Any] = []

    async def audit(event: Any) -> None:
        written.append(event)

    engine = Permissions("allow-all", Rules.load(file), audit=audit)
    for name, outcome in (("mcp__my__pen__greet", "reject"), ("mcp__my__pen__write", "allow")):
        call = s.ToolCallUpdate(tool_call_id="1", title="a tool", name=name, raw_input={})
        options = [
            s.PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
            s.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
        ]
        asked = s.RequestPermissionRequest(session_id="s", tool_call=call, options=options)
        assert getattr((await engine.answer(asked, workspace=tmp_path)).outcome, "option_id", None) == outcome
    assert "my__pen/greet" in written[0]["claims"]["mcp_tool"]


# Credentials


def planted(count: int) -> list[str]:
    return [secrets.token_urlsafe(24) for _ in range(count)]


async def test_no_planted_secret_is_in_any_transcript_log_or_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    variables, words, headers, queries = (planted(25) for _ in range(4))
    env = [s.EnvVariable(name=f"SERVICE_{i}_TOKEN", value=value) for i, value in enumerate(variables)]
    args = [part for i, v in enumerate(words) for part in ([f"--token={v}"] if i % 2 else ["--api-key", v])]
    config = s.McpServerStdio(name="x", command=sys.executable, args=[PARROT, *args], env=env)
    dying = s.McpServerStdio(name="y", command=sys.executable, args=[PARROT, *args, "--die"], env=env)
    seen: list[str] = []
    cwd = tmp_path / "work"
    cwd.mkdir()
    log = AuditLog(tmp_path / "audit")

    async def audit(event: Any) -> None:
        await asyncio.to_thread(log.append, event)

    engine = Permissions("allow-all", audit=audit)

    async def decide(request: s.RequestPermissionRequest) -> str | None:
        return getattr((await engine.answer(request)).outcome, "option_id", None)

    async with listening_on(PARROT, "--port") as port:
        query = "&".join(f"key{i}={value}" for i, value in enumerate(queries))
        sent = [s.HttpHeader(name=f"X-Auth-{i}", value=f"Bearer {value}") for i, value in enumerate(headers)]
        remote = s.McpServerHttp(name="x", url=f"http://127.0.0.1:{port}/mcp?{query}", headers=sent)
        for servers in ([config, dying], [remote]):
            client = RecordingClient(permissions=decide, form={"word": "yes"})
            async with (
                pair(durable(Helper, Store(tmp_path / "store.db")), client) as connected,
                asyncio.timeout(120),
            ):
                session = await connected.new_session(cwd, mcp_servers=servers)
                wanted = "list tell fail ask described prompt picture complete"
                wanted += " parrot://text parrot://bytes parrot://of/it"
                events = [event async for event in session.prompt(wanted)]
            assert "described" in str(events) and "parrot" in str(events)
            assert "ImageContent" in str(events) and "AudioContent" in str(events)
            seen += [str(client.updates), str(client.requests), str(events)]
    log.close()
    seen.append(caplog.text)
    files = [path for path in (*state.rglob("*"), *tmp_path.rglob("*")) if path.is_file()]
    assert any("store" in str(path) for path in files) and any("audit" in str(path) for path in files)
    everything = "\n".join(seen).encode() + b"".join(path.read_bytes() for path in files)
    coded = re.findall(rb"[A-Za-z0-9+/]{100,}", everything)  # pictures and sounds
    everything += b"".join(base64.b64decode(data[: len(data) // 4 * 4]) for data in coded)
    assert b"[redacted]" in everything
    found = [secret for secret in (*variables, *words, *headers, *queries) if secret.encode() in everything]
    assert len(found) == 0
