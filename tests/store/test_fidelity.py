"""Any conversation is told again as it was, whatever updates it was made of."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman import Agent, Transcript, Turn, connect
from dragoman import schema as s
from dragoman.store import Store, durable
from dragoman.transcript import Message, TurnEnd

EXAMPLES = 60

words = st.text(max_size=20)
names = st.sampled_from(["one", "two", "three"])
text = st.builds(s.TextContent, text=words)
blocks = (
    text
    | st.builds(s.ResourceLink, name=words, uri=words)
    | st.builds(s.ImageContent, data=st.just("aGk="), mime_type=st.just("image/png"))
)
entries = st.builds(
    s.PlanEntry,
    content=words,
    priority=st.sampled_from(["high", "low"]),
    status=st.sampled_from(["pending", "completed"]),
)
done = st.sampled_from(["completed", "failed"])
updates: st.SearchStrategy[Any] = st.one_of(
    st.builds(s.AgentMessageChunk, content=blocks, message_id=names, meta=st.none() | st.just({"k": [1]})),
    st.builds(s.AgentThoughtChunk, content=blocks, message_id=st.none() | names),
    st.builds(s.ToolCall, tool_call_id=names, title=words, status=done, raw_input=st.just({"a": None})),
    st.builds(s.ToolCallUpdated, tool_call_id=names, title=words, status=done),
    st.builds(s.Plan, entries=st.lists(entries, max_size=3)),
    st.builds(s.PlanRemoved, plan_id=names),
    st.builds(s.CurrentModeUpdate, current_mode_id=names),
    st.builds(s.SessionInfoUpdate, title=st.none() | words),
    st.builds(s.UsageUpdate, used=st.integers(0, 2**40), size=st.integers(0, 2**40)),
    st.builds(s.CompactionUpdate, compaction_id=names, status=st.just("completed")),
    st.builds(s.SubagentUpdate, session_id=names, title=words),
    st.just(s.Raw(b'{"later":1,"sessionUpdate":"hologram"}')),
)
turns = st.lists(st.lists(updates, max_size=12), min_size=1, max_size=3)


class Reciting(Agent):
    """Sends the updates of a turn whose number is the prompt."""

    script: list[list[Any]] = []

    async def answer(self, turn: Turn) -> None:
        for update in self.script[int(turn.text)]:
            await turn.session.update(update)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(turns)
def test_what_is_loaded_folds_to_what_was_seen(script: list[list[Any]]) -> None:
    asyncio.run(recite(script))


async def recite(script: list[list[Any]]) -> None:
    """Have a script said and told again, and compare."""
    with tempfile.TemporaryDirectory() as directory:
        agent = durable(Reciting, Store(Path(directory)))
        agent.script = script
        live = Transcript()
        raw: list[Any] = []
        async with connect(agent) as client:
            session = await client.new_session("/")
            for number in range(len(script)):
                live.said([s.TextContent(text=str(number))])
                async for event in session.prompt(str(number)):
                    live.apply(event)
                    raw.append(event)
        async with connect(agent) as client:
            told = list((await client.load_session(session.id, "/")).backlog())
    seen = [update for update in raw if not isinstance(update, s.PromptResponse)]
    assert [update for update in told if not isinstance(update, s.UserMessageChunk)] == seen
    loaded = Transcript(told)
    assert _shown(loaded) == _shown(live)
    assert (loaded.mode, loaded.title, loaded.usage) == (live.mode, live.title, live.usage)


def _shown(transcript: Transcript) -> list[Any]:
    """The entries without what only a live turn has: its end, and that the user's words were typed here."""
    shown = [entry for entry in transcript.entries if not isinstance(entry, TurnEnd)]
    for entry in shown:
        if isinstance(entry, Message) and entry.speaker == "user":
            entry.id, entry.is_local = None, False
    return shown
