"""The events of a conversation for the model, from a session, its host and its gateway.

`at` is the time of an event, in seconds of any clock that is the same for all events; without it, durations are
unknown.
"""

from collections.abc import Sequence

from ... import schema as s
from ...schema.base import Bare
from .parts import Link, Participant, PendingQuestion, WaitingPrompt


class _Event(Bare, kw_only=True, tag_field="event"):
    at: float | None = None


class SessionBegan(_Event, kw_only=True, tag="session"):
    """A session was opened: the following events are all of it, unless it is continued."""

    id: str
    cwd: str = ""
    agent: str = ""
    modes: s.SessionModeState | None = None
    config_options: Sequence[s.SessionConfigOption] = ()
    title: str | None = None
    is_continued: bool = False  # earlier events still hold: the transcript continues


class UpdateTold(_Event, kw_only=True, tag="update"):
    """The agent sent an update."""

    update: s.SessionUpdate


class PromptGiven(_Event, kw_only=True, tag="prompt"):
    """A prompt was sent, which begins a turn; it is not waiting any more."""

    id: str
    prompt: Sequence[s.ContentBlock]


class TurnOver(_Event, kw_only=True, tag="turn_over"):
    """A prompt was answered, or will not be answered."""

    id: str
    response: s.PromptResponse | None = None
    error: str = ""


class PromptWaits(_Event, kw_only=True, tag="waits"):
    """A prompt waits for those before it, or a waiting prompt was edited."""

    prompt: WaitingPrompt


class PromptDropped(_Event, kw_only=True, tag="dropped"):
    """A waiting prompt was dropped."""

    id: str


class QuestionPut(_Event, kw_only=True, tag="question"):
    """A question was asked, or an open question has changed."""

    question: PendingQuestion


class QuestionOver(_Event, kw_only=True, tag="decided"):
    """A question was answered or withdrawn."""

    id: str
    answer: str = ""  # as text; empty if it was withdrawn
    allowed: bool | None = None
    why: str = ""


class DecisionTold(_Event, kw_only=True, tag="decision"):
    """A decision was made without a question."""

    title: str
    allowed: bool
    why: str = ""
    tool_call_id: str = ""


class NoticeTold(_Event, kw_only=True, tag="notice"):
    """A notice that is not from the agent."""

    text: str
    severity: str = "info"


class TerminalBegan(_Event, kw_only=True, tag="terminal"):
    """A command has started in a terminal."""

    id: str
    command: str
    is_mine: bool = False  # the user types into it
    columns: int = 80
    rows: int = 24


class TerminalPrinted(_Event, kw_only=True, tag="printed"):
    """A command has printed output."""

    id: str
    text: str


class TerminalSized(_Event, kw_only=True, tag="sized"):
    """A terminal was resized."""

    id: str
    columns: int
    rows: int


class TerminalOver(_Event, kw_only=True, tag="exit"):
    """A command has ended."""

    id: str
    status: s.TerminalExitStatus | None = None


class PeopleTold(_Event, kw_only=True, tag="people"):
    """All who have the session open."""

    people: Sequence[Participant]


class LinkTold(_Event, kw_only=True, tag="link"):
    """The connection to the agent was opened, lost or given up."""

    link: Link


ModelEvent = (
    SessionBegan
    | UpdateTold
    | PromptGiven
    | TurnOver
    | PromptWaits
    | PromptDropped
    | QuestionPut
    | QuestionOver
    | DecisionTold
    | NoticeTold
    | TerminalBegan
    | TerminalPrinted
    | TerminalSized
    | TerminalOver
    | PeopleTold
    | LinkTold
)
