"""What is remembered of one session while its two sides speak different versions."""

import base64
import binascii
import hashlib

import msgspec

from ...foundation.documents import Json, document, string
from ..engine.flows import Message
from ..engine.translator import Remembered

OURS = "dragoman:"
MADE_UP_ID = f"{OURS}v2-message-"  # what ids begin with that only version 2 needs
PROMPT_ID = f"{OURS}v2-prompt-"  # and those of prompts
USER = "user_message_chunk"
MAX_SHOWN = 64 * 1024  # characters kept of a terminal's output, the last ones
_encode = msgspec.json.Encoder(order="sorted").encode


class PromptTurn:
    """A prompt on its way, from the request to the reason why the agent stopped."""

    __slots__ = (
        *("content", "has_run", "is_accepted", "is_cancelled", "is_taken_back"),
        *("message_id", "outcome", "session_id", "taking_back"),
    )

    def __init__(self, session_id: str, content: Json, message_id: Json = None) -> None:
        self.session_id, self.content, self.message_id = session_id, content, message_id
        self.is_accepted = self.has_run = self.is_cancelled = self.is_taken_back = False
        self.outcome: Message | None = None
        self.taking_back: tuple[bool, Message] = (False, {})  # whom to tell what, should it be taken back


class MessageSoFar:
    """What a message holds so far: enough to tell whether a longer one begins with it."""

    __slots__ = ("digest", "length")

    def __init__(self) -> None:
        self.digest, self.length = hashlib.sha256(), 0

    def add(self, piece: bytes) -> None:
        """Take in a block, made flat."""
        self.digest.update(piece)
        self.length += len(piece)

    def rest_of(self, blocks: list[Json]) -> list[Json] | None:
        """The blocks that are new in a message which begins with this one; None if it does not."""
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
    """A block as bytes: of plain text the text alone, so that it does not matter how it was cut."""
    plain = _plain_text(block)
    return _encode(block) if plain is None else plain.encode(errors="replace")


def _plain_text(block: Json) -> str | None:
    """The text of a block that has nothing else; None for any other."""
    if not isinstance(block, dict) or len(block) != 2 or "type" not in block:
        return None
    return text if isinstance(text := block.get("text"), str) else None


class ShownTerminal:
    """A terminal of the agent, as far as it can be shown as text."""

    __slots__ = ("command", "ended", "shown", "text")

    def __init__(self) -> None:
        self.command: Json = None
        self.text = ""
        self.ended = ""
        self.shown = -1  # how long it was when it was last shown

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
        """Whether it has changed enough to be shown again: twice as long, or over."""
        return bool(self.ended) or len(self.text) >= 2 * self.shown


class SessionState:
    """One session."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.cwd: Json = "/"
        self.turns: list[PromptTurn] = []
        self.options: list[Message] = []  # the config options, as version 1 has them
        self.modes: Message | None = None  # the modes, as version 1 has them
        self.mode_option: Json = None  # the config option that is the mode, in version 2
        self.voice: tuple[str, str] = ("", "")  # who spoke last, and in which message
        self.echoes: Remembered[Json, bool] = Remembered()  # the ids of messages that only repeat what was sent
        self.said: Remembered[Json, MessageSoFar] = Remembered()  # by message id
        self.tools: Remembered[Json, list[Json]] = Remembered()  # tool call id -> its content, as version 1 has it
        self.titles: Remembered[Json, Json] = Remembered()  # tool call id -> its title
        self.terminals: Remembered[Json, ShownTerminal] = Remembered()  # by terminal id
        self.is_muted = False  # a history comes that nobody asked for
        self.is_whole = False  # what was said is known from the beginning, so that messages can be counted
        self.begun: set[tuple[str, Json]] | None = None  # while the history is told: what of it has begun anew
        self._counts: dict[str, int] = {}  # messages of each kind that have no id of their own
        # User messages of a history: the agent's id -> the one they have here.
        self._prompts: Remembered[str, str] = Remembered()
        self._told: Remembered[str, bool] = (
            Remembered()
        )  # the ids of user messages that the agent told of its own accord
        self.is_open = False  # somebody opened it here
        self.is_closed = False  # its client closed it, and its agent has no such call
        self.is_busy = False  # the agent is at work

    def said_in(self, message_id: Json) -> MessageSoFar:
        """What the peer has said of a message so far."""
        said = self.said.get(message_id)
        if said is None:
            self.said[message_id] = said = MessageSoFar()
        return said

    def begin_again(self) -> None:
        """The history is told anew."""
        self.said, self.tools, self.terminals = Remembered(), Remembered(), Remembered()
        self.voice = ("", "")
        self.is_whole, self._counts = True, {}
        self._prompts = Remembered()

    def number(self, kind: str) -> int | None:
        """Which message of a kind comes now: the same whenever the history is told; None if nobody can say."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        return self._counts[kind] if self.is_whole else None

    def user_message_id(self, given: str) -> str:
        """The id of a user message; in a history, that of the prompt it was, whatever the agent calls it now."""
        if self.begun is None:
            self._told[given] = True
        if self.begun is None or given in self._told:
            return given
        if given not in self._prompts:
            number = self.number(USER)
            self._prompts[given] = given if given.startswith(PROMPT_ID) else f"{PROMPT_ID}{number}"
        return self._prompts[given]
