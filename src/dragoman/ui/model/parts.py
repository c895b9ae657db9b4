"""The nouns of the model: what a conversation consists of beside its transcript."""

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
    scope: str = "once"  # how far it reaches


class PendingQuestion(Bare, kw_only=True):
    """Something a person has to decide; every text in it can be shown as it is."""

    id: str
    kind: QuestionKind
    title: str
    text: str = ""
    choices: Sequence[QuestionChoice] = ()
    warnings: Sequence[str] = ()
    detail: str = ""  # such as a diff
    is_claim: bool = False  # the agent says so, and nobody can check it
    tool_call_id: str = ""
    form: s.ElicitationSchema | None = None
    url: str = ""


class WaitingPrompt(Bare, kw_only=True):
    """A prompt that is sent once those before it are answered."""

    id: str
    prompt: Sequence[s.ContentBlock]
    author: str = ""  # nobody: the person at this screen
    is_editable: bool = True


class Participant(Bare, kw_only=True):
    """Somebody who has the session open."""

    name: str
    role: str = ""
    client: str = ""


class Link(Bare, kw_only=True):
    """The way to the agent: whether it is open, since when, and if not, why and what to do."""

    kind: LinkKind = "starting"
    since: float | None = None
    why: str = ""
    remedy: str = ""


class ConversationState(Bare, kw_only=True):
    """What a person has to know first."""

    kind: Literal["idle", "working", "asking", "broken"] = "idle"
    since: float | None = None  # working: when the turn began
    on: str = ""  # working: on what
    count: int = 0  # asking: how many questions are open
    why: str = ""  # broken: what happened


class SettledQuestion(Bare, kw_only=True):
    """What was decided; it stays in the transcript, where it was decided."""

    title: str
    text: str = ""
    answer: str = ""  # in words
    allowed: bool | None = None  # None: the question was withdrawn, or is none of yes and no
    why: str = ""
    tool_call_id: str = ""


class OwnCommand(Bare, kw_only=True):
    """A command that the person ran; the agent knows nothing of it unless it is told."""

    terminal_id: str
    command: str


ShownEntry = Entry | SettledQuestion | OwnCommand  # what a person reads, in order


class Span(Struct):
    """From when to when something was going on, as far as events told their times."""

    began: float | None = None
    ended: float | None = None

    def told(self, at: float | None) -> None:
        """Something was told of it at this time."""
        self.began, self.ended = at if self.began is None else self.began, self.ended if at is None else at

    @property
    def seconds(self) -> float | None:
        """How long it took; None where that is not known."""
        return None if self.began is None or self.ended is None else self.ended - self.began


class ModelChange(Struct, frozen=True):
    """What an event changed: parts of the model, entries of the transcript, terminals by their ids."""

    parts: frozenset[ModelPart] = frozenset()
    entries: Sequence[ShownEntry] = ()
    terminals: Sequence[str] = ()
    is_new: bool = False  # the transcript began anew: everything is to be painted
