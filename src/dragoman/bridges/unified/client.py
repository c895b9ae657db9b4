"""The client of one session of the adapter: turns the protocol into messages."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import msgspec

from ... import schema as s
from ...agent.agent import PROTOCOL_VERSION
from ...client.client import Client
from ...client.outgoing import PROMPT
from ...client.session import Session
from ...connection.connection import Connection
from ...dialects.older import SET_BY, SET_MODEL
from ...events import Call, Method, Reply
from ...roles import AgentRole, methods
from ...transports import Transport
from ...transports.process import ProcessTransport
from . import inbound, outbound
from .handlers import FILES, METHODS, TERMINALS, AdapterOptions
from .messages import UnifiedMessage, UnifiedMessageError
from .process import AgentProcess
from .queue import MessageQueue

SET_MODE = methods(AgentRole)["set_mode"]
SET_OPTION = methods(AgentRole)["set_config_option"]


class BackendClient(Client):
    """The client of one session: everything that arrives becomes messages, at once and in order."""

    def __init__(self, options: AdapterOptions) -> None:
        super().__init__()
        self.process: AgentProcess | None = None
        self._answered = options.answered()
        self._updates = outbound.Updates()
        self._open: dict[str, tuple[s.RequestPermissionRequest, asyncio.Future[s.RequestPermissionResponse]]] = {}
        self._prompts: set[int] = set()  # unanswered requests
        self._interrupted: set[int] = set()  # those among them that were open when the user interrupted
        self._numbers = 0
        self.queue = MessageQueue(lambda: self.connection.hold(), lambda: self.connection.resume())

    # The beginning and the end

    @asynccontextmanager
    async def reached(self, way: AbstractAsyncContextManager[Transport]) -> AsyncIterator[Transport]:
        """Connect to the agent; if it is a process, make a handle for it."""
        async with way as wire:
            self.process = AgentProcess(wire) if isinstance(wire, ProcessTransport) else None
            yield wire

    def attach(self, connection: Connection) -> None:
        """Start to use a connection."""
        super().attach(connection)
        connection.when_closed(self._end)

    def _end(self) -> None:
        self.queue.put(outbound.agent_gone(self.closed))
        self.queue.end()

    def opened(self, session: Session) -> None:
        """Report the session, before the updates it has sent so far."""
        self.queue.put(outbound.session_opened(session.id, session.modes, session.config_options), first=True)
        told = outbound.initialized(PROTOCOL_VERSION, self.agent_capabilities, self.agent_info, self.auth_methods)
        self.queue.put(told, first=True)

    # Requests of the agent

    def capabilities(self) -> s.ClientCapabilities:
        """The capabilities, according to the handlers."""

        def has(*names: str) -> bool:
            return all(METHODS[name].name in self._answered for name in names)

        read, write = FILES
        files = s.FileSystemCapabilities(read_text_file=has(read), write_text_file=has(write))
        return msgspec.structs.replace(super().capabilities(), fs=files, terminal=has(*TERMINALS))

    def answers(self, role: type[object]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        """The methods that this client and the handlers answer."""
        requests, notifications = super().answers(role)
        name = "session/request_permission"
        asked = msgspec.structs.replace(requests[name], accept=self._asked)
        return {**requests, **self._answered, name: asked}, notifications

    def update(self, params: s.SessionNotification) -> None:
        """Turn an update into messages."""
        for message in self._updates.told(params.update):
            self.queue.put(message, len(self.connection.frame))  # type: ignore[arg-type]

    def _asked(self, call: Call) -> None:
        """Report a question in order with the updates, and answer it in a task of its own."""
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
        """Whether the user has interrupted a turn that has not ended yet."""
        return bool(self._interrupted)

    # Messages to the agent

    def begin_prompt(self, session_id: str, blocks: Sequence[s.ContentBlock]) -> None:
        """Send a prompt; its result is reported in order with the updates."""
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
        """Cancel the running turns and all their questions."""
        self.agent.cancel(s.CancelNotification(session_id=session_id))
        self._interrupted |= self._prompts
        self.withdraw_questions(session_id)
        self._open.clear()

    def change(self, session: Session, what: str, value: str) -> None:
        """Set a model or a mode; the answer becomes a message."""
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
        else:  # the way to set models before they became a config option
            params = {"sessionId": session.id, "modelId": value}
            self.connection.submit(Method(SET_MODEL, Any, Any), params, settle)
