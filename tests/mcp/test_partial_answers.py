"""Answers of MCP servers that come in pieces, cut off, under another id, twice, or too late: by real processes."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from coder.desk import desk, results
from test_servers import reached

from dragoman import schema as s
from dragoman.coder import call
from dragoman.mcp import McpFailure, servers

pytestmark = pytest.mark.usefixtures("nothing_left")

PROGRAM = str(Path(__file__).with_name("partial_server.py"))
KINDS = ["stdio", "json", "events"]
OUTCOMES = {  # of each tool: what is given, or why it failed; over stdio, as JSON over HTTP, as events over HTTP
    "pieces": ("in pieces: é€😀", "in pieces: é€😀", "in pieces: é€😀"),
    "cut": ("cannot be read", "it broke off", "ended without a response"),
    "other_id": (
        "timed out; the server answered what nobody asked, with the id '1000000'",
        "another request",
        "for nobody",
    ),
    "other_kind_of_id": ("as a text", "as a text", "as a text"),
    "twice": ("once", "not one message", "once"),
    "twice_and_different": ("first", "not one message", "first"),
}
FAILED = {("cut", kind) for kind in KINDS} | {
    ("other_id", "stdio"),
    ("other_id", "json"),
    ("twice", "json"),
    ("twice_and_different", "json"),
}


@contextlib.asynccontextmanager
async def partial(kind: str) -> AsyncIterator[s.McpServer]:
    """The server, started here if it is one of HTTP."""
    if kind == "stdio":
        yield s.McpServerStdio(name="partial", command=sys.executable, args=[PROGRAM], env=[])
        return
    process = await asyncio.create_subprocess_exec(sys.executable, PROGRAM, kind, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout
        port = int(await process.stdout.readline())
        yield s.McpServerHttp(name="partial", url=f"http://127.0.0.1:{port}/mcp", headers=[])
    finally:
        process.kill()
        await process.communicate()


async def outcome(called: Any) -> tuple[bool, str]:
    try:
        result = await called
    except McpFailure as exc:
        return True, str(exc)
    return False, result.text


@pytest.mark.parametrize("tool", OUTCOMES)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_is_not_as_it_should_be_is_the_affair_of_its_call(
    kind: str, tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call beside it, and those after it, have their own answers."""
    monkeypatch.setattr(servers, "CALL", 5.0)
    async with partial(kind) as config, reached(config, tmp_path) as server:
        before = (await server.call("greet", {})).text
        beside = asyncio.create_task(outcome(server.call("late", {})))
        await server.call("greet", {})  # so that it is under way
        if tool == "other_id":
            monkeypatch.setattr(servers, "CALL", 0.5)
        has_failed, words = await outcome(server.call(tool, {}))
        assert OUTCOMES[tool][KINDS.index(kind)] in words
        assert has_failed == ((tool, kind) in FAILED)
        monkeypatch.setattr(servers, "CALL", 5.0)
        after = [(await server.call(name, {})).text for name in ("released", "greet")]
        if (tool, kind) == ("cut", "stdio"):  # the process is gone, and there is another
            assert (await beside)[0]
            assert after[1].startswith("hello") and after[1] != before
        else:
            assert after == ["released", before]
            assert await beside == (False, "too late")


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_to_a_call_that_was_cancelled_is_given_to_nobody(kind: str, tmp_path: Path) -> None:
    async with partial(kind) as config, reached(config, tmp_path) as server:
        before = await server.call("greet", {})
        calling = asyncio.create_task(server.call("late", {}))
        await server.call("greet", {})
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert (await server.call("released", {})).text == "released"
        assert [await server.call("greet", {}) for _ in range(5)] == [before] * 5


@pytest.mark.parametrize("kind", KINDS)
async def test_the_session_goes_on_and_the_model_is_told_what_happened(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "CALL", 2.0)
    steps = [call(f"mcp__partial__{tool}") for tool in OUTCOMES]
    async with partial(kind) as config:
        options = {"mcp_servers": [config]}
        async with desk(tmp_path, *steps, "Done.", call("mcp__partial__greet"), "Still here.", options=options) as (
            session,
            _,
            model,
        ):
            for _ in range(2):
                assert (await session.prompt("Go")).stop_reason == "end_turn"
    told = results(model)
    assert [how == "failed" for _, how, _ in told] == [*((tool, kind) in FAILED for tool in OUTCOMES), False]
    for (_, _, words), tool in zip(told, OUTCOMES, strict=False):
        assert OUTCOMES[tool][KINDS.index(kind)] in words
    assert told[-1][2].startswith("hello from")
