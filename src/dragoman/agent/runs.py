"""The work of a turn as the client sees it: tool calls, and commands in the client's terminals."""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Struct
from msgspec.structs import replace

from .. import schema as s
from ..connection.remotes import RemoteClient
from ..errors import Error, brief

if TYPE_CHECKING:
    from .turn import Turn


class Permission(Struct, frozen=True):
    """The user's decision; true if it allows.  `option` is None if the question was cancelled."""

    option: s.PermissionOption | None

    def __bool__(self) -> bool:
        return self.option is not None and self.option.kind in ("allow_once", "allow_always")


class ToolRun:
    """A tool call as the client sees it: pending, then in progress, then completed or failed."""

    def __init__(self, turn: "Turn", call: s.ToolCall) -> None:
        self._turn = turn
        self._call = call
        self._content: list[s.ToolCallContent] = []
        self._status: s.ToolCallStatus = "pending"
        self._failure: str | None = None

    @property
    def id(self) -> str:
        """The id of the tool call."""
        return self._call.tool_call_id

    def described(self) -> s.ToolCallUpdate:
        """The call as a permission request shows it."""
        call = self._call
        return s.ToolCallUpdate(
            tool_call_id=call.tool_call_id,
            title=call.title,
            kind=call.kind,
            name=call.name,
            status=self._status,
            content=list(self._content) or None,
            locations=call.locations or None,
            raw_input=call.raw_input,
        )

    async def start(self) -> None:
        """Mark the call as in progress."""
        if self._status == "pending":
            await self.update(status="in_progress")

    async def text(self, text: str) -> None:
        """Add text to what the tool shows."""
        await self.show(s.Content(content=s.TextContent(text=text)))

    async def diff(self, path: str | os.PathLike[str], old_text: str | None, new_text: str) -> None:
        """Add a file's change; no old text means a new file."""
        await self.show(s.Diff(path=self._turn.session.path(path), old_text=old_text, new_text=new_text))

    async def terminal(self, terminal: "TerminalRun") -> None:
        """Show a terminal live."""
        if not isinstance(terminal, TerminalRun):
            raise TypeError(f"terminal() shows what `turn.terminal(…)` gives, and not {brief(repr(terminal))}")
        await self.show(s.Terminal(terminal_id=terminal.id))

    async def show(self, *content: s.ToolCallContent) -> None:
        """Add blocks to the tool call; a call that is not allowed yet stays pending."""
        self._content += content
        await self._send(s.ToolCallUpdated(tool_call_id=self.id, content=list(self._content)))

    async def update(
        self,
        *,
        title: str | None = None,
        kind: s.ToolKind | None = None,
        status: s.ToolCallStatus | None = None,
        locations: Sequence[s.ToolCallLocation] | None = None,
        raw_input: Any = s.UNSET,
        raw_output: Any = s.UNSET,
    ) -> None:
        """Send the client changes of the call."""
        self._status = status or self._status
        call = self._call  # a later question shows the call as the client knows it by then
        self._call = replace(
            call,
            title=title or call.title,
            kind=kind or call.kind,
            locations=call.locations if locations is None else locations,
            raw_input=call.raw_input if raw_input is s.UNSET else raw_input,
        )
        await self._send(
            s.ToolCallUpdated(
                tool_call_id=self.id,
                title=title,
                kind=kind,
                status=status,
                locations=locations,
                raw_input=raw_input,
                raw_output=raw_output,
            )
        )

    def fail(self, why: str) -> None:
        """Let the call end as failed when its block ends; the turn goes on."""
        if not isinstance(why, str):
            raise TypeError(f"fail() takes the reason as a text, and not {brief(repr(why))}")
        self._failure = why

    async def decided(self, permission: Permission) -> None:
        """Apply the user's decision: start the call, or let it fail."""
        if permission:
            await self.start()
        else:
            self.fail("The user did not allow it." if permission.option else "Cancelled.")

    async def __aenter__(self) -> Self:
        await self._send(self._call)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if exc is not None:
            self._failure = _told(exc)
        if self._failure is not None:
            self._content.append(s.Content(content=s.TextContent(text=self._failure)))
        if self._turn.ended:
            return
        outcome = s.ToolCallUpdated(
            tool_call_id=self.id,
            status="completed" if self._failure is None else "failed",
            content=None if self._failure is None else list(self._content),
        )
        with contextlib.suppress(Error) if exc is not None else contextlib.nullcontext():
            await self._send(outcome)

    async def _send(self, update: s.SessionUpdate) -> None:
        await self._turn.update(update)


class TerminalRun:
    """A command running in one of the client's terminals."""

    def __init__(self, client: RemoteClient, session_id: str, terminal_id: str) -> None:
        self._client = client
        self._ids: dict[str, Any] = {"session_id": session_id, "terminal_id": terminal_id}
        self.id = terminal_id
        self._released = False

    async def output(self) -> s.TerminalOutputResponse:
        """Give the output so far and, once the command has ended, its exit status."""
        return await self._client.terminal_output(s.TerminalOutputRequest(**self._ids))

    async def wait(self, timeout: float | None = None) -> s.WaitForTerminalExitResponse:
        """Wait for the exit status; after `timeout` seconds the command is killed."""
        request = s.WaitForTerminalExitRequest(**self._ids)
        try:
            async with asyncio.timeout(timeout):
                return await self._client.wait_for_terminal_exit(request)
        except TimeoutError:
            await self.kill()
            return await self._client.wait_for_terminal_exit(request)

    async def kill(self) -> None:
        """End the command; its output can still be read."""
        await self._client.kill_terminal(s.KillTerminalRequest(**self._ids))

    async def release(self) -> None:
        """Release the terminal and end the command if it still runs."""
        if not self._released:
            self._released = True
            await self._client.release_terminal(s.ReleaseTerminalRequest(**self._ids))


def _told(exc: BaseException) -> str:
    """The text of an exception for the client: the message of our own errors, only the type of others."""
    if isinstance(exc, asyncio.CancelledError):
        return "Cancelled."
    return str(exc) if isinstance(exc, Error) else f"{type(exc).__name__}; the agent's log says more."
