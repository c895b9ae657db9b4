"""The agent as a process of its own: killed and loaded again, driven by the official SDK, without any model."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import AuthRequired, Client, connect
from dragoman import schema as s
from dragoman.errors import ConnectionClosed
from dragoman.transports.process import spawn

from .desk import DiskClient, calls, said, updates
from .model_servers import Answer, Anthropic, ModelServer, Ollama, OpenAIChat, answer
from .test_task import FIXED, project, steps, texts

__all__ = ["project"]
pytestmark = pytest.mark.usefixtures("nothing_left")

AGENT = [sys.executable, "-m", "dragoman", "agent", "coder"]


def environment(home: Path, server: ModelServer | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    return {**kept, "HOME": str(home), **(server.environ if server else {})}


@contextlib.asynccontextmanager
async def coder(
    home: Path, server: ModelServer | None = None, *words: str, client: Client | None = None
) -> AsyncIterator[tuple[Any, Any]]:
    """A client connected to the agent's process, and the process's transport."""
    async with asyncio.timeout(60):
        transport = await spawn([*AGENT, *words], env=environment(home, server))
        async with connect(transport, client or DiskClient()) as connected:
            yield connected, transport


async def test_killed_in_the_middle_of_a_turn_it_is_loaded_and_goes_on(
    project: Path, a_home_of_its_own: Path
) -> None:
    first, second, *rest = steps()
    server = OpenAIChat(first, second, Answer("Now I run", hangs=True), *rest)
    words = ["--model", server.name]
    async with server.running():
        async with coder(a_home_of_its_own, server, *words) as (client, transport):
            session = await client.new_session(project)
            await session.set_mode("code")
            prompt = session.prompt("Make the tests pass.")
            await server.speaking.wait()
            async for _ in prompt:
                if "Now I run" in said(updates(client)):
                    break
            seen = updates(client)
            os.kill(transport.process.pid, signal.SIGKILL)
            with pytest.raises(ConnectionClosed):
                await prompt
        async with coder(a_home_of_its_own, server, *words) as (client, _):
            (info,) = await client.list_sessions()
            assert info.title == "Make the tests pass."
            session = await client.load_session(info.session_id, project)
            assert session.modes.current_mode_id == "code"
            replayed = updates(client)
            kinds = (s.AgentMessageChunk, s.ToolCall)
            assert said(replayed).startswith(said(seen))
            assert [u for u in replayed if isinstance(u, s.ToolCall)] == [
                u for u in seen if isinstance(u, s.ToolCall)
            ]
            assert len([u for u in replayed if isinstance(u, kinds)]) >= 4
            assert not [c for c in calls(client).values() if c["status"] in ("pending", "in_progress")]
            response = await session.prompt("Go on.")
            assert response.stop_reason == "end_turn"
    assert texts(project) == FIXED
    told = server.told()[3]  # the first request after the kill
    assert "Make the tests pass." in told and "Edited calc.py at line 2" in told and "Go on." in told


async def test_without_a_key_a_server_on_this_machine_is_found(project: Path, a_home_of_its_own: Path) -> None:
    server = Ollama(answer("Hello."))
    async with server.running(), coder(a_home_of_its_own, server) as (client, _):
        session = await client.new_session(project)
        await session.prompt("Hi")
    assert "`ollama:qwen3-coder` answers (Ollama runs on this machine)" in said(updates(client))
    assert len(server.requests) == 1


async def test_with_a_key_the_model_is_named_and_why(project: Path, a_home_of_its_own: Path) -> None:
    server = Anthropic(answer("Hello."))
    async with server.running(), coder(a_home_of_its_own, server) as (client, _):
        session = await client.new_session(project)
        await session.prompt("Hi")
    assert "(there is a key for Anthropic in ANTHROPIC_API_KEY)" in said(updates(client))
    assert server.environ["ANTHROPIC_API_KEY"] not in str(client.updates)


async def test_without_any_model_the_reviewer_answers_its_commands_and_nothing_else(
    project: Path, a_home_of_its_own: Path
) -> None:
    (project / "broken.py").write_text("def broken(:\n")
    async with coder(a_home_of_its_own) as (client, _):
        session = await client.new_session(project)
        model = next(option for option in session.config_options if option.id == "model")
        assert model.current_value == "reviewer"
        response = await session.prompt("/review")
        for words in ("Write me a program", "Fix the login", "Review what I did"):
            with pytest.raises(AuthRequired, match=r"no provider's key.*dragoman agent coder --login"):
                await session.prompt(words)
    assert response.stop_reason == "end_turn"
    assert "broken.py" in said(updates(client))
    assert "no language model" in said(updates(client))


@pytest.mark.parametrize("kind", ["read", "reject"])
async def test_the_official_sdks_client_drives_it(kind: str, project: Path, a_home_of_its_own: Path) -> None:
    acp = pytest.importorskip("acp", reason="the official SDK is not installed")
    schema = acp.schema

    class Editor(acp.Client):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.updates: list[Any] = []
            self.asked: list[Any] = []

        async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
            self.updates.append(update)

        async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
            self.asked.append(tool_call)
            option = "reject" if kind == "reject" else "allow"
            outcome = schema.AllowedOutcome(outcome="selected", option_id=option)
            return schema.RequestPermissionResponse(outcome=outcome)

        async def read_text_file(self, session_id: str, path: str, **_: Any) -> Any:
            return schema.ReadTextFileResponse(content=Path(path).read_text())

        async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
            Path(path).write_text(content)

    offers = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True))
    server, before = OpenAIChat(*steps()), texts(project)
    async with asyncio.timeout(60), server.running():
        editor = Editor()
        async with acp.spawn_agent_process(
            editor,
            *AGENT,
            "--model",
            server.name,
            env=environment(a_home_of_its_own, server),
            use_unstable_protocol=True,
        ) as (connection, _process):
            await connection.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=offers)
            opened = await connection.new_session(cwd=str(project), mcp_servers=[])
            assert [mode.id for mode in opened.modes.available_modes] == ["ask", "code", "architect", "plan"]
            prompt = [acp.text_block("Make the tests pass.")]
            response = await connection.prompt(session_id=opened.session_id, prompt=prompt)
            listed = await connection.list_sessions(cwd=str(project))
    assert response.stop_reason == "end_turn"
    assert {info.title for info in listed.sessions} <= {"Make the tests pass.", "What was asked for"}
    assert texts(project) == (before if kind == "reject" else FIXED)
    assert {call.kind for call in editor.asked} == {"edit", "execute"}


async def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(
    project: Path, a_home_of_its_own: Path
) -> None:
    server = Ollama(Answer("I am thinking about", hangs=True))
    async with server.running():
        async with coder(a_home_of_its_own, server) as (client, transport):
            session = await client.new_session(project)
            session.prompt("Go")
            await server.speaking.wait()
        await asyncio.wait_for(server.hung_up.wait(), 10)
    assert transport.process.returncode is not None


def test_to_answer_initialize_none_of_the_heavy_libraries_is_loaded() -> None:
    program = (
        "import asyncio, sys\n"
        "from dragoman.coder import Coder\n"
        "from dragoman.store import durable\n"
        "from dragoman.testing import raw\n"
        "async def main():\n"
        "    async with raw(durable(Coder)) as wire:\n"
        "        await wire.initialize()\n"
        "asyncio.run(main())\n"
        "heavy = {'pydantic', 'pydantic_ai', 'mcp', 'openai', 'anthropic', 'dragoman.host', 'dragoman.reviewer'}\n"
        "print(*sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_the_first_prompt_loads_nothing_of_a_provider(a_home_of_its_own: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
import pydantic
from coder.model_servers import OpenAIResponses, answer
from dragoman.coder import Coder
from dragoman.testing import RecordingClient, pair
import os

async def main():
    server = OpenAIResponses(answer("Here."))
    async with server.running():
        os.environ.update(server.environ)
        async with pair(lambda remote: Coder(remote, model=server.name), RecordingClient()) as client:
            session = await client.new_session(Path.home())
            await session.prompt(f"/model {server.name}")  # by now the user has typed something
            there, built = set(sys.modules), []
            rebuild = pydantic.BaseModel.model_rebuild.__func__
            pydantic.BaseModel.model_rebuild = classmethod(
                lambda kind, **rest: (built.append(kind), rebuild(kind, **rest))[1]
            )
            await session.prompt("Hi")
            assert len(server.requests) == 1
            loaded = {name for name in set(sys.modules) - there if not name.startswith("dragoman")}
            print(len(built), *sorted(loaded))

asyncio.run(main())
"""
    tests = str(Path(__file__).parent.parent)
    env = {**os.environ, "HOME": str(a_home_of_its_own), "PYTHONPATH": tests}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, env=env
    )
    assert done.returncode == 0, done.stderr
    built, *loaded = done.stdout.split()
    assert int(built) < 10 and loaded == []  # about 60 otherwise
