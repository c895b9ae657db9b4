"""Replays a stored session: every update as it was, the user's prompts between them, and last the damage."""

from collections.abc import AsyncIterator

from msgspec import Raw

from .. import codec
from .. import schema as s
from .interruption import damage_line
from .lines import COMMANDS, OWN, TurnBegan, event_of
from .outbox import Outbox, escaped, frame_of
from .records import Damage

_USER = b'{"sessionUpdate":"user_message_chunk"'


class Replay:
    """One `session/load`: sends a log as updates and notes its unreadable parts."""

    def __init__(self, session_id: str, outbox: Outbox, damages: list[str]) -> None:
        self.damages = list(damages)
        self._id = session_id
        self._outbox = outbox
        self._said: list[bytes] = []  # a prompt, until it is clear whether the agent echoes it itself

    async def run(self, parts: "AsyncIterator[list[bytes] | Damage]") -> None:
        id = escaped(self._id)
        async for part in parts:
            lines = [update for line in part for update in self._told(line)] if isinstance(part, list) else None
            if lines is None:
                self.damages.append(str(part))
                lines = [*self._take_said(), damage_line(part)]  # type: ignore[arg-type]
            await self._outbox.replay([frame_of(id, line) for line in lines])
        last = self._take_said()
        if self.damages:
            last.append(_warning(self.damages))
        await self._outbox.replay([frame_of(id, line) for line in last])

    def _told(self, line: bytes) -> list[bytes]:
        """The updates that a line is sent as."""
        if line.startswith(OWN):
            event = event_of(line)
            said = self._take_said()
            if isinstance(event, TurnBegan):
                self._said = [_chunk(event.message or event.turn, block) for block in event.prompt]
            return said
        if line.startswith(COMMANDS):
            self._outbox.commands[self._id] = line
        if not self._said:
            return [line]
        if line.startswith(_USER):  # the agent sent the user's message itself
            self._said = []
            return [line]
        return [*self._take_said(), line]

    def _take_said(self) -> list[bytes]:
        said, self._said = self._said, []
        return said


def _chunk(id: str, block: Raw) -> bytes:
    return b'{"sessionUpdate":"user_message_chunk","messageId":"%s","content":%s}' % (escaped(id), bytes(block))


def _warning(damages: list[str]) -> bytes:
    """The last message of an incomplete replay."""
    text = f"[This session's record is damaged: {len(damages)} gap{'s' * (len(damages) > 1)}. " + "; ".join(damages)
    content = s.TextContent(text=text + ".]")
    return codec.encode(
        s.AgentMessageChunk(content=content, message_id="damaged", meta={"dragoman": {"damaged": damages}})
    )
