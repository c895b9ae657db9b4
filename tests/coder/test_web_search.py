"""Web search where the provider has one: only when asked for, seen by the user, and paused answers go on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import schema as s

from .desk import said, updates
from .model_servers import WIRES, Answer, Anthropic, Frame, ModelServer, answer
from .talking import talking

pytestmark = pytest.mark.usefixtures("collected")
SEARCHES = {"Anthropic": "web_search_", "OpenAIResponses": '"web_search"', "Google": "googleSearch"}


@pytest.mark.parametrize("fetch", [True, False])
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.__name__)
async def test_a_provider_searches_only_where_it_can_and_was_asked_to(
    wire: type[ModelServer], fetch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(wire, tmp_path, monkeypatch, answer("Found."), fetch=fetch) as (session, _, server):
        assert (await session.prompt("Look it up")).stop_reason == "end_turn"
    word = SEARCHES.get(wire.__name__)
    assert any(sign in server.told()[0] for sign in SEARCHES.values()) == bool(word and fetch)
    if word:
        assert (word in server.told()[0]) == fetch
    assert "read_file" in server.told()[0]


class Searching(Anthropic):
    """Searches, pauses, and goes on when it is asked to."""

    def frames(self, step: Answer) -> Iterator[Frame]:
        start, *_, stop = super().frames(step)
        if len(self.requests) > 1:
            yield from super().frames(step)
            return
        yield start
        yield self._start(0, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})
        yield self._delta(0, {"type": "input_json_delta", "partial_json": '{"query": "green tea"}'})
        yield "content_block_stop", {"type": "content_block_stop", "index": 0}
        delta = {"stop_reason": "pause_turn", "stop_sequence": None}
        yield "message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}
        yield stop


async def test_a_paused_answer_goes_on_and_the_user_sees_what_was_searched_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = answer(""), answer("Steep it for two minutes.")
    async with talking(Searching, tmp_path, monkeypatch, *steps, fetch=True) as (session, client, server):
        response = await session.prompt("How long?")
    assert response.stop_reason == "end_turn" and response.usage is not None
    assert response.usage.output_tokens == 25
    assert len(server.requests) == 2 and "green tea" in server.told()[1]
    assert said(updates(client)).endswith("Steep it for two minutes.")
    thoughts = [u.content.text for u in updates(client) if isinstance(u, s.AgentThoughtChunk)]
    assert any("green tea" in thought for thought in thoughts)
