"""What a person can ask for at a screen; whoever drives the session carries it out."""

from collections.abc import Mapping, Sequence

from ... import schema as s
from ...schema.base import Bare


class _Intent(Bare, kw_only=True, tag_field="intent"):
    pass


class GivePrompt(_Intent, kw_only=True, tag="prompt"):
    """Send a prompt: at once where the agent is idle, else behind those that wait."""

    prompt: Sequence[s.ContentBlock]
    is_steering: bool = False  # send it into the turn that runs


class CancelTurn(_Intent, kw_only=True, tag="cancel"):
    """End the turn that runs."""


class AnswerQuestion(_Intent, kw_only=True, tag="answer"):
    """Answer an open question: with the id of a choice, or with the values of a form."""

    id: str
    choice: str | None = None  # None: no answer, which means no
    content: Mapping[str, s.ElicitationContentValue] | None = None


class SetMode(_Intent, kw_only=True, tag="set_mode"):
    """Have the session in another mode."""

    mode: str


class SetOption(_Intent, kw_only=True, tag="set_option"):
    """Give an option of the session another value."""

    id: str
    value: str | bool


class EditWaiting(_Intent, kw_only=True, tag="edit"):
    """Give a prompt that waits other words."""

    id: str
    prompt: Sequence[s.ContentBlock]


class DropWaiting(_Intent, kw_only=True, tag="drop"):
    """Have a prompt wait no longer, and never be sent."""

    id: str


class SetTitle(_Intent, kw_only=True, tag="set_title"):
    """Give the session another title."""

    title: str


class TypeInto(_Intent, kw_only=True, tag="type"):
    """Type something into the terminal of a command of the person's own."""

    terminal_id: str
    text: str


Intent = (
    GivePrompt | CancelTurn | AnswerQuestion | SetMode | SetOption | EditWaiting | DropWaiting | SetTitle | TypeInto
)
