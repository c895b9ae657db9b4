"""The modes of a session limit what the agent may do without asking; the model cannot change them."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from .. import schema as s

Changes = Literal["never", "ask", "edits"]


class Mode(Struct, frozen=True):
    """`changes`: none, each after a question, or edits in the workspace without a question."""

    id: str
    name: str
    description: str
    changes: Changes
    instructions: str

    @property
    def described(self) -> s.SessionMode:
        return s.SessionMode(id=self.id, name=self.name, description=self.description)


MODES: Mapping[str, Mode] = {
    mode.id: mode
    for mode in (
        Mode(
            "ask",
            "Ask",
            "Asks before every change, command and visit",
            "ask",
            "The user is asked before every change and every command. What they refuse, do not try another way.",
        ),
        Mode(
            "code",
            "Code",
            "Edits files of the project without asking; asks before commands and visits",
            "edits",
            "You may edit files of the project freely; the user is asked before commands.",
        ),
        Mode(
            "architect",
            "Architect",
            "Reads and designs; cannot change anything",
            "never",
            "You can read but change nothing and run nothing. Study the code and answer with a design: what to "
            "change where, why, in which order, and what could go wrong.",
        ),
        Mode(
            "plan",
            "Plan",
            "Reads and plans; cannot change anything until the plan is approved",
            "never",
            "You can read but change nothing and run nothing. Study the code, write a plan, and hand it in with "
            "exit_plan; only when the user approves it can you begin.",
        ),
    )
}
DEFAULT = "ask"
