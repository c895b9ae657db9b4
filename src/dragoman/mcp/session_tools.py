"""The MCP servers of a session for agents' authors: `async with session.tools() as tools`."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

from .. import schema as s
from ..agent.runs import ToolRun
from ..agent.turn import AgentSession, Turn
from ..errors import ConnectionClosed, Error
from ..foundation.owning import finish, own
from .commands import PREFIX, arguments_of, command_of
from .connections import McpFailure
from .contents import PromptMessage, ToolResult, shown_of
from .listings import PromptInfo, ResourceTemplate, ToolInfo, named
from .permissions import CallCheck, ToolPermissions
from .questions import Sampler
from .servers import SessionServer
from .trust import ServerApprovals, ServerTrust, approvals_file

log = logging.getLogger("dragoman")

MAX_SERVERS = 32  # of one session
PROGRESS_PAUSE = 0.25  # seconds between two progress updates of one call
MAX_PROGRESS = 200  # characters of a server's progress message


class SessionTools:
    """The servers of one session.

    They are started or reached with the first `async with` and serve the session until it is closed; each further
    `async with` fetches their changes.  `failures` has the reason for each server that cannot be used.
    """

    def __init__(
        self,
        session: AgentSession,
        *,
        sampling: Sampler | None = None,
        check_call: CallCheck | None = None,
        approvals: ServerApprovals | None = None,
    ) -> None:
        self.servers: Sequence[SessionServer] = ()
        self.failures: dict[str, str] = {}
        self._session = session
        self._sampling = sampling
        self._check_call = check_call or ToolPermissions().admit
        self._trust = ServerTrust(session, approvals or ServerApprovals(approvals_file()))
        self._opening = asyncio.Lock()
        self._is_open = False
        self._following: asyncio.Task[None] | None = None
        self._is_behind = False  # whether a server has changed its prompts since they were last read

    async def __aenter__(self) -> Self:
        async with self._opening:
            if not self._is_open:
                self.servers = await self._connected()
                self._is_open = True
            await self.refresh()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: the servers stay for the session's later turns."""

    async def close(self) -> None:
        """End every server; the end of the session calls this."""
        await finish(self._close())

    async def _close(self) -> None:
        if self._following:
            self._following.cancel()
            await asyncio.wait([self._following])
        async with self._opening:
            for server in self.servers:
                await server.close()
            self.servers = ()

    # Tools

    def __iter__(self) -> Iterator[ToolInfo]:
        """Every tool of every server."""
        for server in self.servers:
            yield from server.tools

    def find(self, name: str) -> ToolInfo:
        """A tool by its name, or by its server's name and its own, `files/read`; raises McpFailure."""
        whole = [tool for tool in self if f"{tool.server}/{tool.name}" == name]
        found = whole or [tool for tool in self if tool.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(f"{tool.server}/{tool.name}" for tool in found)
            raise McpFailure(f"several servers have a tool {name!r}: say which of {names}")
        there = ", ".join(f"{tool.server}/{tool.name}" for tool in self) or "none"
        raise McpFailure(f"there is no tool {name!r}; there are: {there}")

    async def call(
        self, turn: Turn, tool: ToolInfo | str, arguments: Mapping[str, object] | None = None, /
    ) -> ToolResult:
        """Call a tool, visible to the client, once the user agrees; raises McpFailure on failure or refusal."""
        info = self.find(tool) if isinstance(tool, str) else tool
        given = arguments or {}
        title = f"{info.server}: {info.title or info.name}"
        async with turn.tool(title, name=f"mcp__{info.server}__{info.name}", raw_input=dict(given)) as call:
            await self._check_call(turn, call, info, given)
            await call.start()
            result = await self.run(call, info, given)
            await call.show(*(s.Content(content=block) for block in shown_of(result)))
            return result

    async def run(self, call: ToolRun, tool: ToolInfo, arguments: Mapping[str, object]) -> ToolResult:
        """Call a permitted tool; the client sees its progress in the title of the call."""
        told = _Progress(call, f"{tool.server}: {tool.title or tool.name}")
        result = await self._server(tool.server).call(tool.name, arguments, told)
        if told.has_changed:
            await call.update(title=told.title)
        return result

    # Resources

    async def resources(self) -> list[s.ResourceLink]:
        """The resources of every server; raises McpFailure."""
        return [link for server in self.servers for link in await server.resources()]

    async def templates(self) -> list[ResourceTemplate]:
        """The templates of resources of every server; raises McpFailure."""
        return [template for server in self.servers for template in await server.templates()]

    async def read(self, uri: str, *, server: str | None = None) -> list[s.EmbeddedResource]:
        """Read a resource; without a server's name, the first server that has it is used.  Raises McpFailure."""
        if server is not None:
            return await self._server(server).read(uri)
        why = McpFailure("the session has no MCP server that can be used")
        for each in self.servers:
            try:
                return await each.read(uri)
            except McpFailure as exc:
                why = exc
        raise why

    # Prompts

    def prompts(self) -> list[PromptInfo]:
        """The prompts of every server, which the client has as slash commands."""
        return [prompt for server in self.servers for prompt in server.prompts]

    async def prompt(
        self, server: str, name: str, arguments: Mapping[str, str] | None = None
    ) -> list[PromptMessage]:
        """The messages of a prompt; raises McpFailure."""
        return await self._server(server).prompt(name, arguments or {})

    async def complete(self, server: str, prompt: str, argument: str, value: str) -> list[str]:
        """What the value of a prompt's argument may go on to be; raises McpFailure."""
        return await self._server(server).complete(prompt, argument, value)

    async def command(self, turn: Turn) -> list[s.ContentBlock] | None:
        """The messages that a server's slash command stands for; None if the prompt is not such a command.

        Raises McpFailure for arguments that do not fit.
        """
        if not turn.text.startswith(f"/{PREFIX}"):
            return None
        name, _, rest = turn.text[1:].partition(" ")
        prompt = next((each for each in self.prompts() if command_of(each).name == name), None)
        if prompt is None:
            return None
        messages = await self.prompt(prompt.server, prompt.name, arguments_of(prompt, rest))
        others = [block for block in turn.prompt if not isinstance(block, s.TextContent)]
        return [*(message.content for message in messages), *others]

    # What changes

    async def refresh(self) -> None:
        """Fetch the servers' changes, and send the client changed slash commands."""
        for server in self.servers:
            await server.refresh()
        commands = [command_of(prompt) for prompt in self.prompts()]
        if commands != list(self._session.further_commands):
            self._session.further_commands = commands
            await self._session.set_commands(self._session.commands)

    def _note_change(self, kind: str) -> None:
        """Fetch changed slash commands at once, because the user sees them; tools are fetched on their next use."""
        if kind == "prompts" and self._is_open:
            self._is_behind = True
            if self._following is None or self._following.done():
                self._following = own(self._follow(), "slash commands of MCP servers")

    async def _follow(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while self._is_behind:  # prompts may change again while they are learned
                self._is_behind = False
                await self.refresh()

    # The servers

    def _server(self, name: str) -> SessionServer:
        if (server := named(self.servers, name)) is None:
            raise McpFailure(self.failures.get(name) or f"the session has no MCP server {name!r}")
        return server

    async def _connected(self) -> list[SessionServer]:
        """Reach the servers concurrently; one that cannot be reached is reported and left out."""
        configs = self._session.mcp_servers[:MAX_SERVERS]
        trying = [asyncio.create_task(self._reached(config)) for config in configs]
        try:
            if trying:
                await asyncio.wait(trying)
        except asyncio.CancelledError:
            for task in trying:
                task.cancel()
            for found in await asyncio.gather(*trying, return_exceptions=True):
                if not isinstance(found, BaseException):
                    await found.close()
            raise
        servers: list[SessionServer] = []
        for config, task in zip(configs, trying, strict=True):
            if (failure := task.exception()) is None:
                servers.append(task.result())
            else:
                await self._tell(config.name, str(failure))
        for config in self._session.mcp_servers[MAX_SERVERS:]:
            await self._tell(config.name, f"a session can have {MAX_SERVERS} MCP servers, and has more")
        return servers

    async def _reached(self, config: s.McpServer) -> SessionServer:
        server = SessionServer(
            config,
            self._session,
            sampler=self._sampling,
            approve=self._trust.approve,
            changed=self._note_change,
        )
        try:
            await server.start()
        except BaseException:
            await server.close()
            raise
        return server

    async def _tell(self, name: str, why: str) -> None:
        """Warn the user of a server that cannot be used, in whatever form the client can show."""
        self.failures[name] = why
        log.warning("%s", why)
        title = "An MCP server cannot be used"
        if not await self._session.notice(title, why, "warning"):
            text = s.TextContent(text=f"_{title}: {' '.join(why.split())}_\n\n")
            await self._session.update(s.AgentMessageChunk(content=text))


class _Progress:
    """Reports the progress of a call to the client, at a limited rate."""

    def __init__(self, call: ToolRun, title: str) -> None:
        self._call, self.title = call, title
        self.has_changed = False
        self._told, self._next = "", 0.0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        done = f"{progress:g} of {total:g}" if total else f"{progress:g}"
        words = f"{done}: {message[:MAX_PROGRESS]}" if message else done
        now = time.monotonic()
        if words == self._told or now < self._next:
            return
        self._told, self._next, self.has_changed = words, now + PROGRESS_PAUSE, True
        with contextlib.suppress(Error):  # the turn may be over; the call shows the problem
            await self._call.update(title=f"{self.title} ({words})")
