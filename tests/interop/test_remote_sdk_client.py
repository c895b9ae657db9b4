"""The official SDK's HTTP and WebSocket clients drive an agent behind our endpoint, on our server and on others."""

import asyncio
import gc
import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from remote_server import asgi_server
from sdk import acp, schema
from sdk_editor import CAPABILITIES, INFO, DragomanAgent, SdkEditor

# The SDK's HTTP client leaves its sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)

MIB = 1024 * 1024
SERVED = [
    ("dragoman", "websocket"),
    ("dragoman", "http/1.1"),
    ("dragoman", "http/2"),
    ("uvicorn", "websocket"),
    ("uvicorn", "http/1.1"),
    ("hypercorn", "websocket"),
    ("hypercorn", "http/1.1"),
    ("hypercorn", "http/2"),
]
OURS = SERVED[:3]


@pytest.fixture(autouse=True)
def sockets_are_collected_here() -> Iterator[None]:
    """And not while another module's tests run, where that would be a failure."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    with (
        asgi_server("dragoman", "dragoman") as ours,
        asgi_server("dragoman", "uvicorn") as uvicorn,
        asgi_server("dragoman", "hypercorn") as hypercorn,
    ):
        yield {"dragoman": ours, "uvicorn": uvicorn, "hypercorn": hypercorn}


@pytest.fixture
def reached(request: pytest.FixtureRequest, ports: dict[str, int], tmp_path: Any) -> Any:
    """`async with reached() as agent:` connects the SDK's client over one wire to one server."""
    server, wire = request.param

    @asynccontextmanager
    async def reaching() -> Any:
        rest = f"127.0.0.1:{ports[server]}/acp"
        if wire == "websocket":
            from acp.ws.client import create_websocket_stream

            transport = await create_websocket_stream(f"ws://{rest}")
        else:
            import httpx
            from acp.http.client import create_http_stream

            limits = httpx.Limits(max_connections=None)
            version = {"http1": wire == "http/1.1", "http2": wire == "http/2"}
            pool = httpx.AsyncClient(**version, timeout=httpx.Timeout(None), limits=limits, trust_env=False)
            transport = create_http_stream(f"http://{rest}", client=pool)
        editor = SdkEditor()
        connection = acp.connect_to_agent(editor, transport, use_unstable_protocol=True)
        try:
            agent = DragomanAgent(connection, editor, [], tmp_path)
            agent.initialized = await connection.initialize(
                protocol_version=acp.PROTOCOL_VERSION, client_capabilities=CAPABILITIES, client_info=INFO
            )
            yield agent
        finally:
            await connection.close()
            if wire != "websocket":
                await pool.aclose()

    reaching.wire = wire  # type: ignore[attr-defined]
    return reaching


async def opened(agent: DragomanAgent) -> DragomanAgent:
    agent.opened = await agent.new_session()
    await agent.editor.until(lambda: bool(agent.editor.updates))
    return agent


@pytest.mark.parametrize("reached", SERVED, ids=" ".join, indirect=True)
async def test_a_turn_arrives(reached: Any) -> None:
    async with reached() as agent:
        await opened(agent)
        before = len(agent.editor.updates)
        await agent.play("count", to=300)
        await agent.editor.until(lambda: len(agent.editor.updates) >= before + 300)
        said = [update.content.text for update in agent.editor.updates[before : before + 300]]
        assert sorted(map(int, said)) == list(range(300))


@pytest.mark.parametrize("reached", SERVED, ids=" ".join, indirect=True)
async def test_a_permission_answered_without_the_sessions_header_counts(reached: Any) -> None:
    async with reached() as agent:
        await opened(agent)
        agent.editor.choice = "yes"
        assert "yes" in json.dumps(await agent.find_out("ask"))


@pytest.mark.parametrize("reached", SERVED, ids=" ".join, indirect=True)
async def test_a_session_of_an_earlier_connection_is_loaded_and_prompted(reached: Any) -> None:
    async with reached() as agent:
        await opened(agent)
        id = agent.opened.session_id
        await agent.play("echo", acp.text_block("remember me"))
    async with reached() as agent:
        await agent.connection.load_session(session_id=id, cwd="/", mcp_servers=[])
        agent.opened = schema.NewSessionResponse(session_id=id)
        before = len(agent.editor.updates)
        _, response = await agent.play("count", to=5)
        assert response.stop_reason == "end_turn"
        await agent.editor.until(lambda: len(agent.editor.updates) >= before + 5)


@pytest.mark.parametrize("reached", OURS, ids=" ".join, indirect=True)
async def test_characters_of_all_lengths_arrive_whatever_cuts_them(reached: Any) -> None:
    """The SDK's client decodes each chunk by itself, so the events for it hold ASCII alone."""
    words = "aé€😀" * 20_000
    async with reached() as agent:
        await opened(agent)
        await agent.play("echo", acp.text_block(words))
        await agent.editor.until(
            lambda: any(getattr(u, "content", None) and u.content.text == words for u in chunks(agent))
        )


def chunks(agent: DragomanAgent) -> list[Any]:
    return [update for update in agent.editor.updates if isinstance(update, schema.AgentMessageChunk)]


@pytest.mark.parametrize("reached", OURS, ids=" ".join, indirect=True)
async def test_messages_of_five_mebibytes_pass(reached: Any) -> None:
    """Towards us, that is; the SDK's client takes one mebibyte on a WebSocket, and looks at each event again and
    again while it grows."""
    async with reached() as agent:
        await opened(agent)
        prompt = [acp.text_block('count {"to": 1}'), acp.text_block("x" * (5 * MIB))]
        response = await agent.connection.prompt(session_id=agent.opened.session_id, prompt=prompt)
        assert response.stop_reason == "end_turn"
        await agent.play("say", size=MIB // 4)
        await agent.editor.until(lambda: any(len(update.content.text) == MIB // 4 for update in chunks(agent)))


@pytest.mark.parametrize("reached", OURS[:2], ids=" ".join, indirect=True)
async def test_150_sessions_share_a_connection(reached: Any) -> None:
    """Not over HTTP/2, where the SDK's streams stand in line to be read: with so many it takes too long."""
    async with reached() as agent:
        sessions = [(await agent.new_session()).session_id for _ in range(150)]
        prompts = (
            agent.connection.prompt(session_id=id, prompt=[acp.text_block('count {"to": 3}')])
            for id in sessions[::10]
        )
        ended = await asyncio.gather(*prompts)
        assert [response.stop_reason for response in ended] == ["end_turn"] * 15
