"""Shortens a conversation that has become too long, and shows the user that it does."""

import asyncio
import functools

from ... import schema as s
from ...agent.turn import Turn, new_id
from ...roles import offered
from ..conversation import Conversation
from ..model.port import Model, ModelRefused, ModelRequest, TooLong, answer_of
from ..model.retrying import Retries
from . import compaction
from .history import Message, ModelInput, size


class Compactor:
    def __init__(self, turn: Turn, conversation: Conversation, model: Model, retries: Retries) -> None:
        self._turn = turn
        self._conversation = conversation
        self._model = model
        self._retries = retries

    async def make_room(self, instructions: str) -> None:
        """Make the conversation shorter when little room is left."""
        if self._taken(instructions) < self._model.window * compaction.THRESHOLD:
            return
        conversation = self._conversation
        conversation.history.replace(compaction.pruned(conversation.history))
        conversation.used = 0  # the provider's count is out of date
        if self._taken(instructions) >= self._model.window * compaction.THRESHOLD:
            await self.compact(instructions)

    def _taken(self, instructions: str) -> int:
        return max(self._conversation.used, size(self._conversation.history, instructions))

    async def compact(self, instructions: str) -> None:
        """Replace the conversation by a summary; if the model gives none, drop its older half."""
        conversation = self._conversation
        if not any(isinstance(message, ModelInput) for message in conversation.history):
            return
        report = _Report(self._turn)
        await report.begin()
        history, window = list(conversation.history), self._model.window
        try:
            try:
                summary = await self._summary(history, instructions)
            except (TooLong, ModelRefused):
                summary = await self._summary(compaction.halved(history, window), instructions)
        except asyncio.CancelledError:
            await report.fail("cancelled")
            raise
        except Exception:
            await report.fail("failed")
            raise
        if not summary.strip():
            await report.fail("failed")
            conversation.history.replace(compaction.halved(history, window))
        else:
            conversation.history.replace(compaction.summarised(history, summary, window))
            await report.finish(summary)
        conversation.used = size(conversation.history, instructions)
        await conversation.session.report_usage(conversation.used, self._model.window)

    async def _summary(self, history: list[Message], instructions: str) -> str:
        asked = ModelRequest(instructions, compaction.question(history), purpose="summary")
        answer = await self._retries.run(functools.partial(answer_of, self._model, asked))
        self._conversation.spend(answer)
        return answer.reply.text


class _Report:
    """Reports a compaction to the client: as a compaction update if it shows those, else as a tool call."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._id = new_id("compaction")
        self._as_update = offered(turn.client.offers, "session.compaction")
        self._call = turn.tool("Compact the conversation", kind="think")

    async def begin(self) -> None:
        if self._as_update:
            await self._turn.update(s.CompactionUpdate(compaction_id=self._id, status="in_progress"))
        else:
            await self._call.__aenter__()
            await self._call.start()

    async def finish(self, summary: str) -> None:
        if self._as_update:
            content = [s.TextContent(text=summary)]
            await self._turn.update(s.CompactionUpdate(compaction_id=self._id, status="completed", summary=content))
        else:
            await self._call.text(summary)
            await self._call.__aexit__(None, None, None)

    async def fail(self, status: s.CompactionStatus) -> None:
        if self._as_update:
            await self._turn.update(s.CompactionUpdate(compaction_id=self._id, status=status))
        else:
            self._call.fail("There is no summary.")
            await self._call.__aexit__(None, None, None)
