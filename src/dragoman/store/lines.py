"""A session's log consists of lines, one for each event, in order.

    {"sessionUpdate":...}     an update, byte for byte as its client got it
    ~{...}                    an update whose notification has further members, without its session id
    !{"event":...}            something of our own: a prompt, a turn's end, a new title
    ={"put":...,"drop":...}   the author's state, by key; stored beside the log, where only the latest value counts

A `Head` is the fold of a log: what a list of sessions shows and what loading a session needs.
"""

import copy
import time
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct

from .. import codec
from .. import schema as s

OWN, WHOLE, STATE = b"!", b"~", b"="
COMMANDS = b'{"sessionUpdate":"available_commands_update"'
TITLE_LENGTH = 80
_TELLING = tuple(
    b'{"sessionUpdate":"%s"' % name
    for name in (b"session_info_update", b"current_mode_update", b"config_option_update")
)

_FOLDED = (OWN, *_TELLING)


class Opened(Struct, tag_field="event", tag="opened", rename="camel", omit_defaults=True):
    """The session was created."""

    agent: str
    cwd: str
    additional_directories: Sequence[str] = []
    forked_from: str | None = None
    at: int = 0


class TurnBegan(Struct, tag_field="event", tag="prompted", rename="camel", omit_defaults=True):
    """The user sent a prompt, and a turn began."""

    turn: str
    prompt: Sequence[Raw]
    at: int = 0
    message: str = ""  # the client's id for the prompt, if it gave one


class TurnEnded(Struct, tag_field="event", tag="ended", rename="camel", omit_defaults=True):
    """A turn was answered: with a reason, or with an error."""

    turn: str
    stop_reason: str | None = None
    error: str | None = None
    at: int = 0


class Titled(Struct, tag_field="event", tag="titled", rename="camel", omit_defaults=True):
    """The user named the session; the agent's own titles no longer count."""

    title: str


class Archived(Struct, tag_field="event", tag="archived", rename="camel"):
    archived: bool


class Chosen(Struct, tag_field="event", tag="chosen", rename="camel", omit_defaults=True):
    """The client set the mode or an option."""

    mode: str | None = None
    config: Mapping[str, str | bool] = {}


class StateChange(Struct, omit_defaults=True):
    """A change of the author's state; null is a value like any other."""

    put: dict[str, Raw] = {}
    drop: Sequence[str] = ()


Event = Opened | TurnBegan | TurnEnded | Titled | Archived | Chosen
_event = msgspec.json.Decoder(Event)
_update = msgspec.json.Decoder(s.SessionInfoUpdate | s.CurrentModeUpdate | s.ConfigOptionUpdate)


class Head(Struct, rename="camel", omit_defaults=True):
    """The facts about a session that are known without reading its log."""

    agent: str = ""
    cwd: str = ""
    additional_directories: Sequence[str] = []
    created: int = 0  # milliseconds since 1970, as all times here
    updated: int = 0
    last: int = 0  # how many lines the log has
    prompts: int = 0
    title: str | None = None
    is_named: bool = False  # by the user
    archived: bool = False
    mode: str | None = None
    config: dict[str, str | bool] = {}
    turn: str | None = None  # the turn that has not ended
    since: int = 0  # the line that began it
    states: int = 0  # how many keys the author's state has

    def copied(self) -> "Head":
        """An independent copy of this head."""
        head = copy.copy(self)
        head.config = dict(self.config)
        return head

    def fold(self, lines: Iterable[bytes]) -> None:
        """Fold in more lines."""
        before, count = self.last, 0
        for count, line in enumerate(lines, 1):
            if line.startswith(_FOLDED):
                self.last = before + count
                if line.startswith(OWN):
                    self._happened(_event.decode(line[1:]))
                else:
                    self._told(line)
        self.last = before + count

    def _happened(self, event: Event) -> None:
        match event:
            case Opened():
                self.agent, self.cwd = event.agent, event.cwd
                self.additional_directories, self.created = event.additional_directories, event.at
            case TurnBegan():
                self.prompts += 1
                self.turn, self.since = event.turn, self.last
                if self.title is None:
                    self.title = first_words(event.prompt)
            case TurnEnded() if event.turn == self.turn:  # an abandoned turn ends after the next has begun
                self.turn = None
            case Titled():
                self.title, self.is_named = event.title, True
            case Archived():
                self.archived = event.archived
            case Chosen():
                self.mode = event.mode or self.mode
                self.config.update(event.config)

    def _told(self, line: bytes) -> None:
        """Fold in an update; one that cannot be decoded is ignored."""
        try:
            update = _update.decode(line)
        except codec.Malformed:
            return
        match update:
            case s.SessionInfoUpdate(title=title) if title is not UNSET and not self.is_named:
                self.title = title if isinstance(title, str) else None
            case s.CurrentModeUpdate(current_mode_id=mode):
                self.mode = mode
            case s.ConfigOptionUpdate(config_options=options):
                self.config |= values(options)


def values(options: Sequence[s.SessionConfigOption]) -> dict[str, str | bool]:
    """The options that have a value, by id."""
    known = (s.SessionConfigSelect, s.SessionConfigBoolean)
    return {option.id: option.current_value for option in options if isinstance(option, known)}


def own(event: Event) -> bytes:
    """An event as a line."""
    return OWN + codec.encode(event)


def event_of(line: bytes) -> Event | None:
    """The event a line holds; None for an update."""
    return _event.decode(line[1:]) if line.startswith(OWN) else None


def raw_blocks(blocks: Sequence[s.ContentBlock]) -> list[Raw]:
    return [Raw(codec.encode(block)) for block in blocks]


def state_line(put: Mapping[str, bytes]) -> bytes:
    """An author's state as a line."""
    return STATE + codec.encode(StateChange(put=raw_values(put)))


def raw_values(state: Mapping[str, bytes]) -> dict[str, Raw]:
    return {key: Raw(value) for key, value in state.items()}


def first_words(prompt: Sequence[Raw]) -> str | None:
    """A title for a session: the first line of its first prompt."""
    for raw in prompt:
        block: s.ContentBlock = codec.decode(raw, s.ContentBlock)
        if isinstance(block, s.TextContent) and (words := block.text.split()):
            line = " ".join(block.text.strip().splitlines()[0].split()) or words[0]
            return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
    return None


def now() -> int:
    return time.time_ns() // 1_000_000
