"""The requests that a person can make at a screen; the driver of the session carries them out."""

from collections.abc import Mapping, Sequence

from ... import schema as s
from ...schema.base import Bare


class _Intent(Bare, kw_only=True, tag_field="intent"):
    pass


class GivePrompt(_Intent, kw_only=True, tag="prompt"):
    """Send a prompt: at once if the agent is idle, else after the waiting ones."""

    prompt: Sequence[s.ContentBlock]
    is_steering: bool = False  # send it into the running turn


class CancelTurn(_Intent, kw_only=True, tag="cancel"):
    """Cancel the running turn."""


class AnswerQuestion(_Intent, kw_only=True, tag="answer"):
    """Answer an open question: with the id of a choice, or with the values of a form."""

    id: str
    choice: str | None = None  # None: no answer, which counts as no
    content: Mapping[str, s.ElicitationContentValue] | None = None


class SetMode(_Intent, kw_only=True, tag="set_mode"):
    """Change the session's mode."""

    mode: str


class SetOption(_Intent, kw_only=True, tag="set_option"):
    """Change an option of the session."""

    id: str
    value: str | bool


class EditWaiting(_Intent, kw_only=True, tag="edit"):
    """Edit a waiting prompt."""

    id: str
    prompt: Sequence[s.ContentBlock]


class DropWaiting(_Intent, kw_only=True, tag="drop"):
    """Drop a waiting prompt."""

    id: str


class SetTitle(_Intent, kw_only=True, tag="set_title"):
    """Change the session's title."""

    title: str


class TypeInto(_Intent, kw_only=True, tag="type"):
    """Type into the terminal of a user's command."""

    terminal_id: str
    text: str


Intent = (
    GivePrompt | CancelTurn | AnswerQuestion | SetMode | SetOption | EditWaiting | DropWaiting | SetTitle | TypeInto
)
