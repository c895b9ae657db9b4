"""elicitation/create: forms and pages, asked of the user in the middle of a turn."""

import json

import pytest

from dragoman import Client, Error
from dragoman import schema as s
from dragoman.testing import RecordingClient, raw_agent
from dragoman.testing.errands import FORM

from .reading import open_session, tell

ANSWER = {"name": "Ada", "age": 36, "height": 1.65, "member": True, "colours": ["red", "blue"]}


async def test_a_form_is_filled_in(connect):
    async with connect(client=RecordingClient(form=ANSWER)) as client:
        session = await open_session(client)
        assert json.loads(await tell(session, "elicit form")) == ANSWER
        (request,) = client.requests
        assert request.session_id == session.id
        assert request.message == "Who are you?"
        assert request.requested_schema == FORM


async def test_a_form_may_come_back_empty_and_is_still_an_answer(connect):
    async with connect(client=RecordingClient(form={})) as client:
        assert await tell(await open_session(client), "elicit form") == "{}"


async def test_a_form_can_be_declined(connect):
    async with connect(client=RecordingClient(form=None)) as client:
        assert await tell(await open_session(client), "elicit form") == "Declined."


async def test_a_page_is_opened_with_the_users_consent_and_its_end_is_told(connect):
    async with connect(client=RecordingClient(visits=True)) as client:
        session = await open_session(client)
        assert await tell(session, "elicit url") == "Agreed."
        (request,) = client.requests
        assert (request.url, request.elicitation_id) == ("https://example.com/login", "visit-1")
        assert client.notifications == [s.CompleteElicitationNotification(elicitation_id="visit-1")]


async def test_a_page_can_be_declined(connect):
    async with connect(client=RecordingClient(visits=False)) as client:
        assert await tell(await open_session(client), "elicit url") == "Declined."
        assert client.notifications == []


class Forms(Client):
    async def fill_form(self, form):
        return {"name": "Ada"}


class Pages(Client):
    async def open_url(self, question):
        return True


async def test_a_client_is_only_asked_in_the_ways_it_offers(connect):
    async with connect(client=Forms()) as client:
        session = await open_session(client)
        assert await tell(session, "elicit form") == '{"name": "Ada"}'
        with pytest.raises(Error):
            await session.prompt("elicit url")
    async with connect(client=Pages()) as client:
        session = await open_session(client)
        assert await tell(session, "elicit url") == "Agreed."
        with pytest.raises(Error):
            await session.prompt("elicit form")


async def test_a_client_with_neither_is_never_asked(connect):
    async with connect(client=Client()) as client:
        session = await open_session(client)
        for mode in ("form", "url"):
            with pytest.raises(Error):
                await session.prompt(f"elicit {mode}")


async def test_a_client_refuses_ways_it_did_not_offer():
    page = {"mode": "url", "message": "?", "sessionId": "s", "elicitationId": "e", "url": "https://example.com"}
    async with raw_agent(Forms()) as (_, wire):
        assert (await wire.request("elicitation/create", page))["error"]["code"] == -32602
        unheard_of = {"mode": "telepathy", "message": "?", "sessionId": "s"}
        assert (await wire.request("elicitation/create", unheard_of))["error"]["code"] == -32602
        homeless = {"mode": "form", "message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        assert (await wire.request("elicitation/create", homeless))["error"]["code"] == -32602
        answer = await wire.request("elicitation/create", {**homeless, "requestId": 7})
        assert answer["result"] == {"action": "accept", "content": {"name": "Ada"}}


async def test_an_answer_of_another_kind_is_no_consent(speak):
    async with speak() as wire:
        await wire.initialize(clientCapabilities={"elicitation": {"url": {}}})
        session = (await wire.request("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        for action in ({"action": "decline"}, {"action": "cancel"}, {"action": "_later"}):
            params = {"sessionId": session, "prompt": [{"type": "text", "text": "elicit url"}]}
            turn = wire.ask("session/prompt", params)
            while (message := await wire.receive()).get("method") != "elicitation/create":
                pass
            wire.send({"id": message["id"], "result": action})
            said = await wire.receive()
            assert said["params"]["update"]["content"]["text"] == "Declined."
            await wire.answer(turn)
