"""Commands in the client's terminals: run them, watch them in the background, stop them."""

import asyncio
import contextlib
from collections.abc import Mapping

from msgspec import Struct

from .... import schema as s
from ....agent.runs import TerminalRun
from ....agent.turn import AgentSession, new_id
from ....errors import Error
from ....foundation.documents import Json
from ....foundation.owning import finish, take
from ..tools.outcome import Outcome, fenced
from ..tools.shown import texts, words
from .files import ToolError

MAX_OUTPUT = 32 * 1024  # bytes
TIMEOUT, MAX_TIMEOUT = 120.0, 600.0  # seconds


class Background(Struct):
    """A command that runs while Claude continues."""

    terminal: TerminalRun
    told: int = 0  # characters of its output


class LentCommands:
    """Runs commands through the client; keeps the output of those in the background until it is requested."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._running: dict[str, Background] = {}

    async def run(self, id: str, given: Mapping[str, Json]) -> tuple[str, Outcome | None]:
        """Run a command to its end, or start it in the background."""
        if not words(given, "command"):
            raise ToolError("command is missing")
        terminal = await take(self._created(words(given, "command")), self._released, cancels=False)
        await self._show(id, terminal)
        if given.get("run_in_background") is True:
            name = new_id("shell")
            self._running[name] = Background(terminal)
            return f"The command runs in the background as {name}. BashOutput reads what it prints.", None
        try:
            exited = await _exit(terminal, _seconds(given))
            output = await terminal.output()
        finally:
            await finish(self._released(terminal))
        told = _told(output.output, output.truncated, exited)
        failed = exited is None or exited.exit_code != 0
        content = [s.Terminal(terminal_id=terminal.id)]
        code = exited.exit_code if exited else None
        return told, Outcome(failed, content, output=output.output, exit_code=code)

    async def output(self, given: Mapping[str, Json]) -> str:
        """The new output of a command in the background."""
        name, running = self._named(words(given, "task_id") or words(given, "bash_id"))
        if given.get("block") is True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_seconds(given)):
                    await running.terminal.wait()
        output = await running.terminal.output()
        fresh, running.told = output.output[running.told :], len(output.output)
        if output.exit_status is None:
            return f"{fresh}\n(The command is still running.)"
        del self._running[name]
        await self._released(running.terminal)
        return _told(fresh, output.truncated, output.exit_status)

    async def kill(self, given: Mapping[str, Json]) -> str:
        """Stop a command in the background."""
        name, running = self._named(words(given, "shell_id") or words(given, "task_id"))
        del self._running[name]
        await running.terminal.kill()
        await self._released(running.terminal)
        return f"{name} was stopped."

    async def close(self) -> None:
        """Release every terminal."""
        running, self._running = list(self._running.values()), {}
        for one in running:
            await self._released(one.terminal)

    async def _created(self, command: str) -> TerminalRun:
        request = s.CreateTerminalRequest(
            session_id=self._session.id,
            command="bash",
            args=["-c", command],
            env=[s.EnvVariable(name="CLAUDECODE", value="1")],
            cwd=self._session.cwd,
            output_byte_limit=MAX_OUTPUT,
        )
        created = await self._session.client.create_terminal(request)
        return TerminalRun(self._session.client, self._session.id, created.terminal_id)

    async def _released(self, terminal: TerminalRun) -> None:
        with contextlib.suppress(Error):
            await terminal.release()

    async def _show(self, id: str, terminal: TerminalRun) -> None:
        """Show the terminal in the tool call while the command runs."""
        content = [s.Terminal(terminal_id=terminal.id)]
        await self._session.update(s.ToolCallUpdated(tool_call_id=id, status="in_progress", content=content))

    def _named(self, name: str) -> tuple[str, Background]:
        if name not in self._running:
            raise ToolError(f"no command runs in the background as {name!r}")
        return name, self._running[name]


async def _exit(terminal: TerminalRun, seconds: float) -> s.TerminalExitStatus | None:
    """How a command ended; None if it took too long and was stopped."""
    try:
        async with asyncio.timeout(seconds):
            status = await terminal.wait()
    except TimeoutError:
        await terminal.kill()
        return None
    return s.TerminalExitStatus(exit_code=status.exit_code, signal=status.signal)


def _seconds(given: Mapping[str, Json]) -> float:
    value = given.get("timeout")
    wanted = value / 1000 if isinstance(value, int | float) and value > 0 else TIMEOUT
    return min(wanted, MAX_TIMEOUT)


def _told(output: str, truncated: bool, exited: s.TerminalExitStatus | None) -> str:
    """The result of a command for the model."""
    parts = ["(The beginning of the output is left out.)"] if truncated else []
    parts.append(output.rstrip("\n"))
    if exited is None:
        parts.append("The command took too long and was stopped.")
    elif exited.signal:
        parts.append(f"The command was ended by {exited.signal}.")
    elif exited.exit_code:
        parts.append(f"Exit code {exited.exit_code}")
    return "\n".join(part for part in parts if part) or "(no output)"


def failed(why: str) -> Outcome:
    """The result of a failed call, with the reason."""
    return Outcome(True, texts(fenced(why)))
