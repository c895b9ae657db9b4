"""Running commands."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from ..context.history import Part, TextPart
from ..markdown import fenced
from ..workplace import CommandEnd, Workplace
from .tool import Failed, Tool, Work, said

USUAL, LONGEST = 120, 1800  # seconds
MAX_SHOWN = 4000  # characters of output that the user sees where there is no terminal


class RunCommand(Tool):
    """Run a shell command in the working directory and wait for it. Use it for tests, builds and version control,
    not for reading or editing files. It gets no input; what never ends belongs in the background."""

    name = "run_command"
    kind = "execute"

    command: Annotated[str, Meta(min_length=1, description="The command line.")]
    cwd: Annotated[str, Meta(description="Where to run it, if not in the working directory.")] = ""
    timeout: Annotated[int, Meta(ge=1, le=LONGEST, description="Seconds it may take.")] = USUAL
    background: Annotated[bool, Meta(description="Do not wait: for servers and the like.")] = False

    def title(self, place: Workplace) -> str:
        """Quote the command."""
        return f"{self.command} (in {place.shown(place.session.path(self.cwd))})" if self.cwd else self.command

    async def run(self, work: Work) -> Sequence[Part]:
        """Run the command after the user agreed and return its output and exit status."""
        operation = work.place.command(self.command, self.cwd)
        if self.background:
            id = await work.place.start(work.turn, work.call, operation)
            return [TextPart(f"It runs as {id}. Read it with command_output, end it with stop_command.")]
        ended = await work.place.run(work.turn, work.call, operation, self.timeout)
        await work.call.update(raw_output={"output": ended.output[-MAX_SHOWN:], "exitCode": ended.code})
        if not ended.seen and ended.output.strip():
            await work.call.text(fenced(ended.output[-MAX_SHOWN:]))
        how = _how(ended, self.timeout)
        parts = said(work.place, f"{how}\n{ended.output}".rstrip(), work.call.id)
        if ended.code != 0:
            raise Failed("\n".join(part.text for part in parts if isinstance(part, TextPart)), how)
        return parts


class CommandOutput(Tool):
    """Read what a command in the background has printed so far, and whether it still runs."""

    name = "command_output"
    kind = "read"
    parallel = True

    id: Annotated[str, Meta(description="What run_command called it.")]

    def title(self, place: Workplace) -> str:
        """Name the command that runs in the background."""
        return f"Read the output of {self.id}"

    async def run(self, work: Work) -> Sequence[Part]:
        """Return what the command has printed so far and whether it still runs."""
        printed = await work.place.printed(self.id)
        status = printed.exit_status
        how = "It still runs." if status is None else _how(CommandEnd("", status.exit_code, status.signal), 0)
        return said(work.place, f"{how}\n{printed.output}".rstrip(), work.call.id)


class StopCommand(Tool):
    """End a command in the background."""

    name = "stop_command"
    kind = "execute"

    id: Annotated[str, Meta(description="What run_command called it.")]

    def title(self, place: Workplace) -> str:
        """Name the command."""
        return f"Stop {self.id}"

    async def run(self, work: Work) -> Sequence[Part]:
        """End a command that runs in the background."""
        work.place.permissions.must_be_able_to_change()
        await work.place.stop(self.id)
        return [TextPart("It is over.")]


def _how(ended: CommandEnd, timeout: int) -> str:
    cut = " The beginning of its output is gone." if ended.truncated else ""
    if ended.timed_out:
        return f"It took longer than {timeout} s and was killed.{cut}"
    if ended.signal:
        return f"It was killed by {ended.signal}.{cut}"
    if ended.code is None:
        return f"It ended, and the client does not say how.{cut}"
    return f"Exit code {ended.code}.{cut}"
