"""The reviewer: an agent made of rules and linters, without a language model."""

from types import TracebackType
from typing import TYPE_CHECKING

from .. import __version__
from .. import schema as s
from ..agent.agent import Agent
from ..agent.turn import Turn
from ..connection.remotes import RemoteClient

if TYPE_CHECKING:
    from .intake import PromptIntake


# Each command with its description and its arguments.
COMMANDS = (
    (
        "review",
        "Review the project, or the given files and directories",
        "files, directories, diff [commit], staged; nothing: everything",
    ),
    (
        "fix",
        "Make safe repairs, showing each change first",
        "files, directories, diff, staged, or codes of findings",
    ),
    ("explain", "Explain why a finding matters", "a code such as F401, or file:line"),
    ("todo", "List the notes left for later", "files or directories; nothing: everything"),
    ("help", "Explain the commands of this agent", ""),
)


class Reviewer(Agent):
    """Reviews files, changes or a whole project, and repairs what is safe to repair."""

    info = s.Implementation(
        name="dragoman-reviewer", title="Dragoman Reviewer (no language model)", version=__version__
    )
    accepts = ("embedded_context",)
    commands = tuple(
        s.AvailableCommand(
            name=name, description=description, input=s.UnstructuredCommandInput(hint=hint) if hint else None
        )
        for name, description, hint in COMMANDS
    )

    def __init__(self, client: RemoteClient) -> None:
        super().__init__(client)
        self._intake: PromptIntake | None = None

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._intake:
            await self._intake.close()

    async def answer(self, turn: Turn, *, only_looks: bool = False) -> s.StopReason | None:
        """Answer a prompt; in the mode `only_looks`, change no file and run no code of the project."""
        from .intake import PromptIntake  # loaded with the first prompt, since `initialize` does not need it

        if self._intake is None:
            self._intake = PromptIntake()
        return await self._intake.answer(turn, only_looks=only_looks)
