"""The parts of a conversation besides its transcript."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from ... import schema as s
from ...schema.base import Bare
from ...transcript import Entry

QuestionKind = Literal["permission", "form", "url", "login"]
LinkKind = Literal["starting", "connected", "reconnecting", "lost"]
ModelPart = Literal["transcript", "questions", "queue", "terminals", "options", "people", "link", "state"]


class QuestionChoice(Bare, kw_only=True):
    """One answer to a question."""

    id: str
    label: str
    allows: bool = False
    scope: str = "once"  # how long it holds


class PendingQuestion(Bare, kw_only=True):
    """A question to a person; every text in it is safe to show."""

    id: str
    kind: QuestionKind
    title: str
    text: str = ""
    choices: Sequence[QuestionChoice] = ()
    warnings: Sequence[str] = ()
    detail: str = ""  # such as a diff
    is_claim: bool = False  # the agent's own claim, which cannot be checked
    tool_call_id: str = ""
    form: s.ElicitationSchema | None = None
    url: str = ""


class WaitingPrompt(Bare, kw_only=True):
    """A prompt that is sent once the earlier ones are answered."""

    id: str
    prompt: Sequence[s.ContentBlock]
    author: str = ""  # empty: the person at this screen
    is_editable: bool = True


class Participant(Bare, kw_only=True):
    """Somebody who has the session open."""

    name: str
    role: str = ""
    client: str = ""


class Link(Bare, kw_only=True):
    """The connection to the agent: whether it is open, since when, and if not, why and what to do."""

    kind: LinkKind = "starting"
    since: float | None = None
    why: str = ""
    remedy: str = ""


class ConversationState(Bare, kw_only=True):
    """The state of a conversation in one value."""

    kind: Literal["idle", "working", "asking", "broken"] = "idle"
    since: float | None = None  # working: when the turn began
    on: str = ""  # working: the activity
    count: int = 0  # asking: how many questions are open
    why: str = ""  # broken: the reason


class SettledQuestion(Bare, kw_only=True):
    """A decision, at its place in the transcript."""

    title: str
    text: str = ""
    answer: str = ""  # in words
    allowed: bool | None = None  # None: the question was withdrawn, or has no yes and no
    why: str = ""
    tool_call_id: str = ""


class OwnCommand(Bare, kw_only=True):
    """A command that the user ran; the agent does not know of it unless its output is sent."""

    terminal_id: str
    command: str


ShownEntry = Entry | SettledQuestion | OwnCommand  # the entries in order


class Span(Struct):
    """The first and the last time of an entry, as far as events carry times."""

    began: float | None = None
    ended: float | None = None

    def told(self, at: float | None) -> None:
        """Note an event at this time."""
        self.began, self.ended = at if self.began is None else self.began, self.ended if at is None else at

    @property
    def seconds(self) -> float | None:
        """The duration; None if it is unknown."""
        return None if self.began is None or self.ended is None else self.ended - self.began


class ModelChange(Struct, frozen=True):
    """The changes of an event: parts of the model, entries of the transcript, terminals by id."""

    parts: frozenset[ModelPart] = frozenset()
    entries: Sequence[ShownEntry] = ()
    terminals: Sequence[str] = ()
    is_new: bool = False  # the transcript was restarted: repaint everything
