"""For dialects that send a message in one update: divided into chunks for version 1, joined on the way back."""

from collections.abc import Iterable

from ...foundation.documents import Document, Json, number, string
from .pieces import Kind
from .shapes import SAME, Shape, carry, meta_of
from .translator import Remembered, Translator

ROLES: dict[str, Kind] = {
    "agent": "agent_message_chunk",
    "assistant": "agent_message_chunk",
    "user": "user_message_chunk",
}


class WholeMessages:
    """Divides messages and joins them; each chunk says how many chunks its message has."""

    def __init__(self, translator: Translator, block: Shape = SAME, plain: Iterable[str] = ()) -> None:
        self._translator, self._block = translator, block
        self._plain: dict[Json, Kind] = {role: ROLES[role] for role in plain}  # the update for a single chunk
        self._prefix = f"{translator.name}-message-"
        self._incomplete: dict[tuple[Json, Json], list[Json]] = (
            Remembered()
        )  # (session, message) -> its blocks so far

    def apart(self, message: Document) -> list[Document]:
        """The chunks of a message."""
        t, content = self._translator, message["content"]
        blocks = content if isinstance(content, list) else [content]
        if len(blocks) == 1 and len(message) == 3 and (kind := self._plain.get(message.get("role"))):
            # No state is needed: a single chunk becomes the same message again.
            block = self._block.inward(blocks[0], t)
            return [{"sessionUpdate": kind, "messageId": t.new_id("message"), "content": block}]
        kept = {name: member for name, member in message.items() if name not in ("content", "_meta")}
        kept["count"] = len(blocks)
        said = {"sessionUpdate": ROLES[string(message.get("role", "agent"))], "messageId": t.new_id("message")}
        return [
            carry({**said, **meta_of(message), "content": self._block.inward(block, t)}, dict(kept), t)
            for block in blocks
        ]

    def is_ours(self, id: Json) -> bool:
        """Whether a message id was made here."""
        return isinstance(id, str) and id.startswith(self._prefix)

    def together(self, session_id: Json, chunk: Document, kept: Document) -> Document | None:
        """The message that a chunk completes, with its kept fields; None while the message is incomplete."""
        key = (session_id, chunk.get("messageId"))
        blocks = [*self._incomplete.pop(key, ()), self._block.outward(chunk["content"], self._translator)]
        if len(blocks) < number(kept.get("count", 1)):
            self._incomplete[key] = blocks
            return None
        told = {name: member for name, member in kept.items() if name != "count"}
        return {**told, **meta_of(chunk), "content": blocks}
