"""What happens in a conversation, as the model is told of it: by a session, its host and its gateway.

`at` is when it happened, in seconds of whichever clock the teller uses for all of them; without it nothing is told
of how long things took.
"""

from collections.abc import Sequence

from ... import schema as s
from ...schema.base import Bare
from .parts import Link, Participant, PendingQuestion, WaitingPrompt


class _Event(Bare, kw_only=True, tag_field="event"):
    at: float | None = None


class SessionBegan(_Event, kw_only=True, tag="session"):
    """A session is open, new or once more: what is told of it from here on is all there is, unless it goes on."""

    id: str
    cwd: str = ""
    agent: str = ""
    modes: s.SessionModeState | None = None
    config_options: Sequence[s.SessionConfigOption] = ()
    title: str | None = None
    is_continued: bool = False  # what was told before is still true: the transcript goes on


class UpdateTold(_Event, kw_only=True, tag="update"):
    """The agent told an update."""

    update: s.SessionUpdate


class PromptGiven(_Event, kw_only=True, tag="prompt"):
    """A prompt was sent, which begins a turn; it waits no longer."""

    id: str
    prompt: Sequence[s.ContentBlock]


class TurnOver(_Event, kw_only=True, tag="turn_over"):
    """A prompt was answered, or will not be."""

    id: str
    response: s.PromptResponse | None = None
    error: str = ""


class PromptWaits(_Event, kw_only=True, tag="waits"):
    """A prompt waits for those before it, or one that waits has other words."""

    prompt: WaitingPrompt


class PromptDropped(_Event, kw_only=True, tag="dropped"):
    """A prompt waits no longer and was not sent."""

    id: str


class QuestionPut(_Event, kw_only=True, tag="question"):
    """Somebody has to decide something, or something about an open question is told anew."""

    question: PendingQuestion


class QuestionOver(_Event, kw_only=True, tag="decided"):
    """A question was answered or withdrawn."""

    id: str
    answer: str = ""  # in words; nothing where it was withdrawn
    allowed: bool | None = None
    why: str = ""


class DecisionTold(_Event, kw_only=True, tag="decision"):
    """Something was decided without a question."""

    title: str
    allowed: bool
    why: str = ""
    tool_call_id: str = ""


class NoticeTold(_Event, kw_only=True, tag="notice"):
    """Something to know that the agent did not say."""

    text: str
    severity: str = "info"


class TerminalBegan(_Event, kw_only=True, tag="terminal"):
    """A command has a terminal."""

    id: str
    command: str
    is_mine: bool = False  # the person types into it
    columns: int = 80
    rows: int = 24


class TerminalPrinted(_Event, kw_only=True, tag="printed"):
    """A command printed something."""

    id: str
    text: str


class TerminalSized(_Event, kw_only=True, tag="sized"):
    """A terminal has another size."""

    id: str
    columns: int
    rows: int


class TerminalOver(_Event, kw_only=True, tag="exit"):
    """A command has ended, and how."""

    id: str
    status: s.TerminalExitStatus | None = None


class PeopleTold(_Event, kw_only=True, tag="people"):
    """All who have the session open."""

    people: Sequence[Participant]


class LinkTold(_Event, kw_only=True, tag="link"):
    """The way to the agent opened, broke, or was given up."""

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
