"""Running commands."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from ..history import Part
from ..workplace import Ended, Workplace
from .tool import Failed, Tool, Work, said

USUAL, LONGEST = 120, 1800  # seconds


class RunCommand(Tool):
    """Run a shell command in the working directory and wait for it. Use it for tests, builds and version control,
    not for reading or editing files. Give it no input and nothing that never ends."""

    name = "run_command"
    kind = "execute"

    command: Annotated[str, Meta(min_length=1, description="The command line.")]
    cwd: Annotated[str, Meta(description="Where to run it, if not in the working directory.")] = ""
    timeout: Annotated[int, Meta(ge=1, le=LONGEST, description="Seconds it may take.")] = USUAL

    def title(self, place: Workplace) -> str:
        return self.command

    async def run(self, work: Work) -> Sequence[Part]:
        operation = work.place.command(self.command, self.cwd)
        ended = await work.place.run(work.turn, work.call, operation, self.timeout)
        await work.call.update(raw_output={"output": ended.output[-4000:], "exitCode": ended.code})
        parts = said(work.place, f"{_how(ended, self.timeout)}\n{ended.output}".rstrip(), work.call.id)
        if ended.code != 0:
            raise Failed("\n".join(part.text for part in parts if hasattr(part, "text")))
        return parts


def _how(ended: Ended, timeout: int) -> str:
    cut = " The beginning of its output is gone." if ended.truncated else ""
    if ended.timed_out:
        return f"It took longer than {timeout} s and was killed.{cut}"
    if ended.signal:
        return f"It was killed by {ended.signal}.{cut}"
    return f"Exit code {ended.code}.{cut}"
