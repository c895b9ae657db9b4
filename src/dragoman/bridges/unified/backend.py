"""Any ACP agent behind one interface: connect, send messages, read messages, close."""

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Self

from ...client.connecting import START_TIMEOUT, Target, connect_over, reach
from ...client.session import Session
from ...errors import AgentStartError, ConnectionClosed, Error
from ...foundation.owning import Cleanup, take
from ...foundation.programs import own_command
from ...schema.base import Bare
from ...transports import Transport
from . import inbound
from .client import BackendClient
from .handlers import AdapterOptions
from .messages import UnifiedMessage, UnifiedMessageError
from .process import AgentProcess

TerminalUse = Literal["never", "fallback", "always"]


class BackendCapabilities(Bare, kw_only=True):
    """What a backend can do."""

    streaming: bool = True
    permissions: bool = True
    slash_commands: bool = True
    availability: Literal["local", "remote", "both"] = "local"


class BackendAdapter:
    """Connects to an agent: a command, a URL, a transport or an agent class.

    `terminal` decides about a command that does not speak ACP.  `fallback` runs it at a pseudo-terminal, as
    `dragoman agent pty` does, if it has not answered `initialize` within `start_timeout` seconds; `always` does so
    from the beginning, so that for example a shell is not sent a line of JSON first.
    """

    def __init__(
        self,
        agent: Target,
        *,
        terminal: TerminalUse = "never",
        start_timeout: float = START_TIMEOUT,
        dialect: str | None = None,
    ) -> None:
        is_command = isinstance(agent, list | tuple)
        if terminal != "never" and not is_command:
            raise TypeError("a program at a terminal must be a list: its name and its arguments")
        self._agent, self._terminal = agent, terminal
        self._words = [str(word) for word in agent] if isinstance(agent, list | tuple) else []
        self._start_timeout, self._dialect = start_timeout, dialect

    @property
    def capabilities(self) -> BackendCapabilities:
        """The capabilities of this adapter's sessions."""
        is_remote = isinstance(self._agent, str) and "://" in self._agent.partition(" ")[0]
        return BackendCapabilities(
            slash_commands=self._terminal != "always", availability="remote" if is_remote else "local"
        )

    async def connect(
        self,
        session_id: str | None = None,
        *,
        resume: str | None = None,
        adapter_options: AdapterOptions | None = None,
    ) -> "BackendSession":
        """Start the agent, shake hands and open a session; raises AgentStartError.

        `session_id` is the caller's own name for the session.  `resume` is the agent's id of an earlier session,
        which is loaded; its history arrives as messages.
        """
        options = adapter_options or AdapterOptions()
        return await take(self._connect(session_id, resume, options), BackendSession.close)

    async def _connect(
        self, session_id: str | None, resume: str | None, options: AdapterOptions
    ) -> "BackendSession":
        if self._terminal != "always":
            try:
                return await self._reached(self._agent, session_id, resume, options, False)
            except AgentStartError:
                if self._terminal == "never":
                    raise
        command = own_command("dragoman", "agent", "pty", "--", *self._words)
        return await self._reached(command, session_id, resume, options, True)

    async def _reached(
        self,
        agent: Target,
        session_id: str | None,
        resume: str | None,
        options: AdapterOptions,
        is_at_terminal: bool,
    ) -> "BackendSession":
        client = BackendClient(options)
        timeout = START_TIMEOUT if is_at_terminal else self._start_timeout
        way = client.reached(_wanted(agent, options))
        held = connect_over(way, client, dialect=self._dialect, start_timeout=timeout)
        await held.__aenter__()
        try:
            opened = await (client.load_session(resume, options.cwd) if resume else client.new_session(options.cwd))
        except BaseException:
            await held.__aexit__(None, None, None)
            raise
        client.opened(opened)
        return BackendSession(client, opened, held, session_id or opened.id, is_at_terminal)


def _wanted(agent: Target, options: AdapterOptions) -> AbstractAsyncContextManager[Transport]:
    """The agent to connect to; for a command, with its directory and environment."""
    given: dict[str, Any] = {}
    if isinstance(agent, list | tuple | os.PathLike) or (isinstance(agent, str) and "://" not in agent):
        given = {"cwd": options.cwd, "env": options.env, "on_stderr": options.on_stderr}
    return reach(agent, **given)


class BackendSession:
    """A session with an agent, as messages in both directions."""

    def __init__(
        self,
        client: "BackendClient",
        session: Session,
        held: AbstractAsyncContextManager[object],
        session_id: str,
        is_at_terminal: bool,
    ) -> None:
        self.session_id = session_id
        self.is_at_terminal = is_at_terminal  # whether the agent is a program that does not speak ACP
        self._client, self._session, self._held = client, session, held
        self._closing = Cleanup(self._leave)
        # each message is given once, in order, to the end
        self.messages: AsyncIterator[UnifiedMessage] = client.queue

    @property
    def backend_session_id(self) -> str:
        """The agent's own id of the session, with which to `resume` it."""
        return self._session.id

    @property
    def process(self) -> AgentProcess | None:
        """The agent's process; None if it is reached in another way."""
        return self._client.process

    @property
    def is_alive(self) -> bool:
        """Whether the agent is connected."""
        return self._client.closed is None

    async def send(self, message: UnifiedMessage) -> None:
        """Send the agent a message; its answers are among the `messages`.

        Raises UnifiedMessageError for a message that has no meaning for an agent, ConnectionClosed if it has ended.
        """
        if (closed := self._client.closed) is not None:
            raise closed if isinstance(closed, Error) else ConnectionClosed(str(closed))
        match message.type:
            case "user_message":
                takes = self._client.agent_capabilities.prompt_capabilities
                self._client.begin_prompt(self._session.id, inbound.prompt_of(message, takes))
            case "permission_response":
                self._client.answer(message)
            case "interrupt":
                self._client.interrupt(self._session.id)
            case "configuration_change":
                for what, value in inbound.change_of(message).items():
                    self._client.change(self._session, what, value)
            case _:
                raise UnifiedMessageError(f"a {message.type} comes from an agent and cannot be sent to one")
        await self._client.agent.room()

    async def close(self) -> None:
        """Hang up and end the agent's process; the waiting `messages` can still be read."""
        await self._closing()

    async def _leave(self) -> None:
        await self._held.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
