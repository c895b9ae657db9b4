"""`Turn`, one prompt being answered, and the `AgentSession` it belongs to."""

import contextlib
import itertools
import os
from binascii import b2a_base64
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .. import codec
from .. import schema as s
from ..connection.remotes import RemoteClient
from ..dialects.engine.shapes import MESSAGE_ID
from ..envelope import Notification, sendable
from ..errors import ConnectionClosed, LocalProtocolError, NotOffered, brief
from ..foundation.owning import finish, take
from ..roles import ClientRole, methods, offered
from .runs import Permission, TerminalRun, ToolRun

if TYPE_CHECKING:
    from ..mcp import ServerApprovals, SessionTools
    from ..mcp.permissions import CallCheck
    from ..mcp.questions import Sampler

MAX_ID = 256  # characters of a message's id
MAX_PIECE = 1024 * 1024  # characters in one update; six times as many bytes at most
_URL_SAFE = str.maketrans("+/", "-_")

ALLOW_OR_NOT = (
    s.PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
    s.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
)

# In the `_meta` of a permission request: after a refusal the agent does the work without the tool.
OPTIONAL = {"dragoman": {"optional": True}}

Chunk = s.AgentMessageChunk | s.AgentThoughtChunk
UPDATE = methods(ClientRole)["update"]


def _around(kind: type[Chunk]) -> list[bytes]:
    """The bytes of a chunk's frame around the session's id, the text and the message's id."""
    hole = "?"
    chunk = kind(content=s.TextContent(text=hole), message_id=hole)
    update = s.SessionNotification(session_id=hole, update=chunk)
    return sendable(Notification(UPDATE.name, update)).split(codec.encode(hole))


# Most frames of an agent carry pieces of text: everything around the text is encoded once a message.
_AROUND = {kind: _around(kind) for kind in (s.AgentMessageChunk, s.AgentThoughtChunk)}


def _number_messages() -> None:
    """Count messages from a random number on, and from another one in a fork: their ids need only differ."""
    global _message_numbers
    _message_numbers = itertools.count(int.from_bytes(os.urandom(6), "big"))


_message_numbers: Iterator[int]
_number_messages()
if hasattr(os, "register_at_fork"):  # not everywhere
    os.register_at_fork(after_in_child=_number_messages)


class AgentSession:
    """A session on the agent's side; `state` is for the agent author's own data."""

    def __init__(
        self,
        client: RemoteClient,
        id: str,
        cwd: str,
        *,
        additional_directories: Sequence[str] = (),
        mcp_servers: Sequence[s.McpServer] = (),
        system_prompt: s.SystemPrompt | None = None,
        meta: s.JsonObject | None = None,
        mode: str | None = None,
        config_options: Sequence[s.SessionConfigOption] = (),
    ) -> None:
        self.client = client
        self.id = id
        self.cwd = cwd
        self.additional_directories = additional_directories
        self.mcp_servers = mcp_servers
        self.system_prompt = system_prompt
        self.meta = meta  # the client's `_meta` at the opening of the session
        self.mode = mode
        self.config_options = config_options
        self.state: dict[str, Any] = {}
        self.commands: Sequence[s.AvailableCommand] = ()
        self.further_commands: Sequence[s.AvailableCommand] = ()  # of the session's MCP servers
        self._tools: SessionTools | None = None
        self.keeper: Callable[[AgentSession], Awaitable[None]] | None = None  # stores `state`

    def config(self, id: str) -> str | bool:
        """The current value of a config option."""
        for option in self.config_options:
            if isinstance(option, s.SessionConfigSelect | s.SessionConfigBoolean) and option.id == id:
                return option.current_value
        raise KeyError(id)

    def path(self, path: str | os.PathLike[str]) -> str:
        """Make a path absolute; a relative one counts from the session's directory."""
        return os.path.normpath(os.path.join(self.cwd, path))

    async def update(self, update: s.SessionUpdate) -> None:
        """Send an update of any kind; waits while the client does not keep up."""
        if wrong := codec.unsendable(update, s.SessionUpdate):
            raise TypeError(f"this {type(update).__name__} cannot be sent: {wrong}")
        self.client.update(s.SessionNotification(session_id=self.id, update=update))
        if self.client.wire.is_full:
            await self.client.room()

    async def save(self) -> None:
        """Store `state`, which must be JSON, after all updates sent so far; without a store this does nothing."""
        if self.keeper:
            await self.keeper(self)

    async def set_mode(self, mode_id: str) -> None:
        """Switch the mode and tell the client."""
        self.mode = mode_id
        await self.update(s.CurrentModeUpdate(current_mode_id=mode_id))

    async def set_config_options(self, options: Sequence[s.SessionConfigOption]) -> None:
        """Replace the config options, values and all."""
        self.config_options = options
        await self.update(s.ConfigOptionUpdate(config_options=shown_options(self.client, options)))

    async def set_commands(self, commands: Sequence[s.AvailableCommand]) -> None:
        """Tell the client which slash commands there are, besides those of the MCP servers in use."""
        self.commands = commands
        await self.update(s.AvailableCommandsUpdate(available_commands=[*commands, *self.further_commands]))

    def tools(
        self,
        *,
        sampling: "Sampler | None" = None,
        check_call: "CallCheck | None" = None,
        approvals: "ServerApprovals | None" = None,
    ) -> "SessionTools":
        """Give the session's MCP servers: `async with session.tools() as tools:` in a turn.

        They start with the first block and end with the session.  `sampling` answers servers' requests to the
        agent's model, which are refused without it; `check_call` decides on calls instead of the user and their
        rules; `approvals` remembers which servers were allowed.  The options count when this is first called.
        """
        if self._tools is None:
            from ..mcp import SessionTools

            self._tools = SessionTools(self, sampling=sampling, check_call=check_call, approvals=approvals)
        return self._tools

    async def end(self) -> None:
        """End the session's MCP servers; the agent calls this when the session or the connection ends."""
        if self._tools is not None:
            await self._tools.close()

    async def set_title(self, title: str | None) -> None:
        """Name the session; None clears the name."""
        await self.update(s.SessionInfoUpdate(title=title))

    async def report_usage(self, used: int, size: int, cost: s.Cost | None = None) -> None:
        """Tell how much of the context window is used, and what the session has cost so far."""
        await self.update(s.UsageUpdate(used=used, size=size, cost=cost))

    async def notice(self, title: str, description: str | None = None, severity: s.NoticeSeverity = "info") -> bool:
        """Show the user a short notice; false if the client cannot show one."""
        if not offered(self.client.offers, "session.notices"):
            return False
        await self.update(s.Notice(severity=severity, title=title, description=description))
        return True


class Turn:
    """One prompt being answered."""

    usage: s.Usage | None = None  # set these two to send them with the answer
    answer_meta: s.JsonObject | None = None
    ended = False
    _speaker: type | None = None  # the role of the message that is being sent
    _message_id = ""
    _head = _tail = b""  # the bytes around a text in its frame; None where frames are not made here

    def __init__(self, session: AgentSession, request: s.PromptRequest) -> None:
        self.session = session
        self.client = session.client
        self.prompt = request.prompt
        self.meta = request.meta

    @property
    def message_id(self) -> str | None:
        """The client's id for this prompt, which a replay uses again; None if the client gave none."""
        given = (self.meta or {}).get(MESSAGE_ID)
        return given if isinstance(given, str) and 0 < len(given) <= MAX_ID else None

    @property
    def text(self) -> str:
        """The prompt's words, without its images, files and links."""
        return "\n".join(block.text for block in self.prompt if isinstance(block, s.TextContent))

    # Telling

    async def update(self, update: s.SessionUpdate) -> None:
        """Send an update of any kind; waits while the client does not keep up."""
        if self.ended:
            raise LocalProtocolError("the turn has ended; nothing can be added to it")
        self._speaker = None
        await self.session.update(update)

    async def say(self, content: str | s.ContentBlock) -> None:
        """Send text or a content block to the user; consecutive calls extend one message.

        A text too long for one update is sent in several.
        """
        if self._speak(s.AgentMessageChunk, content) or self.client.wire.is_full:
            await self._speak_on(s.AgentMessageChunk, content)

    async def think(self, content: str | s.ContentBlock) -> None:
        """Send a thought."""
        if self._speak(s.AgentThoughtChunk, content) or self.client.wire.is_full:
            await self._speak_on(s.AgentThoughtChunk, content)

    def _speak(self, kind: type[Chunk], content: str | s.ContentBlock) -> bool:
        """Send a block, or as much of a text as one update takes; returns whether some text is left."""
        if self.ended:
            raise LocalProtocolError("the turn has ended; nothing can be added to it")
        if self._speaker is not kind:
            self._begin_message(kind)
        if not isinstance(content, str):
            self._send(kind, _block(content))
            return False
        piece = content if len(content) <= MAX_PIECE else content[:MAX_PIECE]
        if self._head:
            self.client.wire.tell(UPDATE, self._head + codec.encode(piece) + self._tail)
        else:
            self._send(kind, s.TextContent(text=piece))
        return piece is not content

    def _begin_message(self, kind: type[Chunk]) -> None:
        """Give the next message its id, and encode the bytes around each of its texts."""
        self._speaker, self._message_id = kind, f"{next(_message_numbers):012x}"
        if type(self.client).update is RemoteClient.update:  # otherwise an override has to see each chunk
            first, second, third, last = _AROUND[kind]
            self._head = first + codec.encode(self.session.id) + second
            self._tail = third + codec.encode(self._message_id) + last

    def _send(self, kind: type[Chunk], block: s.ContentBlock) -> None:
        update = kind(content=block, message_id=self._message_id)
        self.client.update(s.SessionNotification(session_id=self.session.id, update=update))

    async def _speak_on(self, kind: type[Chunk], content: str | s.ContentBlock) -> None:
        """Wait until the client has taken most of what was sent; send the rest of a long text piece by piece."""
        await self.client.room()
        if isinstance(content, str):
            for at in range(MAX_PIECE, len(content), MAX_PIECE):
                self._speak(kind, content[at : at + MAX_PIECE])
                await self.client.room()

    async def plan(self, *entries: str | s.PlanEntry) -> None:
        """Show the whole plan, which replaces the last one; a string is a pending step."""
        for entry in entries:
            if not isinstance(entry, str | s.PlanEntry):
                raise TypeError(f"plan() takes its steps one by one, plan('a', 'b'), and not {brief(repr(entry))}")
        steps = [
            s.PlanEntry(content=entry, priority="medium", status="pending") if isinstance(entry, str) else entry
            for entry in entries
        ]
        await self.update(s.Plan(entries=steps))

    # Doing

    def tool(
        self,
        title: str,
        *,
        kind: s.ToolKind = "other",
        name: str | None = None,
        locations: Sequence[s.ToolCallLocation | str] = (),
        raw_input: Any = s.UNSET,
        id: str | None = None,
    ) -> ToolRun:
        """`async with turn.tool("Edit a.py", kind="edit") as call:` shows the client a tool at work."""
        if isinstance(locations, str | os.PathLike):
            raise TypeError(f"locations is a list of paths: write locations=[{locations!r}]")
        places = [
            place if isinstance(place, s.ToolCallLocation) else s.ToolCallLocation(path=self.session.path(place))
            for place in locations
        ]
        call = s.ToolCall(
            tool_call_id=id or new_id("call"),
            title=title,
            kind=kind,
            name=name,
            locations=places,
            raw_input=raw_input,
        )
        return ToolRun(self, call)

    async def ask(
        self,
        call: ToolRun | s.ToolCallUpdate,
        options: Sequence[s.PermissionOption] = ALLOW_OR_NOT,
        *,
        optional: bool = False,
    ) -> Permission:
        """Ask the user whether a tool may run; the result is true only if the user chose an option that allows.

        `optional`: the agent can do the work without the tool if the user refuses.
        """
        subject = call.described() if isinstance(call, ToolRun) else call
        response = await self.client.request_permission(
            s.RequestPermissionRequest(
                session_id=self.session.id, tool_call=subject, options=options, meta=OPTIONAL if optional else None
            )
        )
        match response.outcome:
            case s.SelectedPermissionOutcome(option_id=chosen):
                option = next((option for option in options if option.option_id == chosen), None)
            case _:
                option = None
        permission = Permission(option)
        if isinstance(call, ToolRun):
            await call.decided(permission)
        return permission

    async def read(self, path: str | os.PathLike[str], line: int | None = None, limit: int | None = None) -> str:
        """Read a text file through the client, unsaved changes included."""
        request = s.ReadTextFileRequest(
            session_id=self.session.id, path=self.session.path(path), line=line, limit=limit
        )
        return (await self.client.read_text_file(request)).content

    async def write(self, path: str | os.PathLike[str], content: str) -> None:
        """Write a text file through the client."""
        await self.client.write_text_file(
            s.WriteTextFileRequest(session_id=self.session.id, path=self.session.path(path), content=content)
        )

    @asynccontextmanager
    async def terminal(
        self,
        command: str,
        *args: str,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        output_byte_limit: int | None = None,
    ) -> AsyncIterator[TerminalRun]:
        """`async with turn.terminal("npm", "test") as terminal:` runs a command; leaving the block releases it."""
        request = s.CreateTerminalRequest(
            session_id=self.session.id,
            command=command,
            args=args,
            env=[s.EnvVariable(name=name, value=value) for name, value in _pairs(env)],
            cwd=None if cwd is None else self.session.path(cwd),
            output_byte_limit=output_byte_limit,
        )
        # Without a deadline: a client that gets a cancel may have made the terminal anyway, without saying so.
        terminal = await take(self._created(request), self._released, cancels=False)
        try:
            yield terminal
        finally:
            await finish(self._released(terminal))

    async def _created(self, request: s.CreateTerminalRequest) -> TerminalRun:
        created = await self.client.create_terminal(request)
        return TerminalRun(self.client, self.session.id, created.terminal_id)

    async def _released(self, terminal: TerminalRun) -> None:
        with contextlib.suppress(ConnectionClosed):
            await terminal.release()

    # Asking the user

    async def elicit(
        self, message: str, form: s.ElicitationSchema, *, tool_call_id: str | None = None
    ) -> Mapping[str, s.ElicitationContentValue] | None:
        """Ask the user to fill in a form; None if they decline."""
        request = s.FormElicitation(
            message=message, session_id=self.session.id, tool_call_id=tool_call_id, requested_schema=form
        )
        self._must_offer("elicitation.form")
        response = await self.client.create_elicitation(request)
        return response.content or {} if isinstance(response, s.ElicitationAcceptAction) else None

    async def elicit_url(self, message: str, url: str, *, id: str | None = None) -> bool:
        """Ask the user to visit a page; true if they agreed, before they are done there."""
        request = s.UrlElicitation(
            message=message, session_id=self.session.id, url=url, elicitation_id=id or new_id("ask")
        )
        self._must_offer("elicitation.url")
        return isinstance(await self.client.create_elicitation(request), s.ElicitationAcceptAction)

    def _must_offer(self, capability: str) -> None:
        if not offered(self.client.offers, capability):
            raise NotOffered(f"the client does not offer {capability}")


def _pairs(env: Mapping[str, str] | None) -> Iterable[tuple[str, str]]:
    if env is not None and not isinstance(env, Mapping):
        raise TypeError(f"env= is a dictionary of texts, and not {brief(repr(env))}")
    return (env or {}).items()


def _block(content: object) -> s.ContentBlock:
    """Content other than a text, as blocks."""
    if isinstance(content, Struct | s.Raw) and not codec.unsendable(content, s.ContentBlock):
        return content  # type: ignore[return-value]
    raise TypeError(f"a text or a content block can be said, not {brief(repr(content))}")


def shown_options(
    client: RemoteClient, options: Sequence[s.SessionConfigOption]
) -> Sequence[s.SessionConfigOption]:
    """The options a client can show: switches only where it said it has them."""
    if offered(client.offers, "session.config_options.boolean"):
        return options
    return [option for option in options if not isinstance(option, s.SessionConfigBoolean)]


def new_id(kind: str) -> str:
    """An id nobody can guess: 128 random bits."""
    return kind + "_" + b2a_base64(os.urandom(16), newline=False)[:22].decode().translate(_URL_SAFE)
