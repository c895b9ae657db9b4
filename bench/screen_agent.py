"""The agent behind bench/screen.py: `stream COUNT RATE` streams chunks, and its stored session is a long one."""

import asyncio
import sys
import time

from dragoman import Agent, Turn, serve
from dragoman import schema as s

WORDS = "a few words at a time, "
BATCH = 20  # chunks between two looks at the clock


class Long(Agent):
    """`ENTRIES` entries are told when the session is loaded."""

    async def answer(self, turn: Turn) -> None:
        """Stream what the prompt says."""
        if not turn.text.startswith("stream "):
            return
        count, rate = (int(word) for word in turn.text.split()[1:])
        began = time.monotonic()
        for number in range(count):
            await turn.say(WORDS if number % 40 else "\n\n")
            if number % BATCH == 0:
                await asyncio.sleep(max(began + number / rate - time.monotonic(), 0))
        await turn.say(f"\n\nstreamed in {time.monotonic() - began:.2f} s")

    async def load_session(self, params: s.LoadSessionRequest) -> s.LoadSessionResponse:
        """Tell a conversation of tool calls and messages."""
        session = await self.open_session(params.session_id, params)
        for number in range(int(sys.argv[1])):
            self.client.update(s.SessionNotification(session_id=session.id, update=entry(number)))
            await self.client.room()
        return s.LoadSessionResponse()


def entry(number: int) -> s.SessionUpdate:
    if number % 10 == 0:
        return s.UserMessageChunk(content=s.TextContent(text=f"question {number}"), message_id=f"u{number}")
    if number % 10 == 9:
        words = f"Answer **{number}**: " + WORDS * 10
        return s.AgentMessageChunk(content=s.TextContent(text=words), message_id=f"a{number}")
    return s.ToolCall(
        tool_call_id=f"c{number}",
        title=f"part_{number}.py",
        kind="read",
        status="completed",
        content=[s.Content(content=s.TextContent(text="what the file says\n" * 5))],
    )


serve(Long)
