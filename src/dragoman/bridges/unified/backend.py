"""Any ACP agent behind one interface: connect, send messages, read messages, close."""

import asyncio
import os
import signal as signals
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Self

import msgspec

from ... import schema as s
from ...agent.agent import PROTOCOL_VERSION
from ...client.client import Client
from ...client.connecting import START_TIMEOUT, connect_over, reach
from ...client.outgoing import PROMPT
from ...client.session import Session
from ...dialects.older import SET_BY, SET_MODEL
from ...errors import AgentStartError, ConnectionClosed, Error
from ...foundation.owning import Cleanup, take
from ...foundation.programs import own_command
from ...roles import AgentRole, methods
from ...rpc import Call, Method, Reply
from ...schema.base import Bare
from ...transports import Transport
from ...transports.process import ProcessTransport
from . import inbound, outbound
from .handlers import FILES, METHODS, TERMINALS, AdapterOptions
from .messages import UnifiedMessage, UnifiedMessageError
from .queue import MessageQueue

SET_MODE = methods(AgentRole)["set_mode"]
SET_OPTION = methods(AgentRole)["set_config_option"]

TerminalUse = Literal["never", "fallback", "always"]


class BackendCapabilities(Bare, kw_only=True):
    """What a backend can do."""

    streaming: bool = True
    permissions: bool = True
    slash_commands: bool = True
    availability: Literal["local", "remote", "both"] = "local"


class AgentProcess:
    """The agent's process: whether it lives, what it wrote to stderr, and signals for one that hangs."""

    def __init__(self, wire: ProcessTransport) -> None:
        self._wire = wire

    @property
    def pid(self) -> int:
        """The process id."""
        return self._wire.process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._wire.status is None

    @property
    def exit_status(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._wire.status

    @property
    def stderr(self) -> str:
        """The end of what it has written to stderr."""
        return self._wire.stderr

    def interrupt(self) -> None:
        """Send SIGINT to the process and its group."""
        self._wire.send_signal(signals.SIGINT)

    def terminate(self) -> None:
        """Send SIGTERM to the process and its group."""
        self._wire.send_signal(signals.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the process and its group."""
        self._wire.send_signal(signals.SIGKILL)

    async def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the exit status; None when that takes longer than `timeout` seconds."""
        return await self._wire.wait(timeout)


class BackendAdapter:
    """Connects to an agent: a command, a URL, a transport or an agent class.

    `terminal` says what happens to a command that does not speak ACP: `fallback` runs it at a pseudo-terminal, as
    `dragoman agent pty` does, if it has not answered `initialize` in `start_timeout` seconds; `always` does so from the
    beginning, which spares a shell the line of JSON that it would otherwise read first.
    """

    def __init__(
        self,
        agent: Any,
        *,
        terminal: TerminalUse = "never",
        start_timeout: float = START_TIMEOUT,
        dialect: str | None = None,
    ) -> None:
        is_command = isinstance(agent, list | tuple)
        if terminal != "never" and not is_command:
            raise TypeError("a program at a terminal is given as a list of words: its name and its arguments")
        self._agent, self._terminal = agent, terminal
        self._start_timeout, self._dialect = start_timeout, dialect

    @property
    def capabilities(self) -> BackendCapabilities:
        """What sessions of this adapter can do."""
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

        `session_id` is the caller's own name for the session.  `resume` is the agent's id of an earlier one, which is
        loaded: its history comes as messages.
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
        command = own_command("dragoman", "agent", "pty", "--", *self._agent)
        return await self._reached(command, session_id, resume, options, True)

    async def _reached(
        self, agent: Any, session_id: str | None, resume: str | None, options: AdapterOptions, is_at_terminal: bool
    ) -> "BackendSession":
        client = _BackendClient(options)
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


def _wanted(agent: Any, options: AdapterOptions) -> Any:
    """A way to the agent, with what a command is started with."""
    given: dict[str, Any] = {}
    if isinstance(agent, list | tuple | os.PathLike) or (isinstance(agent, str) and "://" not in agent):
        given = {"cwd": options.cwd, "env": options.env, "on_stderr": options.on_stderr}
    return reach(agent, **given)


class BackendSession:
    """A session with an agent, as messages both ways."""

    def __init__(
        self, client: "_BackendClient", session: Session, held: Any, session_id: str, is_at_terminal: bool
    ) -> None:
        self.session_id = session_id
        self.is_at_terminal = is_at_terminal  # the agent is a program that does not speak ACP
        self._client, self._session = client, session
        self._closing = Cleanup(lambda: held.__aexit__(None, None, None))
        self.messages: AsyncIterator[UnifiedMessage] = client.queue  # every one is given once, in order, to the end

    @property
    def backend_session_id(self) -> str:
        """The agent's own id of the session, to `resume` it by."""
        return self._session.id

    @property
    def process(self) -> AgentProcess | None:
        """The agent's process; None where it is reached in another way."""
        return self._client.process

    @property
    def is_alive(self) -> bool:
        """Whether the agent is there."""
        return self._client.closed is None

    async def send(self, message: UnifiedMessage) -> None:
        """Tell the agent something; what comes of it is among the `messages`.

        Raises UnifiedMessageError for a message that says nothing to an agent, ConnectionClosed if it is gone.
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
                raise UnifiedMessageError(f"a {message.type} is what an agent says, and not what it is told")
        await self._client.agent.room()

    async def close(self) -> None:
        """Hang up and end the agent's process; what waits among the `messages` can still be read."""
        await self._closing()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _BackendClient(Client):
    """The client of one session: what arrives becomes messages, at once and in its order."""

    def __init__(self, options: AdapterOptions) -> None:
        super().__init__()
        self.process: AgentProcess | None = None
        self._answered = options.answered()
        self._updates = outbound.Updates()
        self._open: dict[str, tuple[s.RequestPermissionRequest, asyncio.Future[s.RequestPermissionResponse]]] = {}
        self._prompts: set[int] = set()  # that are not answered
        self._interrupted: set[int] = set()  # those among them that were, when the user interrupted
        self._numbers = 0
        self.queue = MessageQueue(lambda: self.connection.hold(), lambda: self.connection.resume())

    # The beginning and the end

    @asynccontextmanager
    async def reached(self, way: Any) -> AsyncIterator[Transport]:
        """Reach the agent; if it is a process, there is a handle to it."""
        async with way as wire:
            self.process = AgentProcess(wire) if isinstance(wire, ProcessTransport) else None
            yield wire

    def attach(self, connection: Any) -> None:
        """Start to use a connection."""
        super().attach(connection)
        connection.when_closed(self._end)

    def _end(self) -> None:
        self.queue.put(outbound.agent_gone(self.closed))
        self.queue.end()

    def opened(self, session: Session) -> None:
        """Tell of the session before whatever it has said so far."""
        self.queue.put(outbound.session_opened(session.id, session.modes, session.config_options), first=True)
        told = outbound.initialized(PROTOCOL_VERSION, self.agent_capabilities, self.agent_info, self.auth_methods)
        self.queue.put(told, first=True)

    # What the agent asks

    def capabilities(self) -> s.ClientCapabilities:
        """What the handlers answer is advertised."""

        def has(*names: str) -> bool:
            return all(METHODS[name].name in self._answered for name in names)

        read, write = FILES
        files = s.FileSystemCapabilities(read_text_file=has(read), write_text_file=has(write))
        return msgspec.structs.replace(super().capabilities(), fs=files, terminal=has(*TERMINALS))

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        """What this client answers, and what the handlers do."""
        requests, notifications = super().answers(role)
        name = "session/request_permission"
        asked = msgspec.structs.replace(requests[name], accept=self._asked)
        return {**requests, **self._answered, name: asked}, notifications

    def update(self, params: s.SessionNotification) -> None:
        """Have an update read."""
        for message in self._updates.told(params.update):
            self.queue.put(message, len(self.connection.frame))  # type: ignore[arg-type]

    def _asked(self, call: Call) -> None:
        """A question arrives: it is told in its place among the updates, and answered by a task of its own."""
        if not self.is_cancelled(call.params.session_id):
            answer: asyncio.Future[s.RequestPermissionResponse] = asyncio.get_running_loop().create_future()
            self._open[str(call.key)] = call.params, answer
            self.queue.put(outbound.permission_requested(str(call.key), call.params), len(self.connection.frame))  # type: ignore[arg-type]
        if not self.connection.begin(call):
            self._open.pop(str(call.key), None)

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """Wait for the user's answer."""
        key = str(self.connection.answering)
        try:
            return await self._open[key][1]
        finally:
            self._open.pop(key, None)

    def is_cancelled(self, session_id: str) -> bool:
        """Whether the user has interrupted a turn that is not answered yet."""
        return bool(self._interrupted)

    # What the agent is told

    def begin_prompt(self, session_id: str, blocks: Sequence[s.ContentBlock]) -> None:
        """Send a prompt; its result comes in its place among the updates."""
        self._numbers += 1
        number = self._numbers

        def settle(reply: Reply) -> None:
            self._prompts.discard(number)
            self._interrupted.discard(number)
            told = outbound.failed("result", reply.error) if reply.error else outbound.turn_ended(reply.result)
            self.queue.put(told)

        request = s.PromptRequest(session_id=session_id, prompt=blocks)
        self._prompts.add(number)
        try:
            self.connection.submit(PROMPT, request, settle)
        except BaseException:
            self._prompts.discard(number)
            raise

    def answer(self, message: UnifiedMessage) -> None:
        """Answer the question that a message names."""
        id = message.metadata.get("requestId")
        params, answer = self._open.get(id, (None, None)) if isinstance(id, str) else (None, None)
        if params is None or answer is None or answer.done():
            raise UnifiedMessageError(f"there is no open permission request {id!r}")
        answer.set_result(inbound.outcome_of(message, params.options))

    def interrupt(self, session_id: str) -> None:
        """Cancel the turns under way, and every question of theirs."""
        self.agent.cancel(s.CancelNotification(session_id=session_id))
        self._interrupted |= self._prompts
        self.withdraw_questions(session_id)
        self._open.clear()

    def change(self, session: Session, what: str, value: str) -> None:
        """Have another model or mode; the answer becomes a message."""
        told = {"model": value} if what == "model" else {"modeId": value}

        def settle(reply: Reply) -> None:
            done = UnifiedMessage(type="configuration_change", role="system", metadata=told)
            self.queue.put(outbound.failed("configuration_change", reply.error, **told) if reply.error else done)

        if what == "mode":
            self.connection.submit(SET_MODE, s.SetSessionModeRequest(session_id=session.id, mode_id=value), settle)
            return
        options = [each for each in session.config_options if isinstance(each, s.SessionConfigSelect)]
        option = next((each for each in options if each.category == "model" and each.meta != SET_BY), None)
        if option:
            request = s.SetSessionConfigOptionRequest(session_id=session.id, config_id=option.id, value=value)
            self.connection.submit(SET_OPTION, request, settle)
        else:  # as models were set before they were a config option
            params = {"sessionId": session.id, "modelId": value}
            self.connection.submit(Method(SET_MODEL, Any, Any), params, settle)
