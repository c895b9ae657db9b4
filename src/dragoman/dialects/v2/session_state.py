"""The state of a session whose two sides speak different versions."""

import base64
import binascii
import hashlib

import msgspec

from ...foundation.documents import Json, document, string
from ..engine.flows import Message
from ..engine.translator import Remembered

OURS = "dragoman:"
MADE_UP_ID = f"{OURS}v2-message-"  # the prefix of ids that only version 2 needs
PROMPT_ID = f"{OURS}v2-prompt-"  # the prefix of ids of prompts
USER = "user_message_chunk"
MAX_SHOWN = 64 * 1024  # characters kept of the end of a terminal's output
_encode = msgspec.json.Encoder(order="sorted").encode


class PromptTurn:
    """A prompt in progress, from the request to the stop reason."""

    __slots__ = (
        *("content", "has_run", "is_accepted", "is_cancelled", "is_taken_back"),
        *("message_id", "outcome", "session_id", "taking_back"),
    )

    def __init__(self, session_id: str, content: Json, message_id: Json = None) -> None:
        self.session_id, self.content, self.message_id = session_id, content, message_id
        self.is_accepted = self.has_run = self.is_cancelled = self.is_taken_back = False
        self.outcome: Message | None = None
        self.taking_back: tuple[bool, Message] = (False, {})  # the side and the request that are cancelled with it


class MessageSoFar:
    """The content of a message so far: enough to see whether a longer message begins with it."""

    __slots__ = ("digest", "length")

    def __init__(self) -> None:
        self.digest, self.length = hashlib.sha256(), 0

    def add(self, piece: bytes) -> None:
        """Add a block that `flat` has turned into bytes."""
        self.digest.update(piece)
        self.length += len(piece)

    def rest_of(self, blocks: list[Json]) -> list[Json] | None:
        """The new blocks of a message that begins with this one; None if it begins differently."""
        seen = MessageSoFar()
        for at, block in enumerate(blocks):
            if seen.length == self.length:
                return blocks[at:] if seen.digest.digest() == self.digest.digest() else None
            piece = flat(block)
            over = seen.length + len(piece) - self.length
            if over > 0 and _plain_text(block) is not None:
                seen.digest.update(piece[: len(piece) - over])
                text = piece[len(piece) - over :].decode(errors="replace")
                same = seen.digest.digest() == self.digest.digest()
                return [{**document(block), "text": text}, *blocks[at + 1 :]] if same else None
            seen.add(piece)
        return [] if seen.digest.digest() == self.digest.digest() else None


def flat(block: Json) -> bytes:
    """A block as bytes; plain text is its text alone, so that its division into chunks does not matter."""
    plain = _plain_text(block)
    return _encode(block) if plain is None else plain.encode(errors="replace")


def _plain_text(block: Json) -> str | None:
    """The text of a block that has no other fields; None for any other block."""
    if not isinstance(block, dict) or len(block) != 2 or "type" not in block:
        return None
    return text if isinstance(text := block.get("text"), str) else None


class ShownTerminal:
    """A terminal of the agent, shown as text."""

    __slots__ = ("command", "ended", "shown", "text")

    def __init__(self) -> None:
        self.command: Json = None
        self.text = ""
        self.ended = ""
        self.shown = -1  # the length of the output when it was last shown

    def update(self, update: Message) -> None:
        if "command" in update:
            self.command = update["command"]
        if "output" in update:
            self.text = ""
            self.add(string(document(update["output"] or {}).get("data", "")))
        if (status := update.get("exitStatus")) is not None:
            code, signal = document(status).get("exitCode"), document(status).get("signal")
            how = "ended" if code is None else f"exit code {code}"
            self.ended = f"[ended by {signal}]" if signal else f"[{how}]"

    def add(self, data: str) -> None:
        try:
            text = base64.b64decode(data, validate=True).decode(errors="replace")
        except (binascii.Error, ValueError):
            return
        self.text = (self.text + text)[-MAX_SHOWN:]

    @property
    def content(self) -> Message:
        head = f"$ {self.command}\n" if self.command else ""
        end = f"\n{self.ended}" if self.ended and self.text and not self.text.endswith("\n") else self.ended
        return {"type": "content", "content": {"type": "text", "text": f"{head}{self.text}{end}"}}

    def is_due(self) -> bool:
        """Whether it is to be shown again: its output has doubled, or the command has ended."""
        return bool(self.ended) or len(self.text) >= 2 * self.shown


class SessionState:
    """The state of one session."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cwd: Json = "/"
        self.turns: list[PromptTurn] = []
        self.options: list[Message] = []  # the config options, in the form of version 1
        self.modes: Message | None = None  # the modes, in the form of version 1
        self.mode_option: Json = None  # the config option of version 2 that represents the mode
        self.last_message: tuple[str, str] = ("", "")  # the kind and the id of the newest message
        self.echoes: Remembered[Json, bool] = Remembered()  # the ids of messages that only repeat a prompt
        self.said: Remembered[Json, MessageSoFar] = Remembered()  # by message id
        # tool call id -> its content, in the form of version 1
        self.tools: Remembered[Json, list[Json]] = Remembered()
        self.titles: Remembered[Json, Json] = Remembered()  # tool call id -> its title
        self.terminals: Remembered[Json, ShownTerminal] = Remembered()  # by terminal id
        self.is_muted = False  # the agent sends a history that the client did not request
        self.is_whole = False  # all messages are known from the beginning, so that they can be counted
        self.begun: set[tuple[str, Json]] | None = None  # while the history is sent: the items that were emptied
        self._counts: dict[str, int] = {}  # how many messages of each kind have no id
        # User messages of a history: the agent's id -> the id used here.
        self._prompts: Remembered[str, str] = Remembered()
        self._told: Remembered[str, bool] = Remembered()  # the ids of user messages that no prompt had sent
        self.is_open = False  # it was opened on this connection
        self.is_closed = False  # its client closed it, but its agent cannot close sessions
        self.is_busy = False  # a turn is in progress

    def said_in(self, message_id: Json) -> MessageSoFar:
        """The content of one of the peer's messages so far."""
        said = self.said.get(message_id)
        if said is None:
            self.said[message_id] = said = MessageSoFar()
        return said

    def begin_again(self) -> None:
        """Start again, since the history is sent from the beginning."""
        self.said, self.tools, self.terminals = Remembered(), Remembered(), Remembered()
        self.last_message = ("", "")
        self.is_whole, self._counts = True, {}
        self._prompts = Remembered()

    def number(self, kind: str) -> int | None:
        """The number of the next message of a kind, which is the same in each replay; None if it is not known."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind] if self.is_whole else None

    def user_message_id(self, given: str) -> str:
        """The id of a user message; in a history, the id of its prompt, even if the agent's id is different now."""
        if self.begun is None:
            self._told[given] = True
        if self.begun is None or given in self._told:
            return given
        if given not in self._prompts:
            number = self.number(USER)
            self._prompts[given] = given if given.startswith(PROMPT_ID) else f"{PROMPT_ID}{number}"
        return self._prompts[given]
