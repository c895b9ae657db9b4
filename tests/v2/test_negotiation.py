"""Who speaks which version: picked at `initialize`, without a word from the author on either side."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

import dragoman
from dragoman import RpcError
from dragoman.agent.serving import serve_on
from dragoman.dialects.v2.handshake import is_version_2_answer
from dragoman.testing import RawWire, RecordingClient, Testy
from dragoman.transports.memory import pipe

INFO = {"name": "n", "version": "1"}


@contextlib.asynccontextmanager
async def spoken_to(app: Any = Testy, **options: Any) -> AsyncIterator[RawWire]:
    """An agent of ours, to be spoken to by hand."""
    ours, theirs = pipe()
    serving = asyncio.create_task(serve_on(app, theirs, **options))
    wire = RawWire(ours)
    try:
        async with asyncio.timeout(10):
            yield wire
    finally:
        await wire.hang_up()
        await serving


@contextlib.asynccontextmanager
async def greeted(*answers: Any, **options: Any) -> AsyncIterator[tuple[RawWire, "asyncio.Task[Any]"]]:
    """A client of ours that connects, and the other end of its wire, where each greeting gets the next answer."""
    ours, theirs = pipe()
    wire = RawWire(theirs)
    done = asyncio.Event()

    async def connecting() -> dragoman.Client:
        async with dragoman.connect(ours, RecordingClient(), **options) as client:
            connected.set_result(client)
            await done.wait()
            return client

    connected: asyncio.Future[dragoman.Client] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(connecting())
    try:
        async with asyncio.timeout(10):
            for answer in answers:
                request = await wire.receive()
                wire.greeting = request["params"]
                wire.send({"id": request["id"], **answer})
            await asyncio.wait([task, connected], return_when=asyncio.FIRST_COMPLETED)
            yield wire, task
    finally:
        done.set()
        with contextlib.suppress(RpcError, dragoman.AgentStartError):
            await task
        await wire.hang_up()


# A client of version 2


async def test_a_client_of_version_2_is_answered_in_its_version():
    async with spoken_to() as wire:
        hello = await wire.request("initialize", {"protocolVersion": 2, "info": INFO, "capabilities": {}})
        assert hello["result"]["protocolVersion"] == 2
        assert hello["result"]["info"]["name"] == "testy"
        assert hello["result"]["capabilities"]["session"]["mcp"] == {"stdio": {}, "http": {}, "acp": {}}
        assert hello["result"]["authMethods"][0]["methodId"] == "key"


async def test_a_later_version_is_answered_with_the_highest_there_is():
    async with spoken_to() as wire:
        hello = await wire.request("initialize", {"protocolVersion": 99, "info": INFO})
        assert hello["result"]["protocolVersion"] == 2


async def test_a_client_of_version_1_is_not_translated():
    async with spoken_to() as wire:
        assert (await wire.initialize())["result"]["protocolVersion"] == 1
        assert "result" in await wire.request("session/new", {"cwd": "/", "mcpServers": []})


async def test_an_agent_that_is_to_speak_version_2_says_what_it_supports():
    async with spoken_to(dialect="v2") as wire:
        error = (await wire.initialize())["error"]
        assert (error["code"], error["data"]) == (-32022, {"requested": 1, "supported": [2]})
        hello = await wire.request("initialize", {"protocolVersion": 2, "info": INFO})
        assert hello["result"]["protocolVersion"] == 2


@pytest.mark.parametrize("method", ["authenticate", "session/load", "session/set_mode"])
async def test_what_version_2_no_longer_has_is_not_there(method: str):
    async with spoken_to() as wire:
        await wire.request("initialize", {"protocolVersion": 2, "info": INFO})
        answer = await wire.request(method, {"sessionId": "s", "cwd": "/", "mcpServers": []})
        assert answer["error"]["code"] == -32601


async def test_the_logins_have_new_names():
    async with spoken_to() as wire:
        await wire.request("initialize", {"protocolVersion": 2, "info": INFO})
        assert (await wire.request("auth/login", {"methodId": "key"}))["result"] == {}
        assert (await wire.request("auth/logout"))["result"] == {}


# An agent of version 2


OLD = {"result": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}}
NEW = {"result": {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}}}


def refusal(code: int) -> dict[str, Any]:
    return {"error": {"code": code, "message": "no", "data": {"requested": 1, "supported": [2]}}}


@pytest.mark.parametrize("code", [-32022, -32602, -32600])
async def test_an_agent_that_refuses_version_1_is_greeted_in_version_2(code: int):
    async with greeted(refusal(code), NEW) as (wire, task):
        assert (wire.greeting["protocolVersion"], wire.greeting["info"]["name"]) == (2, "recording-client")
    assert (await task).dialect == "v2"


async def test_an_agent_that_answers_with_version_2_is_greeted_again_in_it():
    async with greeted(NEW, NEW) as (wire, task):
        assert wire.greeting["protocolVersion"] == 2
    client = await task
    assert client.agent_capabilities.load_session
    assert client.agent_capabilities.session_capabilities.list is not None


async def test_an_agent_that_has_both_is_spoken_to_in_version_1():
    async with greeted(OLD) as (wire, task):
        assert wire.greeting["clientCapabilities"]["terminal"] is True
    assert (await task).dialect == "v1"


@pytest.mark.parametrize(
    "answer",
    [{}, {"agentCapabilities": {}}, {"info": INFO, "agentCapabilities": {}}, {"info": "n"}, {"agentInfo": INFO}],
)
async def test_an_agent_that_repeats_version_2_and_answers_as_version_1_does_is_spoken_to_in_version_1(
    answer: Any,
):
    echo = {"result": {"protocolVersion": 2, **answer}}
    assert not is_version_2_answer(echo["result"])  # or the client waits for what only version 2 says
    async with greeted(echo, echo, dialect="v2") as (wire, task):
        assert "clientCapabilities" in wire.greeting
    assert (await task).dialect == "v1"


async def test_an_agent_that_refuses_both_is_given_up():
    async with greeted(refusal(-32022), refusal(-32022)) as (_, task):
        with pytest.raises(RpcError, match="no"):
            await task


async def test_a_client_that_wants_version_2_falls_back_and_then_offers_all_it_has():
    async with greeted(OLD, OLD, dialect="v2") as (wire, task):
        assert wire.greeting["clientCapabilities"]["fs"]["readTextFile"] is True
    client = await task
    assert (client.dialect, client.agent_capabilities.load_session) == ("v1", True)
