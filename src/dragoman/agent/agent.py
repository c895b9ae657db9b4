"""The agent author's interface: subclass Agent, write `answer`, call `serve`."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from .. import __version__, codec
from .. import schema as s
from ..connection.remotes import RemoteClient
from ..dialects.declared import OURS, wants_tools
from ..dialects.older import SET_MODEL, ModelChoice
from ..errors import InvalidParams, InvalidRequest, McpServerUnavailable, MethodNotFound, ResourceNotFound
from ..events import Method
from ..roles import AgentRole, overrides
from ..schema.mcp_connection import AnyMcpNotification
from .turn import AgentSession, Turn, new_id, shown_options
from .turns import RunningTurn, leave_turns, turn_ahead

if TYPE_CHECKING:
    from ..mcp.provided import ExposedServers

PROTOCOL_VERSION = 1
CANCEL_PATIENCE = 5.0  # seconds a cancelled turn may take before its prompt is answered without it
MAX_WAITING = 32  # prompts of one session that may wait for their turn

CONTENT = {"image": s.ImageContent, "audio": s.AudioContent, "embedded_context": s.EmbeddedResource}
MCP = {"http": s.McpServerHttp, "sse": s.McpServerSse, "acp": s.McpServerAcp}
ACCEPTABLE = {*CONTENT, *MCP, "additional_directories", "system_prompt", "override_system_prompt"}

# Class attributes that are sent to clients, each with its type.
DECLARED: Mapping[str, Any] = {
    "info": s.Implementation | None,
    "modes": Sequence[s.SessionMode],
    "config_options": Sequence[s.SessionConfigOption],
    "commands": Sequence[s.AvailableCommand],
    "auth_methods": Sequence[s.AuthMethod],
}


class Agent(AgentRole):
    """An agent for one client.  Write `answer`; the agent advertises every other method you override."""

    info: ClassVar[s.Implementation | None] = None
    accepts: ClassVar[Collection[str]] = ()  # of ACCEPTABLE: content that clients may send besides the baseline
    modes: ClassVar[Sequence[s.SessionMode]] = ()  # the first is the one a session starts in
    config_options: ClassVar[Sequence[s.SessionConfigOption]] = ()
    commands: ClassVar[Sequence[s.AvailableCommand]] = ()
    auth_methods: ClassVar[Sequence[s.AuthMethod]] = ()
    mcp_servers: Sequence[object] = ()  # that clients may use: `MCPServer` objects, or configurations of processes
    cancel_patience: ClassVar[float | None] = None  # seconds a cancelled turn may take; None: CANCEL_PATIENCE

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if isinstance(cls.accepts, str):
            raise TypeError(f"{cls.__name__}.accepts is a set of words: write accepts = {{{cls.accepts!r}}}")
        if unknown := set(cls.accepts) - ACCEPTABLE:
            raise TypeError(f"{cls.__name__}.accepts: {sorted(unknown)} is none of {sorted(ACCEPTABLE)}")
        for name, kind in DECLARED.items():
            _check_declared(cls, name, kind)

    def __init__(self, client: RemoteClient) -> None:
        self.client = client
        self.client_info: s.Implementation | None = None
        self.sessions: dict[str, AgentSession] = {}
        self._queues: dict[str, list[RunningTurn]] = {}  # the running turn of a session, then those that wait
        self._announcements: dict[str, Callable[[], None]] = {}  # sessions that are being loaded or resumed
        self._exposed: ExposedServers | None = None
        self._arriving: dict[str, list[RunningTurn]] = {}  # turns that an overridden `prompt` works on

    if not TYPE_CHECKING:

        def __new__(cls, *given: Any, **named: Any) -> Self:
            if not given and not named and cls.__init__ is Agent.__init__:
                name = cls.__name__
                raise TypeError(f"an agent is made for each client: give the class, {name}, and not {name}()")
            return super().__new__(cls)

    async def __aenter__(self) -> Self:
        """Runs when a client connects; override for what the agent needs."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Runs when the client has disconnected."""

    async def end_servers(self) -> None:
        """End the MCP servers, once the client is gone."""
        if self._exposed:
            await self._exposed.close()

    # The author's part

    async def answer(self, turn: Turn) -> s.StopReason | None:
        """Answer a prompt.  Return the stop reason, or nothing for `end_turn`."""
        raise MethodNotFound("this agent does not answer prompts")

    async def opened(self, session: AgentSession) -> None:
        """Set up a session that was created, loaded, resumed or forked; runs before the client gets its id."""

    def commands_of(self, session: AgentSession) -> Sequence[s.AvailableCommand]:
        """Give the slash commands of a session that was just opened; they are sent once the client knows its id."""
        return self.commands

    def tool_catalogue(self) -> Sequence[s.JsonObject]:
        """Your tools (`name`, `description`, `inputSchema`), for clients that want a list at `initialize`."""
        return ()

    # The protocol's part

    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse:
        """Note what the client offers; answer with the capabilities, the logins and the name of this agent."""
        if not hasattr(self, "_arriving"):
            raise TypeError(f"{type(self).__name__}.__init__ must call super().__init__(client) first")
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
        """Give the capabilities to advertise: the overridden methods and what `accepts` names."""

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
                system_prompt=_system_prompts(accepts),
            ),
            auth=s.AgentAuthCapabilities(
                logout=s.LogoutCapabilities() if has("logout") else None,
                status=s.AuthStatusCapabilities() if has("auth_status") else None,
            ),
            providers=s.ProvidersCapabilities() if has("list_providers") else None,
            nes=s.NesCapabilities() if has("suggest_nes") else None,
            meta=self._declared(),
        )

    def _declared(self) -> s.JsonObject | None:
        """Modes, config options and tools, which clients of some dialects need before they open a session."""
        modes = [msgspec.to_builtins(mode) for mode in self.modes]
        options = [option.id for option in self.config_options if not isinstance(option, s.Raw)]
        told: dict[str, Any] = {"modes": modes, "configOptions": options} if modes or options else {}
        if self._exposed:
            told["mcpServers"] = self._exposed.names
        if wants_tools(self.client.offers.meta):
            told["tools"] = list(self.tool_catalogue())
        return {OURS: told} if told else None

    async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
        """Open a session under a new id; override `opened` to set it up."""
        session = await self.open_session(new_id("sess"), params)
        return s.NewSessionResponse(
            session_id=session.id, modes=self.mode_state(session), config_options=self.option_state(session)
        )

    async def open_session(
        self,
        id: str,
        params: s.NewSessionRequest | s.LoadSessionRequest | s.ResumeSessionRequest | s.ForkSessionRequest,
    ) -> AgentSession:
        """Check the params and open the session; call it from your own `load_session` or `resume_session`."""
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
        before, self.sessions[id] = self.sessions.get(id), session
        if before is not None:
            await before.end()
        session.commands = self.commands_of(session)
        if commands := session.commands:
            update = s.AvailableCommandsUpdate(available_commands=commands)
            announce = functools.partial(
                self.client.update, s.SessionNotification(session_id=session.id, update=update)
            )
            if isinstance(params, s.LoadSessionRequest | s.ResumeSessionRequest):
                self._announcements[id] = announce
            else:  # after the answer: some clients hang on an update of a session they do not know yet
                self.client.wire.after_answer(announce)
        return session

    def session(self, id: str) -> AgentSession:
        """Give the open session with this id; raises `ResourceNotFound` if there is none."""
        try:
            return self.sessions[id]
        except KeyError:
            raise ResourceNotFound("Session not found", {"sessionId": id}) from None

    def mode_state(self, session: AgentSession) -> s.SessionModeState | None:
        """Give the session's modes as responses need them; None if the agent has none."""
        if not self.modes or session.mode is None:
            return None
        return s.SessionModeState(current_mode_id=session.mode, available_modes=self.modes)

    def option_state(self, session: AgentSession) -> Sequence[s.SessionConfigOption] | None:
        """Give the session's options that this client can show; None if there are none."""
        return shown_options(self.client, session.config_options) if session.config_options else None

    async def close_session(self, params: s.CloseSessionRequest) -> s.CloseSessionResponse:
        """Cancel the session's turns, wait until they have ended, and forget the session."""
        session = self.session(params.session_id)
        # At once: what the client sends after this request concerns a closed session, or one that is loaded again.
        del self.sessions[params.session_id]
        running = self._under_way(params.session_id)
        for turn in running:
            turn.cancel()
        for turn in running:
            await turn.finished()
        await session.end()
        return s.CloseSessionResponse()

    async def set_mode(self, params: s.SetSessionModeRequest) -> s.SetSessionModeResponse:
        """Switch to one of `modes`; refuses any other with `InvalidParams`."""
        session = self.session(params.session_id)
        if not self.modes:
            raise MethodNotFound("this agent has no modes")
        if params.mode_id not in {mode.id for mode in self.modes}:
            raise InvalidParams(f"there is no mode {params.mode_id!r}")
        session.mode = params.mode_id
        return s.SetSessionModeResponse()

    async def set_config_option(self, params: s.SetSessionConfigOptionRequest) -> s.SetSessionConfigOptionResponse:
        """Set an option of `config_options`; refuses values it does not offer with `InvalidParams`."""
        session = self.session(params.session_id)
        session.config_options = [
            with_value(option, params.value) if getattr(option, "id", None) == params.config_id else option
            for option in session.config_options
        ]
        if params.config_id not in {getattr(option, "id", None) for option in session.config_options}:
            raise InvalidParams(f"there is no config option {params.config_id!r}")
        return s.SetSessionConfigOptionResponse(config_options=self.option_state(session) or ())

    async def _set_model(self, params: ModelChoice) -> s.JsonObject:
        """Choose a model; older clients send this, because their models are not config options."""
        options = self.session(params.session_id).config_options
        models = (o for o in options if isinstance(o, s.SessionConfigSelect) and o.category == "model")
        if (option := next(models, None)) is None:
            raise MethodNotFound("this session has no choice of models", {"method": SET_MODEL})
        chosen = s.SetSessionConfigOptionRequest(
            session_id=params.session_id, config_id=option.id, value=params.model_id
        )
        await self.set_config_option(chosen)
        return {}

    def answers(self, role: type[Any]) -> tuple[Mapping[str, Method], Mapping[str, Method]]:
        """Give the requests and notifications this agent answers, each with its handler."""
        requests, notifications = super().answers(role)
        if self.mcp_servers:
            from ..mcp.provided import ExposedServers

            self._exposed = ExposedServers(self.mcp_servers, self.client, self.sessions)
            requests = {**self._exposed.answers(), **requests}
        requests = {**requests, SET_MODEL: Method(SET_MODEL, ModelChoice, Any, True, handler=self._set_model)}
        for name in {"session/load", "session/resume"} & set(requests):
            method = requests[name]
            back = functools.partial(self._brought_back, method.handler)
            requests[name] = msgspec.structs.replace(method, handler=back)
        if type(self).prompt is Agent.prompt:
            return requests, notifications
        prompt = requests["session/prompt"]
        assert prompt.handler
        arriving = msgspec.structs.replace(prompt, handler=functools.partial(self._arrived, prompt.handler))
        return {**requests, prompt.name: arriving}, notifications

    async def _brought_back(self, handler: Any, params: Any) -> Any:
        """Load or resume a session: its commands are sent after its history and before the answer."""
        try:
            response = await handler(params)
        except BaseException:
            self._announcements.pop(params.session_id, None)
            raise
        if announce := self._announcements.pop(params.session_id, None):
            announce()
        return response

    async def _arrived(
        self, handler: Callable[[s.PromptRequest], Awaitable[s.PromptResponse]], params: s.PromptRequest
    ) -> s.PromptResponse:
        """Answer a prompt; from here on it can be cancelled, also while an overridden `prompt` works."""
        running = self._running_turn()
        arrived = self._arriving.setdefault(params.session_id, [])
        arrived.append(running)
        try:
            return await running.outcome(handler(params))
        finally:
            running.end()
            leave_turns(self._arriving, params.session_id, arrived, running)

    def _running_turn(self) -> RunningTurn:
        patience = CANCEL_PATIENCE if self.cancel_patience is None else self.cancel_patience
        return RunningTurn(self.client.wire, patience)

    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse:
        """Run a turn: wait for earlier prompts of the session, call `answer`, and give the stop reason."""
        session = self.session(params.session_id)
        for block in params.prompt:
            if type(block) is not s.TextContent:
                self._check_content(block)
        is_whole = type(self).prompt is Agent.prompt  # otherwise an override has made its own turn
        running = self._running_turn() if is_whole else RunningTurn.here()
        queue = self._queues.setdefault(session.id, [])
        if len(queue) > MAX_WAITING:
            raise InvalidRequest(f"{MAX_WAITING} prompts are waiting in this session already")
        queue.append(running)
        running.turn = turn = Turn(session, params)
        try:
            while (ahead := turn_ahead(queue, running)) is not None and not running.cancelled:
                await ahead.finished()
            return running.response(None if running.cancelled else await self.answer(turn))
        except asyncio.CancelledError:
            return running.cut_short()
        except Exception as exc:
            return running.failed(exc)
        finally:
            if is_whole:
                running.end()
            leave_turns(self._queues, session.id, queue, running)

    def mcp_notification(self, params: AnyMcpNotification) -> None:
        """Pass on a message that an MCP server in the client sends about an open request, or over a connection."""
        if isinstance(params, s.ConnectionMcpNotification):
            if line := self.client.mcp_lines.get(params.connection_id):
                line.heard(params)
        elif hearer := self.client.mcp_hearers.get((params.server_id, params.request_id)):
            hearer(params)

    async def mcp_request(self, params: s.ConnectionMcpRequest) -> object:
        """Answer an MCP server in the client that asks over a connection."""
        if (line := self.client.mcp_lines.get(params.connection_id)) is None:
            raise McpServerUnavailable
        return await line.asked(params)

    def cancel(self, params: s.CancelNotification) -> None:
        """Cancel the turns of a session that were received before this notification."""
        # Not at once: the task of a prompt that arrived just before may not have begun.
        asyncio.get_running_loop().call_soon(self._cancel_turns, params.session_id, self.client.wire.newest)

    def _cancel_turns(self, session_id: str, newest: int) -> None:
        for running in self._under_way(session_id):
            running.cancel(newest)

    def _under_way(self, session_id: str) -> list[RunningTurn]:
        """The unanswered turns of a session; a turn of an overridden `prompt` may occur twice."""
        return [*self._arriving.get(session_id, ()), *self._queues.get(session_id, ())]

    def _check(
        self,
        params: s.NewSessionRequest | s.LoadSessionRequest | s.ResumeSessionRequest | s.ForkSessionRequest,
    ) -> None:
        for path in (params.cwd, *params.additional_directories):
            if not path.startswith("/") and not (len(path) > 2 and path[1] == ":"):
                raise InvalidParams(f"not an absolute path: {path!r}")
        if params.additional_directories and "additional_directories" not in self.accepts:
            raise InvalidParams("this agent takes no additional directories")
        if params.system_prompt and not {"system_prompt", "override_system_prompt"} & set(self.accepts):
            raise InvalidParams("this agent takes no system prompt")
        can_replace = "override_system_prompt" in self.accepts
        if params.system_prompt and params.system_prompt.mode not in ("append", *["override"] * can_replace):
            raise InvalidParams(f"this agent does not {params.system_prompt.mode} its system prompt")
        for word, kind in MCP.items():
            if word not in self.accepts and any(isinstance(server, kind) for server in params.mcp_servers):
                raise InvalidParams(f"this agent takes no MCP servers of type {word}")

    def _check_content(self, block: s.ContentBlock) -> None:
        if isinstance(block, s.Raw):
            raise InvalidParams("a prompt holds a kind of content this protocol version does not have")
        for word, kind in CONTENT.items():
            if word not in self.accepts and isinstance(block, kind):
                raise InvalidParams(f"this agent takes no {word.replace('_', ' ')} in prompts")


def _check_declared(agent: type[Agent], name: str, kind: Any) -> None:
    """Raise TypeError for a class attribute that cannot be sent; one set later is checked when sent."""
    value = vars(agent).get(name, ())
    if hasattr(value, "__get__") or value == ():
        return
    if wrong := codec.unsendable(value, kind):
        raise TypeError(f"{agent.__name__}.{name} cannot be sent: {wrong}")


def _system_prompts(accepts: Collection[str]) -> s.SessionSystemPromptCapabilities | None:
    if "override_system_prompt" in accepts:
        instead = s.SessionSystemPromptOverrideCapabilities()
        return s.SessionSystemPromptCapabilities(mode=s.SessionSystemPromptModeCapabilities(override=instead))
    return s.SessionSystemPromptCapabilities() if "system_prompt" in accepts else None


def with_value(option: s.SessionConfigOption, value: str | bool) -> s.SessionConfigOption:
    """The option with another value; raises `InvalidParams` for a value it cannot have."""
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
