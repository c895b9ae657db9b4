"""_meta, extensions, and what this version of the protocol has never heard of."""

import asyncio

import pytest

from dragoman import MethodNotFound, extension
from dragoman.testing import RecordingClient, raw_agent

from .reading import open_session, play, tell

META = {"traceparent": "00-80e1afed08e019fc1110464cfa66635c-7a085853722dc6d2-01", "x": {"deep": [1, None, "é"]}}


async def test_meta_travels_both_ways_unchanged(connect):
    async with connect() as client:
        session = await open_session(client)
        update, _ = [event async for event in session.prompt("meta", meta=META)]
        assert update.meta == META
        assert update.content.meta == META
        assert await tell(session, "meta") == "null"


async def test_meta_of_a_session_is_sent():
    async with raw_agent() as (client, wire):
        opening = asyncio.create_task(client.new_session("/", meta=META))
        request = await wire.receive()
        assert request["params"]["_meta"] == META
        wire.send({"id": request["id"], "result": {"sessionId": "s", "_meta": {"more": 1}}})
        assert (await opening).id == "s"


async def test_a_client_can_ask_by_an_extension(connect):
    async with connect() as client:
        assert await client.agent.request("_testy/ping", {"n": 1}) == {"pong": {"n": 1}}
        assert await client.agent.request("_testy/ping") == {"pong": {}}


async def test_an_agent_can_ask_by_an_extension(connect):
    async with connect() as client:
        session = await open_session(client)
        assert await tell(session, 'request _testy/ping {"n": [1, 2]}') == '{"pong": {"n": [1, 2]}}'
        assert client.requests == [{"n": [1, 2]}]


async def test_notifications_of_an_extension_go_both_ways(connect):
    async with connect() as client:
        for number in range(100):
            client.agent.notify("_testy/tick", {"n": number})
        await client.agent.request("_testy/ping")
        assert client.notifications == [{"n": number} for number in range(100)]
        session = await open_session(client)
        await session.prompt('notify _testy/tock {"from": "turn"}')
        assert client.notifications[-1] == {"from": "turn"}


async def test_requests_nest_as_deep_as_one_likes(connect):
    async with connect() as client:
        session = await open_session(client)
        assert await tell(session, "nested 40") == "40"


async def test_an_unknown_method_is_not_found_on_either_side(connect):
    async with connect() as client:
        session = await open_session(client)
        for name in ("_acme/unknown", "session/unknown", ""):
            with pytest.raises(MethodNotFound) as caught:
                await client.agent.request(name, {"x": 1})
            assert caught.value.data == {"method": name}
        with pytest.raises(Exception, match="_acme/unknown failed: Method not found"):
            await session.prompt("request _acme/unknown")
        assert await tell(session, "echo on") == "on"


async def test_an_unknown_notification_is_ignored_on_either_side(connect):
    async with connect() as client:
        session = await open_session(client)
        for name in ("_acme/unknown", "$/unknown", "session/unknown"):
            client.agent.notify(name, {"x": 1})
            await session.prompt(f"notify {name}")
        assert await tell(session, "echo on") == "on"
        assert client.notifications == []


async def test_an_update_of_an_unknown_kind_survives_byte_by_byte(connect):
    async with connect() as client:
        session = await open_session(client)
        update, _ = await play(session, "unknown")
        assert bytes(update) == (
            b'{"sessionUpdate":"_testy/unheard_of","note":"\\u00e9","nested":{"list":[1,2.50,null]}}'
        )


async def test_fields_from_the_future_are_no_obstacle(speak):
    async with speak() as wire:
        await wire.initialize(futureField={"a": 1})
        params = {"cwd": "/", "mcpServers": [], "futureField": [1]}
        session = (await wire.request("session/new", params))["result"]["sessionId"]
        block = {"type": "text", "text": "echo hi", "futureField": None}
        answer = await wire.request("session/prompt", {"sessionId": session, "prompt": [block], "futureField": 0})
        assert answer["result"] == {"stopReason": "end_turn"}


async def test_a_client_of_ones_own_answers_its_own_extensions(connect):
    class Acme(RecordingClient):
        @extension("_acme/add")
        async def add(self, params):
            return params["a"] + params["b"]

        @extension("_acme/note")
        def note(self, params):
            self.notifications.append(params)

    async with connect(client=Acme()) as client:
        session = await open_session(client)
        assert await tell(session, 'request _acme/add {"a": 2, "b": 3}\nnotify _acme/note {"c": 4}') == "5"
        assert client.notifications == [{"c": 4}]


def test_an_extension_starts_with_an_underscore():
    with pytest.raises(ValueError, match="underscore"):
        extension("acme/ping")
