"""Testy for programs that cannot script it: it answers any prompt with one thing of each kind.

A program that checks agents sends prompts that are no commands of Testy.  It still sees tool calls, a plan, a
terminal, a question, a file and a form, as far as its capabilities allow, and has time to cancel.
"""

import asyncio
from collections.abc import Awaitable
from typing import ClassVar

from .. import schema as s
from ..agent.turn import Turn
from ..errors import RpcError
from ..roles import offered
from .errands import FORM
from .script import LAST_WORDS, VERBS, everything
from .testy import Testy


class Exhibition(Testy):
    """Shows one thing of each kind, unless the prompt is a command of Testy."""

    __test__ = False
    pause: ClassVar[float] = 0.2  # seconds between two things, in which the client may cancel

    async def answer(self, turn: Turn) -> s.StopReason | None:
        """Show everything that the client accepts, unless the prompt is a command of Testy."""
        if turn.text.split(" ", 1)[0].split("\n", 1)[0].removeprefix("/") in VERBS:
            return await super().answer(turn)
        self._touch(turn)
        try:
            await self._show(turn)
        except asyncio.CancelledError:
            await turn.say(LAST_WORDS)
            raise
        return None

    async def _show(self, turn: Turn) -> None:
        offers = turn.client.offers
        await everything(turn, "")
        await asyncio.sleep(self.pause)
        await _tried(turn, _dangerous_command(turn))
        await asyncio.sleep(self.pause)
        if offered(offers, "fs.write_text_file") and offered(offers, "fs.read_text_file"):
            await _tried(turn, _noted(turn))
        if offered(offers, "elicitation.form"):
            await _tried(turn, turn.elicit("Who are you?", FORM))
        if offered(offers, "elicitation.url"):
            await _tried(turn, _visited(turn))
        await asyncio.sleep(self.pause)
        await turn.say("That is all.")


async def _tried(turn: Turn, errand: Awaitable[object]) -> None:
    """Try something; a failure of the client is reported and does not end the turn."""
    try:
        await errand
    except RpcError as exc:
        await turn.say(f"The client could not do that: {exc.message}. ")


async def _dangerous_command(turn: Turn) -> None:
    async with turn.tool("Do something grave", kind="execute", raw_input={"really": True}) as call:
        if await turn.ask(call) and offered(turn.client.offers, "terminal"):
            async with turn.terminal("echo", "hello") as terminal:
                await call.terminal(terminal)
                await terminal.wait()


async def _noted(turn: Turn) -> None:
    note = turn.session.path("exhibit.txt")
    await turn.write(note, "An exhibit.\n")
    await turn.read(note, 1, 1)


async def _visited(turn: Turn) -> None:
    if await turn.elicit_url("Please log in.", "https://example.com/login", id="visit-1"):
        turn.client.complete_elicitation(s.CompleteElicitationNotification(elicitation_id="visit-1"))
