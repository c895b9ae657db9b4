"""Agents of the older forms: answers in answers, or an event stream that says where to post."""

import asyncio
import json

import pytest

from dragoman import AgentStartError, connect
from dragoman import schema as s
from dragoman.transports.remote.server.server import listening

pytestmark = pytest.mark.usefixtures("nothing_left")

OPENED = {"initialize": {"protocolVersion": 1, "agentCapabilities": {}}, "session/new": {"sessionId": "s"}}


def update(text):
    content = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": content}}


async def body_of(receive):
    data, more = b"", True
    while more:
        event = await receive()
        data, more = data + event.get("body", b""), event.get("more_body")
    return json.loads(data) if data else None


async def respond(send, status, body=b"", kind=b"application/json", more=False):
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body, "more_body": more})


def answers(message, layout):
    """What an agent that only answers has to say: a turn's updates stand in front of its end."""
    if message["method"] in OPENED:
        return [{"jsonrpc": "2.0", "id": message["id"], "result": OPENED[message["method"]]}]
    end = {"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}}
    return [update("hello"), end] if layout != "bare" else [end]


def written(messages, layout):
    if layout == "list":
        return json.dumps(messages).encode(), b"application/json"
    if layout == "events":
        events = "".join(f"data: {json.dumps(message)}\n\n" for message in messages)
        return events.encode(), b"text/event-stream; charset=utf-8"
    return "\n".join(map(json.dumps, messages)).encode(), b"application/json"


@pytest.mark.parametrize("layout", ["bare", "lines", "list", "events"])
async def test_an_agent_that_answers_each_post(layout):
    async def app(scope, receive, send):
        message = await body_of(receive)
        if "id" not in message:
            await respond(send, 204)
            return
        await respond(send, 200, *written(answers(message, layout), layout))

    async with asyncio.timeout(10), listening(app) as server, connect(server.url("/api")) as client:
        session = await client.new_session("/")
        events = [event async for event in session.prompt("hi")]
        assert events[-1].stop_reason == "end_turn"
        said = [event.content.text for event in events if isinstance(event, s.AgentMessageChunk)]
        assert said == ([] if layout == "bare" else ["hello"])


async def test_a_long_turn_of_such_an_agent_can_be_cancelled():
    cancelled = asyncio.Event()

    async def app(scope, receive, send):
        message = await body_of(receive)
        if message["method"] == "session/cancel":
            cancelled.set()
            await respond(send, 202)
        elif message["method"] == "session/prompt":
            await cancelled.wait()
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "cancelled"}}
            await respond(send, 200, json.dumps(answer).encode())
        else:
            await respond(send, 200, *written(answers(message, "bare"), "bare"))

    async with asyncio.timeout(10), listening(app) as server, connect(server.url("/api")) as client:
        session = await client.new_session("/")
        prompt = session.prompt("hi")
        await client.new_session("/")  # goes to and fro beside it
        session.cancel()
        assert (await prompt).stop_reason == "cancelled"


@pytest.mark.parametrize("says_where", [True, False])
async def test_an_agent_whose_event_stream_says_where_to_post(says_where, monkeypatch):
    monkeypatch.setattr("dragoman.transports.remote.client.older.FIRST_EVENT", 0.05 if not says_where else 10)
    posts = asyncio.Queue()

    async def app(scope, receive, send):
        if scope["method"] == "GET":
            where = b"event: endpoint\ndata: /post?session=1\n\n" if says_where else b": hello\n\n"
            await respond(send, 200, where, b"text/event-stream", more=True)
            while message := await posts.get():
                data, _ = written(answers(message, "events"), "events")
                await send({"type": "http.response.body", "body": data, "more_body": True})
        elif is_for_posts(scope):
            message = await body_of(receive)
            if "id" in message:
                posts.put_nowait(message)
            await respond(send, 202)
        else:
            await body_of(receive)
            await respond(send, 405)

    seen = []

    def is_for_posts(scope):
        seen.append(scope["path"])
        return scope["path"] == "/post" if says_where else len(seen) > 1

    async with asyncio.timeout(10), listening(app) as server:
        async with connect(server.url("/sse")) as client:
            session = await client.new_session("/")
            events = [event async for event in session.prompt("hi")]
        assert [event.content.text for event in events[:-1]] == ["hello"]
        posts.put_nowait(None)


async def test_what_is_no_agent_at_all_is_said_so():
    async def app(scope, receive, send):
        await respond(send, 404, b"<html>", b"text/html")

    async with asyncio.timeout(10), listening(app) as server:
        with pytest.raises(AgentStartError, match=r"is not an agent: it answered with status 404"):
            async with connect(server.url("/")):
                raise NotImplementedError


async def test_a_server_that_refuses_us_is_named():
    async def app(scope, receive, send):
        await respond(send, 401)

    async with asyncio.timeout(10), listening(app) as server:
        with pytest.raises(AgentStartError, match=r"refused the connection with status 401"):
            async with connect(server.url("/")):
                raise NotImplementedError
