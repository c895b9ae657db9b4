"""What an agent's author sees: subclass Agent, write `answer`, call `serve`."""

import asyncio
import contextlib
import functools
import logging
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, ClassVar, Self

import msgspec

from . import __version__
from . import schema as s
from .connection import Connection, cancel_once
from .errors import InvalidParams, InvalidRequest, MethodNotFound, RequestCancelled, ResourceNotFound
from .roles import AgentRole, RemoteClient, Wire, overrides
from .transports import Transport
from .transports.translating import TranslatingTransport
from .turn import AgentSession, Turn, new_id, shown_options

log = logging.getLogger("dragoman")

PROTOCOL_VERSION = 1
CANCEL_PATIENCE = 5.0  # seconds a cancelled turn may take before the client is answered without it
MAX_WAITING = 32  # prompts of one session that wait for their turn

CONTENT = {"image": s.ImageContent, "audio": s.AudioContent, "embedded_context": s.EmbeddedResource}
MCP = {"http": s.McpServerHttp, "sse": s.McpServerSse, "acp": s.McpServerAcp}
ACCEPTABLE = {*CONTENT, *MCP, "additional_directories", "system_prompt"}

App = Callable[[RemoteClient], AbstractAsyncContextManager[AgentRole]]


class Agent(AgentRole):
    """An agent for one client.  Write `answer`; whatever else you override is advertised by itself."""

    info: ClassVar[s.Implementation | None] = None
    accepts: ClassVar[Collection[str]] = ()  # of ACCEPTABLE: what clients may send besides the baseline
    modes: ClassVar[Sequence[s.SessionMode]] = ()  # the first is the one a session starts in
    config_options: ClassVar[Sequence[s.SessionConfigOption]] = ()
    commands: ClassVar[Sequence[s.AvailableCommand]] = ()
    auth_methods: ClassVar[Sequence[s.AuthMethod]] = ()

    def __init_subclass__(cls) -> None:
        if unknown := set(cls.accepts) - ACCEPTABLE:
            raise TypeError(f"{cls.__name__}.accepts: {sorted(unknown)} is none of {sorted(ACCEPTABLE)}")

    def __init__(self, client: RemoteClient) -> None:
        self.client = client
        self.client_info: s.Implementation | None = None
        self.sessions: dict[str, AgentSession] = {}
        self._queues: dict[str, list[_Running]] = {}  # the running turn of a session, then those that wait

    async def __aenter__(self) -> Self:
        """Runs when a client connects; override for what the agent needs."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Runs when the client is gone."""

    # The author's part

    async def answer(self, turn: Turn) -> s.StopReason | None:
        """Answer a prompt; what is returned is the stop reason, nothing means the turn simply ended."""
        raise MethodNotFound("this agent does not answer prompts")

    async def opened(self, session: AgentSession) -> None:
        """A session was made or brought back; runs before the client hears of it."""

    # The protocol's part

    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse:
        self.client.offers = params.client_capabilities
        self.client_info = params.client_info
        login = params.client_capabilities.auth.terminal
        return s.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=self.capabilities(),
            auth_methods=[m for m in self.auth_methods if login or not isinstance(m, s.AuthMethodTerminal)],
            agent_info=self.info or s.Implementation(name=type(self).__name__, version=__version__),
        )

    def capabilities(self) -> s.AgentCapabilities:
        """What is advertised: what was overridden and what `accepts` names."""

        def has(name: str) -> bool:
            return overrides(type(self), name)

        accepts = self.accepts
        return s.AgentCapabilities(
            load_session=has("load_session"),
            prompt_capabilities=s.PromptCapabilities(
                image="image" in accepts,
                audio="audio" in accepts,
                embedded_context="embedded_context" in accepts,
            ),
            mcp_capabilities=s.McpCapabilities(http="http" in accepts, sse="sse" in accepts, acp="acp" in accepts),
            session_capabilities=s.SessionCapabilities(
                list=s.SessionListCapabilities() if has("list_sessions") else None,
                delete=s.SessionDeleteCapabilities() if has("delete_session") else None,
                resume=s.SessionResumeCapabilities() if has("resume_session") else None,
                close=s.SessionCloseCapabilities() if has("close_session") else None,
                fork=s.SessionForkCapabilities() if has("fork_session") else None,
                archive=s.SessionArchiveCapabilities() if has("archive_session") else None,
                status=s.SessionStatusCapabilities() if has("session_status") else None,
                title=s.SessionTitleCapabilities() if has("set_title") else None,
                additional_directories=(
                    s.SessionAdditionalDirectoriesCapabilities() if "additional_directories" in accepts else None
                ),
                system_prompt=s.SessionSystemPromptCapabilities() if "system_prompt" in accepts else None,
            ),
            auth=s.AgentAuthCapabilities(
                logout=s.LogoutCapabilities() if has("logout") else None,
                status=s.AuthStatusCapabilities() if has("auth_status") else None,
            ),
            providers=s.ProvidersCapabilities() if has("list_providers") else None,
            nes=s.NesCapabilities() if has("suggest_nes") else None,
        )

    async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
        session = await self.open_session(new_id("sess"), params)
        return s.NewSessionResponse(
            session_id=session.id, modes=self.mode_state(session), config_options=self.option_state(session)
        )

    async def open_session(
        self,
        id: str,
        params: s.NewSessionRequest | s.LoadSessionRequest | s.ResumeSessionRequest | s.ForkSessionRequest,
    ) -> AgentSession:
        """Check what a client asks for and make the session; for those who write `load_session` and its kin."""
        self._check(params)
        session = AgentSession(
            self.client,
            id,
            params.cwd,
            additional_directories=params.additional_directories,
            mcp_servers=params.mcp_servers,
            system_prompt=params.system_prompt,
            meta=params.meta,
            mode=self.modes[0].id if self.modes else None,
            config_options=self.config_options,
        )
        await self.opened(session)
        self.sessions[id] = session
        if self.commands:
            # After the answer: some clients hang on an update of a session they do not know yet.
            self.client.wire.after_answer(functools.partial(self._announce_commands, session))
        return session

    def session(self, id: str) -> AgentSession:
        """A live session, or the error that says there is none."""
        try:
            return self.sessions[id]
        except KeyError:
            raise ResourceNotFound("Session not found", {"sessionId": id}) from None

    def mode_state(self, session: AgentSession) -> s.SessionModeState | None:
        if not self.modes or session.mode is None:
            return None
        return s.SessionModeState(current_mode_id=session.mode, available_modes=self.modes)

    def option_state(self, session: AgentSession) -> Sequence[s.SessionConfigOption] | None:
        return shown_options(self.client, session.config_options) if session.config_options else None

    async def close_session(self, params: s.CloseSessionRequest) -> s.CloseSessionResponse:
        self.session(params.session_id)
        running = list(self._queues.get(params.session_id, ()))
        self._cancel_turns(params.session_id)
        for turn in running:
            if not turn.turn.ended:
                await turn.finished()
        self.sessions.pop(params.session_id, None)
        return s.CloseSessionResponse()

    async def set_mode(self, params: s.SetSessionModeRequest) -> s.SetSessionModeResponse:
        session = self.session(params.session_id)
        if not self.modes:
            raise MethodNotFound("this agent has no modes")
        if params.mode_id not in {mode.id for mode in self.modes}:
            raise InvalidParams(f"there is no mode {params.mode_id!r}")
        session.mode = params.mode_id
        return s.SetSessionModeResponse()

    async def set_config_option(self, params: s.SetSessionConfigOptionRequest) -> s.SetSessionConfigOptionResponse:
        session = self.session(params.session_id)
        session.config_options = [
            with_value(option, params.value) if getattr(option, "id", None) == params.config_id else option
            for option in session.config_options
        ]
        if params.config_id not in {getattr(option, "id", None) for option in session.config_options}:
            raise InvalidParams(f"there is no config option {params.config_id!r}")
        return s.SetSessionConfigOptionResponse(config_options=self.option_state(session) or ())

    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse:
        session = self.session(params.session_id)
        for block in params.prompt:
            self._check_content(block)
        queue = self._queues.setdefault(session.id, [])
        if len(queue) > MAX_WAITING:
            raise InvalidRequest(f"{MAX_WAITING} prompts are waiting in this session already")
        running = _Running(Turn(session, params), queue, self.client.wire)
        queue.append(running)
        try:
            while queue[0] is not running:
                await queue[0].finished()
            return running.response(await self.answer(running.turn))
        except asyncio.CancelledError:
            return running.cut_short()
        except Exception:
            if not running.cancelled:
                raise
            log.warning("a cancelled turn failed", exc_info=True)
            return running.response("cancelled")
        finally:
            running.end()
            if not queue:
                self._queues.pop(session.id, None)

    def cancel(self, params: s.CancelNotification) -> None:
        # Not at once: a prompt that came just before has its task, but not yet its place in the queue.
        asyncio.get_running_loop().call_soon(self._cancel_turns, params.session_id)

    def _cancel_turns(self, session_id: str) -> None:
        for running in self._queues.get(session_id, ()):
            running.cancel()

    def _announce_commands(self, session: AgentSession) -> None:
        update = s.AvailableCommandsUpdate(available_commands=self.commands)
        self.client.update(s.SessionNotification(session_id=session.id, update=update))

    def _check(
        self,
        params: s.NewSessionRequest | s.LoadSessionRequest | s.ResumeSessionRequest | s.ForkSessionRequest,
    ) -> None:
        for path in (params.cwd, *params.additional_directories):
            if not path.startswith("/") and not (len(path) > 2 and path[1] == ":"):
                raise InvalidParams(f"not an absolute path: {path!r}")
        if params.additional_directories and "additional_directories" not in self.accepts:
            raise InvalidParams("this agent takes no additional directories")
        if params.system_prompt and "system_prompt" not in self.accepts:
            raise InvalidParams("this agent takes no system prompt")
        for word, kind in MCP.items():
            if word not in self.accepts and any(isinstance(server, kind) for server in params.mcp_servers):
                raise InvalidParams(f"this agent takes no MCP servers of type {word}")

    def _check_content(self, block: s.ContentBlock) -> None:
        if isinstance(block, s.Raw):
            raise InvalidParams("a prompt holds a kind of content this protocol version does not have")
        for word, kind in CONTENT.items():
            if word not in self.accepts and isinstance(block, kind):
                raise InvalidParams(f"this agent takes no {word.replace('_', ' ')} in prompts")


class _Running:
    """A turn on its way, in the task that answers its request; it ends in exactly one answer."""

    def __init__(self, turn: Turn, queue: "list[_Running]", wire: Wire) -> None:
        self.turn = turn
        self.cancelled = False
        self._queue = queue
        self._wire = wire
        self._task: asyncio.Task[Any] = asyncio.current_task()  # type: ignore[assignment]
        self._over: asyncio.Future[None] | None = None

    def cancel(self) -> None:
        """End the turn: it may still say its last words, undisturbed but not for ever."""
        if not self.cancelled:
            self.cancelled = True
            asyncio.get_running_loop().call_later(CANCEL_PATIENCE, self._give_up)
            cancel_once(self._task)

    def _give_up(self) -> None:
        if not self._task.done():
            log.warning("a cancelled turn does not end; the client is answered without it")
            self._wire.answer_early(self._task, self.response("cancelled"))
            self.end()

    def cut_short(self) -> s.PromptResponse:
        """The turn raised CancelledError: because the client wanted it, or by its own doing."""
        if not self._task.cancelling():
            raise RequestCancelled("the agent gave up this turn")
        while self._task.uncancel():
            pass
        return self.response("cancelled")

    def response(self, reason: str | None) -> s.PromptResponse:
        if self.cancelled:
            reason = "cancelled"
        turn = self.turn
        return s.PromptResponse(stop_reason=reason or "end_turn", usage=turn.usage, meta=turn.answer_meta)

    async def finished(self) -> None:
        if self._over is None:
            self._over = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._over)

    def end(self) -> None:
        """Leave the queue; whatever the turn still wants to say is too late."""
        if self.turn.ended:
            return
        self.turn.ended = True
        self._queue.remove(self)
        if self._over and not self._over.done():
            self._over.set_result(None)


def with_value(option: s.SessionConfigOption, value: str | bool) -> s.SessionConfigOption:
    """An option with another value; refused when it cannot have it."""
    if isinstance(option, s.SessionConfigBoolean) and not isinstance(value, bool):
        raise InvalidParams(f"config option {option.id!r} is on or off, not {value!r}")
    if isinstance(option, s.SessionConfigSelect) and value not in list(_choices(option)):
        raise InvalidParams(f"config option {option.id!r} cannot be {value!r}")
    return msgspec.structs.replace(option, current_value=value)  # type: ignore[type-var]


def _choices(option: s.SessionConfigSelect) -> Iterator[str]:
    for entry in option.options:
        if isinstance(entry, s.SessionConfigSelectGroup):
            yield from (choice.value for choice in entry.options)
        else:
            yield entry.value


async def serve_on(app: App, transport: Transport, *, dialect: str | None = None) -> None:
    """Offer an agent to whoever is at the other end of a wire, until they hang up.

    Which dialect they speak shows when they greet, unless `dialect` says so beforehand.
    """
    connection = Connection(TranslatingTransport(transport, "client", dialect))
    try:
        async with app(RemoteClient(connection)) as agent:
            connection.answer_with(*agent.answers(AgentRole))
            await connection.run()
    finally:
        await transport.close()


def serve(app: App, *, dialect: str | None = None) -> None:
    """Offer an agent over stdin and stdout, until the client hangs up.  Any editor can launch such a program."""
    from .transports.stdio import StdioTransport, claimed_stdio

    async def main(read_fd: int, write_fd: int) -> None:
        task = asyncio.current_task()
        assert task
        with contextlib.suppress(NotImplementedError, ValueError):  # not in the main thread, not on Unix
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        transport = StdioTransport()
        await transport.open(read_fd, write_fd)
        await serve_on(app, transport, dialect=dialect)

    with claimed_stdio() as (read_fd, write_fd):
        try:
            asyncio.run(main(read_fd, write_fd))
        except asyncio.CancelledError:
            pass
        except KeyboardInterrupt:
            sys.exit(130)
