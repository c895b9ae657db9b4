"""Agents behind the adapter: what is lent to them, chunks put together, processes that hang or die."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dragoman import AgentStartError, ConnectionClosed, MethodNotFound
from dragoman.bridges.unified import (
    AdapterOptions,
    BackendAdapter,
    BackendCapabilities,
    configuration_change,
    interrupt,
    permission_response,
    reassembled,
    user_message,
)
from dragoman.bridges.unified.queue import ROOM, MessageQueue
from dragoman.testing import RecordingClient

from .unified_agent import PEERS, TESTY, BareAgent, connected, turn, until

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def agent(tmp_path: Path) -> BareAgent:
    return BareAgent(tmp_path)


async def test_a_real_agent_is_driven_from_permission_to_crash(tmp_path: Path) -> None:
    """One session: a question allowed and denied, another model and mode, an interrupt, the end of the process."""
    async with connected(TESTY, tmp_path) as session:
        for behavior, said in (("allow", "Allowed: allow."), ("deny", "Not allowed: reject.")):
            await session.send(user_message("ask"))
            *_, request = await until(session, lambda message: message.type == "permission_request")
            await session.send(permission_response(request.metadata["requestId"], behavior))  # type: ignore[arg-type]
            assert said in [message.text for message in await until(session)]
        await session.send(configuration_change(model="large", mode="plan"))
        words = "".join(message.text for message in await turn(session, "settings"))
        assert '"mode": "plan"' in words and '"model": "large"' in words
        await session.send(user_message("wait"))
        await until(session, lambda message: message.text == "Waiting.")
        await session.send(interrupt())
        *_, result = await until(session)
        assert result.metadata == {"stopReason": "cancelled"}
        await session.send(user_message("crash 3"))
        *_, result, gone = await until(session, lambda message: message.type == "status_change")
        assert result.metadata == {"is_error": True, "error": {"message": "the agent exited with status 3"}}
        assert gone.metadata["exitStatus"] == 3 and "testy crashes as it was told" in gone.metadata["stderr"]
        assert [message async for message in session.messages] == []
        assert not session.is_alive and session.process and not session.process.is_alive
        with pytest.raises(ConnectionClosed):
            await session.send(user_message("hello"))


async def test_ten_thousand_chunks_are_put_together_byte_by_byte(agent: BareAgent, tmp_path: Path) -> None:
    said = "".join(("ä", "日本", "😀\n", '\\"', "x")[number % 5] * (number % 7 + 1) for number in range(10_000))
    async with connected(agent.command, tmp_path) as session:
        await session.send(user_message("chunks 10000"))
        whole = [message async for message in _turn_of(session)]
    assert [message.type for message in whole] == ["session_init", "session_init", "assistant", "result"]
    (block,) = whole[2].content
    assert getattr(block, "text", "").encode() == said.encode()


async def _turn_of(session: Any) -> Any:
    async for message in reassembled(session.messages):
        yield message
        if message.type == "result":
            return


async def test_messages_thoughts_and_tools_are_not_mixed_when_chunks_are_put_together(tmp_path: Path) -> None:
    async with connected(TESTY, tmp_path) as session:
        await session.send(user_message("message\nthought\nimage\ntool\necho again"))
        found = [message async for message in _turn_of(session) if message.role in ("assistant", "tool")]
    kinds = [(each.type, each.text, each.metadata.get("thought", False)) for each in found if each.role != "tool"]
    assert kinds[:2] == [("assistant", "Hello, world.", False), ("assistant", "Let me see.", True)]
    assert kinds[-1] == ("assistant", "again", False)


async def test_a_reader_that_pauses_holds_up_the_agent_and_loses_nothing(tmp_path: Path) -> None:
    count, size = 300, 100_000
    async with connected(TESTY, tmp_path) as session:
        queue, held = session.messages, asyncio.Event()
        assert isinstance(queue, MessageQueue)
        hold = queue._hold
        queue._hold = lambda: (hold(), held.set())[0]
        await session.send(user_message(f"flood {count} {size}"))
        await held.wait()
        assert queue._size < ROOM + 4 * 1024 * 1024
        texts = [message.text for message in await until(session) if message.type == "stream_event"]
    assert [text.split(" ")[0] for text in texts] == [str(number) for number in range(count)]


async def test_who_is_cancelled_while_waiting_for_a_message_has_lost_none(agent: BareAgent, tmp_path: Path) -> None:
    async with connected(agent.command, tmp_path) as session:
        await anext(session.messages), await anext(session.messages)
        waiting = asyncio.ensure_future(anext(session.messages))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        (result,) = await turn(session, "stop end_turn")
    assert result.type == "result"


async def test_an_earlier_session_is_loaded_with_its_history(agent: BareAgent, tmp_path: Path) -> None:
    session = await BackendAdapter(agent.command).connect(
        resume="old", adapter_options=AdapterOptions(cwd=str(tmp_path))
    )
    async with session:
        messages = await turn(session, "stop end_turn")
    assert [(message.type, message.role) for message in messages] == [
        ("stream_event", "user"),
        ("result", "system"),
    ]
    assert agent.asked("session/load")[0]["sessionId"] == "old"


# What an agent is lent


async def test_files_and_terminals_are_lent_through_handlers(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    lent = RecordingClient(files={path: "tea\n"})
    async with connected(TESTY, tmp_path, file_system_handler=lent, terminal_handler=lent) as session:
        for prompt, said in (
            (f"read {path}", "tea\n"),
            (f"write {path} leaf", "Wrote 4 characters."),
            ("run echo hi", "hi\n[exit 0]"),
        ):
            assert said in [message.text for message in await turn(session, prompt)]
    assert lent.files[path] == "leaf" and lent.terminals == []


class Answers:
    """Answers by the names of methods, one of them an extension."""

    methods = ("fs/read_text_file", "_testy/ping")

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    async def handle(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append((method, params))
        return {"pong": 1} if method == "_testy/ping" else {"content": "by name"}


async def test_requests_are_answered_by_name(tmp_path: Path) -> None:
    answers, path = Answers(), str(tmp_path / "a.txt")
    async with connected(TESTY, tmp_path, request_handler=answers) as session:
        assert "by name" in [message.text for message in await turn(session, f"read {path}")]
        assert '{"pong": 1}' in [message.text for message in await turn(session, "request _testy/ping {}")]
    assert [(name, params.get("path")) for name, params in answers.asked] == [
        ("fs/read_text_file", path),
        ("_testy/ping", None),
    ]


async def test_what_nobody_lends_is_not_offered_and_is_refused(agent: BareAgent, tmp_path: Path) -> None:
    async with connected(agent.command, tmp_path):
        offered = agent.asked("initialize")[0]["clientCapabilities"]
    assert "terminal" not in offered and not offered.get("fs")
    async with connected(TESTY, tmp_path) as session:
        *_, result = await turn(session, "request fs/read_text_file {}")
    assert result.metadata["is_error"] and str(MethodNotFound.code) in str(result.metadata["error"])


# The process


async def test_what_the_agent_writes_to_stderr_comes_apart_from_the_messages(
    agent: BareAgent, tmp_path: Path
) -> None:
    heard: list[bytes] = []
    async with connected(agent.command, tmp_path, on_stderr=heard.append) as session:
        await turn(session, "agent_message_chunk")
        assert session.process and session.process.stderr == "the agent has begun\n"
    assert b"".join(heard) == b"the agent has begun\n"


@pytest.mark.parametrize(("send", "status"), [("interrupt", -2), ("terminate", -15), ("kill", -9)])
async def test_an_agent_that_hangs_is_ended_by_a_signal(
    agent: BareAgent, tmp_path: Path, send: str, status: int
) -> None:
    async with connected(agent.command, tmp_path) as session:
        await session.send(user_message("hang"))
        await until(session, lambda message: message.text == "Hanging.")
        assert session.is_alive and session.process and session.process.is_alive
        getattr(session.process, send)()
        *_, gone = await until(session, lambda message: message.type == "status_change")
        assert await session.process.wait() == session.process.exit_status
        assert gone.metadata["exitStatus"] == status
        getattr(session.process, send)()  # nobody is there any more
        assert not session.is_alive


async def test_closing_ends_the_process_and_the_messages(agent: BareAgent, tmp_path: Path) -> None:
    async with connected(agent.command, tmp_path) as session:
        process = session.process
    assert process and not process.is_alive
    assert [message.type async for message in session.messages] == ["session_init", "session_init", "status_change"]


def test_what_a_backend_can_do_is_said() -> None:
    assert BackendAdapter(["agent"]).capabilities == BackendCapabilities()
    assert BackendAdapter("wss://example.com/acp").capabilities.availability == "remote"
    assert not BackendAdapter(["bash"], terminal="always").capabilities.slash_commands


# Programs that do not speak ACP

PROGRAM = [sys.executable, str(PEERS / "program.py")]


async def test_a_program_at_a_terminal_is_driven_by_the_same_messages(tmp_path: Path) -> None:
    session = await BackendAdapter(["bash", "--norc"], terminal="always").connect(
        adapter_options=AdapterOptions(cwd=str(tmp_path), env={"PS1": "$ "})
    )
    async with session:
        assert session.is_at_terminal
        assert next(message.text for message in await turn(session, "echo hi")) == "hi"
        await session.send(user_message("echo begun; sleep 1000"))
        await until(session, lambda message: "begun" in message.text)
        await session.send(interrupt())
        *_, result = await until(session)
        assert result.metadata == {"stopReason": "cancelled"}
        *_, result = await turn(session, "exit 4")
        assert result.metadata["error"]["data"] == {"kind": "program_ended", "exitCode": 4, "signal": None}


async def test_a_program_that_does_not_speak_acp_is_run_at_a_terminal_instead(tmp_path: Path) -> None:
    with pytest.raises(AgentStartError):
        await BackendAdapter(PROGRAM).connect()
    session = await BackendAdapter(PROGRAM, terminal="fallback").connect(
        adapter_options=AdapterOptions(cwd=str(tmp_path))
    )
    async with session:
        assert session.is_at_terminal
        await session.send(user_message("delete"))
        *_, request = await until(session, lambda message: message.type == "permission_request")
        assert request.metadata["toolCall"]["title"] == "Really delete? [y/N]"
        await session.send(permission_response(request.metadata["requestId"], "deny"))
        assert "kept" in "".join(message.text for message in await until(session))
