"""The official MCP client drives an agent through `dragoman mcp`: stdio and HTTP, both generations of MCP."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from patience import PATIENCE

WAYS = [("stdio", "legacy"), ("stdio", "auto"), ("http", "legacy"), ("http", "auto")]


LINKS = """
from dragoman import Agent, schema, serve

class Links(Agent):
    async def answer(self, turn):
        await turn.say(*[block.uri for block in turn.prompt if isinstance(block, schema.ResourceLink)])

serve(Links)
"""


class User:
    """Answers forms with the option whose id is set; None declines."""

    def __init__(self, decision: str | None = "allow_once") -> None:
        self.decision = decision
        self.asked: list[Any] = []
        self.asking = asyncio.Event()

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        self.asking.set()
        if self.decision == "never":
            await asyncio.Event().wait()
        if self.decision is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"decision": self.decision})


@asynccontextmanager
async def driven(
    directory: Path, way: tuple[str, str], user: User | None = None, agent: str = "testy", **options: Any
) -> AsyncIterator[Client]:
    wire, mode = way
    work = directory / "work"
    work.mkdir(exist_ok=True)
    homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    words = ["-I", "-m", "dragoman", "mcp", "--agent", agent, "--workspace", str(work)]
    if wire == "stdio":
        server = StdioServerParameters(command=sys.executable, args=words, env={**os.environ, **homes})
        async with Client(server, mode=mode, elicitation_callback=user, **options) as client:  # type: ignore[arg-type]
            yield client
        return
    with subprocess.Popen(
        [sys.executable, *words, "--http", "--port", "0"],
        stdout=subprocess.PIPE,
        env={**os.environ, **homes},
        text=True,
    ) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        token = Path(process.stdout.readline().removeprefix("token: ").strip()).read_text()
        try:
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
                reached = streamable_http_client(url, http_client=http)
                async with Client(reached, mode=mode, elicitation_callback=user, **options) as client:  # type: ignore[arg-type]
                    yield client
        finally:
            process.terminate()
            assert process.wait(PATIENCE) == 0


async def call(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.mark.parametrize("way", WAYS, ids="-".join)
async def test_an_mcp_host_has_a_whole_conversation_with_permission(tmp_path: Path, way: tuple[str, str]) -> None:
    user, told = User(), []
    file = tmp_path / "work" / "new.txt"

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with driven(tmp_path, way, user) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= {"start_session", "prompt", "cancel"}
        session = (await call(client, "start_session"))["sessionId"]
        arguments = {"sessionId": session, "text": "tool\necho Hello"}
        result = await client.call_tool("prompt", arguments, progress_callback=progress)
        assert result.structured_content["stopReason"] == "end_turn"
        assert result.structured_content["text"].endswith("Hello")
        assert told[-1] == "Hello"
        assert [one["status"] for one in result.structured_content["toolCalls"]] == ["completed"]
        links = [block.uri for block in result.content if isinstance(block, types.ResourceLink)]
        assert links == result.structured_content["resources"]
        [diff] = (await client.read_resource(links[0])).contents
        assert "-a = 1" in diff.text and "+a = 2" in diff.text
        assert links[0] in [str(one.uri) for one in (await client.list_resources()).resources]

        user.decision = None
        refused = await client.call_tool("prompt", {"sessionId": session, "text": f"write {file} words"})
        assert refused.is_error and "not permitted" in refused.content[0].text
        assert not file.exists()
        user.decision = "allow_once"
        await call(client, "prompt", sessionId=session, text=f"write {file} words")
        assert file.read_text() == "words"
        assert len(user.asked) == 2 and str(file) in user.asked[0].message


@pytest.mark.parametrize("way", WAYS[:2], ids="-".join)
async def test_a_host_that_cannot_ask_its_user_permits_nothing(tmp_path: Path, way: tuple[str, str]) -> None:
    file = tmp_path / "work" / "new.txt"
    async with driven(tmp_path, way) as client:
        refused = await client.call_tool("prompt", {"text": f"write {file} words"})
        assert refused.is_error and "not permitted" in refused.content[0].text
        assert not file.exists()


async def test_files_are_mentioned_by_their_place_in_the_workspace(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(LINKS)
    async with driven(tmp_path, WAYS[0], agent=f"{sys.executable} {agent}") as client:
        said = (await call(client, "prompt", text="x", files=["a b.py"]))["text"]
        assert said == (tmp_path / "work" / "a b.py").as_uri()


async def test_sessions_are_listed_loaded_forked_and_set(tmp_path: Path) -> None:
    async with driven(tmp_path, WAYS[0]) as client:
        first = await call(client, "start_session")
        await call(client, "prompt", sessionId=first["sessionId"], text="echo remembered")
        second = await call(client, "start_session")
        assert second["sessionId"] != first["sessionId"]
        listed = (await call(client, "list_sessions"))["sessions"]
        assert {one["sessionId"] for one in listed} == {first["sessionId"], second["sessionId"]}
        assert await call(client, "set_mode", sessionId=second["sessionId"], mode="plan") == {"mode": "plan"}
        options = (await call(client, "set_option", sessionId=second["sessionId"], option="model", value="large"))[
            "options"
        ]
        assert next(one["currentValue"] for one in options if one["id"] == "model") == "large"
        forked = await call(client, "fork_session", sessionId=first["sessionId"])
        assert forked["sessionId"] not in (first["sessionId"], second["sessionId"])
        assert await call(client, "close_session", sessionId=first["sessionId"]) == {"closed": True}
        loaded = await call(client, "load_session", sessionId=first["sessionId"])
        assert {"speaker": "agent", "text": "remembered"} in loaded["messages"]


async def test_cancel_ends_one_session_and_leaves_the_other(tmp_path: Path) -> None:
    async with driven(tmp_path, WAYS[0]) as client:
        waiting, other = [(await call(client, "start_session"))["sessionId"] for _ in range(2)]
        begun = asyncio.Event()

        async def progress(*_: Any) -> None:
            begun.set()

        arguments = {"sessionId": waiting, "text": "echo begun\nwait"}
        turn = asyncio.create_task(client.call_tool("prompt", arguments, progress_callback=progress))
        await asyncio.wait_for(begun.wait(), PATIENCE)
        again = await client.call_tool("prompt", {"sessionId": waiting, "text": "echo x"})
        assert again.is_error and "a turn runs" in again.content[0].text
        assert (await call(client, "prompt", sessionId=other, text="echo fine"))["text"] == "fine"
        assert await call(client, "cancel", sessionId=waiting) == {"cancelled": True}
        assert (await turn).structured_content["stopReason"] == "cancelled"
        assert await call(client, "cancel", sessionId=waiting) == {"cancelled": False}


async def test_a_call_that_the_host_cancels_cancels_the_turn(tmp_path: Path) -> None:
    async with driven(tmp_path, WAYS[0], user := User("never")) as client:
        session = (await call(client, "start_session"))["sessionId"]
        arguments = {"sessionId": session, "text": "ask allow_once reject_once"}
        turn = asyncio.create_task(client.call_tool("prompt", arguments))
        await asyncio.wait_for(user.asking.wait(), PATIENCE)
        turn.cancel()
        await asyncio.wait([turn])
        while "a turn runs" in str(result := await client.call_tool("prompt", {**arguments, "text": "echo on"})):
            pass  # it is just ending
        assert result.structured_content["text"] == "on"


async def test_mistakes_are_told_in_a_sentence(tmp_path: Path) -> None:
    async with driven(tmp_path, WAYS[0]) as client:
        for name, arguments, told in (
            ("prompt", {"sessionId": "nope", "text": "x"}, "is not open"),
            ("start_session", {"cwd": "/etc"}, "outside the workspace"),
            ("start_session", {"cwd": "missing"}, "no directory"),
            ("prompt", {}, "missing required field `text`"),
            ("prompt", {"text": 5}, "Expected `str`, got `int`"),
            ("prompt", {"text": "x", "files": "a.py"}, "Expected `array | null`, got `str`"),
            ("prompt", {"text": "x", "session": "s"}, "unknown field `session`"),
            ("no_such_tool", {}, "there is no tool 'no_such_tool'; there are: start_session, prompt"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error and told in result.content[0].text


async def test_an_agent_that_dies_is_told_and_started_again(tmp_path: Path) -> None:
    async with driven(tmp_path, WAYS[0]) as client:
        result = await client.call_tool("prompt", {"text": "crash 3"})
        assert result.is_error and "3" in result.content[0].text
        assert (await call(client, "prompt", text="echo alive"))["text"] == "alive"


async def test_an_agent_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    async with driven(tmp_path, WAYS[0], agent="no-such-program") as client:
        result = await client.call_tool("start_session", {})
        assert result.is_error and "no-such-program" in result.content[0].text


async def test_http_is_for_the_holder_of_the_token_and_for_nobody_elses_page(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    homes = {name: str(tmp_path / name) for name in ("HOME", "XDG_STATE_HOME")}
    words = ["-I", "-m", "dragoman", "mcp", "--agent", "testy", "--workspace", str(tmp_path / "work"), "--http"]
    with subprocess.Popen(
        [sys.executable, *words, "--port", "0"], stdout=subprocess.PIPE, env={**os.environ, **homes}, text=True
    ) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        token = Path(process.stdout.readline().removeprefix("token: ").strip()).read_text()
        good = {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(timeout=PATIENCE) as http:
            assert (await http.post(url, json={})).status_code == 401
            assert (
                await http.post(url, json={}, headers={**good, "origin": "https://evil.example"})
            ).status_code == 403
            assert (await http.post(url, json={}, headers={**good, "host": "evil.example"})).status_code == 421
            assert (await http.post(url + "x", json={}, headers=good)).status_code == 404
        process.terminate()
        assert process.wait(PATIENCE) == 0
