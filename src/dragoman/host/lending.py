"""Answers an agent's requests to its host from the loans of its sessions.

Every method begins with the session: a request for a session without a loan is refused at once.
"""

import asyncio
import importlib.util
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import msgspec

from .. import schema as s
from ..client.client import Client
from ..errors import Error, InvalidParams, MethodNotFound, Overloaded, ResourceNotFound, RpcError
from ..foundation.places import Place
from ..roles import ClientRole, extension
from .answers import check_fits, fitting
from .files import extensions as x
from .files.errors import FileRefused, answering
from .files.workspace import Permit, Workspace
from .isolation.isolation import Isolation
from .loans import Loan
from .operations import FileDelete, FileWrite, Operation
from .permissions.engine import Permissions
from .processes import MissingFiles
from .terminals import extensions as t
from .terminals.running import Terminals, execution
from .terminals.terminal import Size, Terminal, checked_size

MAX_WATCHES = 16  # directories watched by one session
OURS = "_dragoman/"
WATCHING = f"{OURS}fs/watch"

T = TypeVar("T")


class Lender(Client):
    """Answers for files, terminals and permissions; a `Host` says what each session is lent."""

    permissions: Permissions
    terminals: Terminals
    missing_files: MissingFiles = "error"  # how reads of missing files are answered
    isolation: Isolation | None
    _loans: dict[str, Loan]

    def terminal_started(self, terminal: Terminal) -> None:
        """Called when a command starts; override it to show `terminal.follow()`."""

    def capabilities(self) -> s.ClientCapabilities:
        """The capabilities to advertise, with our own methods by name in `_meta`."""
        requests, _ = self.answers(ClientRole)
        ours = sorted(name for name in requests if name.startswith(OURS) and (name != WATCHING or can_watch()))
        return msgspec.structs.replace(super().capabilities(), meta={"dragoman": {"methods": ours}})

    def _loan(self, session_id: str) -> Loan:
        if (loan := self._loans.get(session_id)) is None:
            raise ResourceNotFound("there is no such session here", {"kind": "unknown_session"})
        return loan

    # Permission

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """Answer the agent's own question by rules, preset and user."""
        loan = self._loan(params.session_id)
        return await loan.answer(loan.calls.completed(params))

    async def answered(
        self, params: s.RequestPermissionRequest, response: s.RequestPermissionResponse
    ) -> s.RequestPermissionResponse:
        """The answer to an agent's question that people saw, unchanged, and answered elsewhere.

        The answer is recorded, and a yes covers the operation that they saw, like a yes given here.
        """
        if (loan := self._loans.get(params.session_id)) is None:
            return response
        return await loan.answered(loan.calls.completed(params), response)

    def update(self, params: s.SessionNotification) -> None:
        """Pass an update on to the session, after noting the tool call it is about."""
        self.note_call(params)
        super().update(params)

    def note_call(self, params: s.SessionNotification) -> None:
        """Keep an update's details of a tool call, for a later question about it."""
        if isinstance(params.update, s.ToolCall | s.ToolCallUpdate) and params.session_id in self._loans:
            frame = self.connection.frame
            self._loans[params.session_id].calls.hear(params.update, len(frame) if isinstance(frame, bytes) else 0)

    # Files

    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        """Read a file of the session's directories, if that is permitted."""
        try:
            response = await self._in_files(Workspace.read_text_file, params)
        except ResourceNotFound as exc:
            if self.missing_files == "empty" and isinstance(exc.data, dict) and "uri" in exc.data:
                return s.ReadTextFileResponse(content="")
            raise
        check_fits(response.content, params.path)
        return response

    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        """Write a file of the session's directories, if that is permitted."""
        return await self._in_files(Workspace.write_text_file, params)

    @extension("_dragoman/fs/read_text_file")
    async def read_file(self, params: x.ReadFileRequest) -> x.ReadFileResponse:
        """Read a text file with a given encoding and range of lines."""
        response = await self._in_files(Workspace.read_file, params)
        check_fits(response.content, params.path)
        return response

    @extension("_dragoman/fs/write_text_file")
    async def write_file(self, params: x.WriteFileRequest) -> x.WriteFileResponse:
        """Write a text file with a given encoding, under the given conditions."""
        return await self._in_files(Workspace.write_file, params)

    @extension("_dragoman/fs/read_binary_file")
    async def read_binary_file(self, params: x.ReadBinaryRequest) -> x.ReadBinaryResponse:
        """Read a part of any file, as base64."""
        return await self._in_files(Workspace.read_binary_file, params)

    @extension("_dragoman/fs/write_binary_file")
    async def write_binary_file(self, params: x.WriteBinaryRequest) -> x.WriteFileResponse:
        """Write a file whose content is given as base64."""
        return await self._in_files(Workspace.write_binary_file, params)

    @extension("_dragoman/fs/list_directory")
    async def list_directory(self, params: x.ListDirectoryRequest) -> x.ListDirectoryResponse:
        """List names, types and sizes of a directory."""
        return await self._in_files(Workspace.list_directory, params)

    @extension("_dragoman/fs/create_directory")
    async def create_directory(self, params: x.CreateDirectoryRequest) -> x.CreateDirectoryResponse:
        """Create a directory and those above it."""
        return await self._in_files(Workspace.create_directory, params)

    @extension("_dragoman/fs/apply_edits")
    async def apply_edits(self, params: x.ApplyEditsRequest) -> x.ApplyEditsResponse:
        """Change several files, all or none."""
        return await self._in_files(Workspace.apply_edits, params)

    async def _in_files(self, method: Callable[[Workspace, Any, Permit], Awaitable[T]], params: Any) -> T:
        loan = self._loan(params.session_id)

        async def permit(operation: Operation, diff: s.Diff | None = None) -> None:
            changed = operation.path if isinstance(operation, FileWrite | FileDelete) else None
            if changed and self.isolation and self.isolation.protects(changed):
                raise InvalidParams(
                    f"{changed} is protected, and cannot be changed while the agent runs in a sandbox",
                    {"kind": "not_permitted"},
                )
            await loan.permit(operation, diff)
            if changed:
                await self.terminals.make_way(changed)

        async with loan.use() as workspace:
            return await method(workspace, params, permit)

    @extension(WATCHING)
    async def watch(self, params: x.WatchRequest) -> x.WatchResponse:
        """Begin to report changes; once it is answered, no change is missed."""
        loan = self._loan(params.session_id)
        if not can_watch():
            raise MethodNotFound(data={"method": WATCHING})
        if len(loan.watches) >= MAX_WATCHES:
            raise Overloaded("too many directories are watched; end one first", {"kind": "watch_limit"})
        id = f"watch_{secrets.token_hex(16)}"
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        loan.watches.begin(id, self._watch(loan, id, params, begun))
        try:
            await begun
        except BaseException:
            await loan.watches.end(id)
            raise
        return x.WatchResponse(watch_id=id)

    @extension("_dragoman/fs/unwatch")
    async def unwatch(self, params: x.UnwatchRequest) -> x.UnwatchResponse:
        """End a watch."""
        return x.UnwatchResponse(ended=await self._loan(params.session_id).watches.end(params.watch_id))

    async def _watch(self, loan: Loan, id: str, params: x.WatchRequest, begun: "asyncio.Future[None]") -> None:
        ids: dict[str, Any] = {"session_id": params.session_id, "watch_id": id}
        try:
            async with AsyncExitStack() as watch:
                async with loan.use() as workspace:
                    changes = await watch.enter_async_context(workspace.watch(params, loan.permit))
                begun.set_result(None)
                async for news in changes:
                    await self.agent.room()
                    told = x.WatchNews(**ids, changes=news.changes, overflow=news.overflow)
                    self.agent.notify("_dragoman/fs/changed", told)
        except Error as exc:
            if not begun.done():
                begun.set_exception(exc)
            elif isinstance(exc, RpcError):  # the directory is gone; otherwise the connection is
                self.agent.notify("_dragoman/fs/changed", x.WatchNews(**ids, changes=(), overflow=True, ended=True))

    # Terminals

    async def create_terminal(self, params: s.CreateTerminalRequest) -> s.CreateTerminalResponse:
        """Start a command in the session's directories, if that is permitted."""
        terminal = await self._run(params)
        return s.CreateTerminalResponse(terminal_id=terminal.id)

    async def terminal_output(self, params: s.TerminalOutputRequest) -> s.TerminalOutputResponse:
        """Give a command's output so far, and its exit status once it has ended."""
        return fitting(self._terminal(params).output())

    async def wait_for_terminal_exit(self, params: s.WaitForTerminalExitRequest) -> s.WaitForTerminalExitResponse:
        """Wait until a command has ended."""
        status = await self._terminal(params).wait() or s.TerminalExitStatus()
        return s.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill_terminal(self, params: s.KillTerminalRequest) -> s.KillTerminalResponse:
        """End a command and all processes that it started."""
        await self._terminal(params).kill()
        return s.KillTerminalResponse()

    async def release_terminal(self, params: s.ReleaseTerminalRequest) -> s.ReleaseTerminalResponse:
        """End a command and forget its output."""
        self._loan(params.session_id)
        await self.terminals.release(params.session_id, params.terminal_id)
        return s.ReleaseTerminalResponse()

    @extension("_dragoman/terminal/create")
    async def create_terminal_with(self, params: t.CreateRequest) -> t.CreateResponse:
        """Start a command with a timeout, interactively or with pushed output."""
        size = None if params.size is None else checked_size(params.size.columns, params.size.rows)
        timeout = None if params.timeout is None else params.timeout / 1000
        terminal = await self._run(params, size=size, timeout=timeout, apart=params.push and size is None)
        if params.push:
            self._loan(params.session_id).pushes.begin(terminal.id, self._push(terminal))
        return t.CreateResponse(terminal_id=terminal.id, pid=terminal.pid)

    @extension("_dragoman/terminal/wait_for_exit")
    async def wait_for_exit(self, params: t.WaitRequest) -> t.WaitResponse:
        """Wait until a command ends; all pushed output is sent before the answer."""
        terminal = self._terminal(params)
        status = await terminal.wait(None if params.timeout is None else params.timeout / 1000)
        if status and (pushing := self._loan(params.session_id).pushes.get(terminal.id)):
            await asyncio.wait([pushing])
        output, end = fitting(terminal.output()), status or s.TerminalExitStatus()
        return t.WaitResponse(
            output=output.output,
            truncated=output.truncated,
            timed_out=status is None or terminal.timed_out,
            exit_code=end.exit_code,
            signal=end.signal,
        )

    @extension("_dragoman/terminal/kill")
    async def kill_with(self, params: t.KillRequest) -> t.KillResponse:
        """Send a command a signal, or kill it at once."""
        terminal = self._terminal(params)
        runs = terminal.status is None
        await terminal.kill(params.signal, force=params.force)
        return t.KillResponse(killed=runs)

    @extension("_dragoman/terminal/input")
    async def type_into(self, params: t.InputRequest) -> t.Nothing:
        """Type text into an interactive terminal."""
        await self._terminal(params).input(params.text)
        return t.Nothing()

    @extension("_dragoman/terminal/resize")
    async def resize(self, params: t.ResizeRequest) -> t.Nothing:
        """Change the size of an interactive terminal."""
        self._terminal(params).resize(params.columns, params.rows)
        return t.Nothing()

    def _terminal(self, params: Any) -> Terminal:
        self._loan(params.session_id)
        return self.terminals.find(params.session_id, params.terminal_id)

    async def _run(
        self,
        params: s.CreateTerminalRequest,
        *,
        size: Size | None = None,
        timeout: float | None = None,
        apart: bool = False,
    ) -> Terminal:
        """Run a command in a directory of the session, which was opened before the user was asked."""
        loan = self._loan(params.session_id)
        async with loan.use() as workspace:
            named = params.cwd or workspace.directories[0]
            with workspace.directory(named) as directory:
                place = Place(directory.open(), directory.path)
            with place:
                operation = execution(
                    params.command,
                    params.args,
                    cwd=place.path,
                    env=[(variable.name, variable.value) for variable in params.env],
                    interactive=size is not None,
                )
                await loan.permit(operation)
                with answering(named):
                    if place.now() != place.path:  # moved meanwhile: it is not the allowed directory any more
                        raise FileRefused("changed")
                terminal = await self.terminals.create(
                    params.session_id,
                    operation,
                    directory=place,
                    roots=workspace.places,
                    output_byte_limit=params.output_byte_limit,
                    timeout=timeout,
                    size=size,
                    apart=apart,
                )
        self._started(terminal)
        return terminal

    def _started(self, terminal: Terminal) -> None:
        self.terminal_started(terminal)

    async def _push(self, terminal: Terminal) -> None:
        async for chunk in terminal.follow():
            await self.agent.room()
            told = t.PushedOutput(
                session_id=terminal.session_id, terminal_id=terminal.id, stream=chunk.stream, text=chunk.text
            )
            self.agent.notify("_dragoman/terminal/output", told)


def can_watch() -> bool:
    """Whether the library that watches files is installed."""
    return importlib.util.find_spec("watchfiles") is not None
