"""The prompts of MCP servers as slash commands, while the servers change them."""

import asyncio
import sys
from pathlib import Path

from patience import PATIENCE

from dragoman import Agent
from dragoman import schema as s
from dragoman.agent.turn import Turn
from dragoman.testing import RecordingClient, pair

RESTLESS = s.McpServerStdio(
    name="restless", command=sys.executable, args=[str(Path(__file__).with_name("restless_prompts.py"))], env=[]
)


class Changing(Agent):
    async def answer(self, turn: Turn) -> None:
        async with turn.session.tools() as tools:
            await tools.call(turn, "change", {})


class Waiting(RecordingClient):
    """Waits for a slash command."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.wanted, self.found = wanted, asyncio.Event()

    def update(self, params: s.SessionNotification) -> None:
        super().update(params)
        update = params.update
        if isinstance(update, s.AvailableCommandsUpdate) and self.wanted in str(update.available_commands):
            self.found.set()


async def test_prompts_that_change_while_they_are_learned_are_learned_again(tmp_path: Path) -> None:
    client = Waiting("prompt-3")  # the second list was old when it came
    async with pair(Changing, client) as connected, asyncio.timeout(PATIENCE):
        session = await connected.new_session(tmp_path, mcp_servers=[RESTLESS])
        await session.prompt("go")
        await client.found.wait()
