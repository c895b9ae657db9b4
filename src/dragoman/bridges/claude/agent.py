"""The ACP agent that clients use to talk to Claude."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, ClassVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ... import __version__
from ... import schema as s
from ...agent.agent import Agent
from ...agent.turn import AgentSession, Turn
from ...connection.remotes import RemoteClient
from ...errors import AuthRequired, InvalidParams
from ...foundation.owning import finish
from ...roles import extension
from . import history, logins, requests
from .choices import MODE
from .messages.prompts import content_of
from .open_session import OpenSession, translator_for
from .own_commands import own_answer
from .program.command import log_out
from .program.launch import ClaudeLaunch
from .program.running import Message
from .tools.shown import Input


class OpenedSession(s.NewSessionResponse, kw_only=True):
    """A new session; `models` is for older clients, from before models became a config option."""

    models: Any = s.UNSET


class Opening(Struct, frozen=True):
    """The request with which a session was opened."""

    launch: ClaudeLaunch
    raw: requests.Raw
    fingerprint: bytes


class ClaudeAgent(Agent):
    """Claude, through the program that comes with claude-agent-sdk.

    `hide_subscription` refuses logins with a Claude subscription.  `lent` lets Claude read and write files and run
    commands through the client, if the client offers this.
    """

    info = s.Implementation(name="dragoman-claude", title="Claude Agent", version=__version__)
    accepts = (
        "image",
        "embedded_context",
        "http",
        "sse",
        "acp",
        "additional_directories",
        "override_system_prompt",
    )
    cancel_patience = 30.0  # seconds after which a cancelled prompt is answered in any case
    program_patience: ClassVar[float] = 25.0  # seconds after which a program that does not stop its turn is ended

    def __init__(self, client: RemoteClient, *, hide_subscription: bool = False, lent: bool = True) -> None:
        super().__init__(client)
        self._hide_subscription, self._lent = hide_subscription, lent
        self._provider: logins.ClaudeProvider | None = None
        self._open: dict[str, OpenSession] = {}
        self._identity: Message | None = None  # the identity that the client was told last
        # the requests with which open sessions, and those being opened, were opened
        self._opening: dict[str, Opening] = {}

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.gather(*(self._let_go(id) for id in list(self._open)))

    # Handshake and logins

    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse:
        """Answer with the capabilities, and with the logins that the client can use."""
        response = await super().initialize(params)
        capabilities = response.agent_capabilities
        meta = {**(capabilities.meta or {}), "claudeCode": {"promptQueueing": True}, "authStatus": {}}
        return replace(
            response,
            agent_capabilities=replace(capabilities, meta=meta),
            auth_methods=logins.auth_methods(params.client_capabilities, hide_subscription=self._hide_subscription),
            meta={**(response.meta or {}), "steering": {"supported": True}},
        )

    async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse:
        """Use the gateway that the client names; other logins take place in a terminal."""
        await self._use_provider(logins.gateway_login(params))
        return s.AuthenticateResponse()

    async def logout(self, params: s.LogoutRequest) -> s.LogoutResponse:
        """End the login, and the programs that still have it."""
        await log_out()
        await self._use_provider(None)
        self._tell_identity({"tokenSource": "none"})
        return s.LogoutResponse()

    async def auth_status(self, params: s.AuthStatusRequest) -> s.AuthStatusResponse:
        """Say who is logged in, according to the newest program."""
        if self._provider:
            account = s.AuthAccount(label=self._provider.base_url, active=True)
            return s.AuthStatusResponse(state="authenticated", accounts=[account])
        newest = next(reversed(self._open.values()), None)
        return logins.status_of(newest.conversation.account) if newest else s.AuthStatusResponse(state="unknown")

    async def list_providers(self, params: s.ListProvidersRequest) -> s.ListProvidersResponse:
        """List the only provider, with its address."""
        return logins.provider_list(self._provider)

    async def set_provider(self, params: s.SetProviderRequest) -> s.SetProviderResponse:
        """Use another address for the model, also in open sessions."""
        logins.check_slot(params.provider_id)
        await self._use_provider(logins.checked_provider(params.api_type, params.base_url, params.headers))
        return s.SetProviderResponse()

    async def disable_provider(self, params: s.DisableProviderRequest) -> s.DisableProviderResponse:
        """Refuse, since Claude does not work without its provider."""
        logins.check_disabling(params.provider_id)
        return s.DisableProviderResponse()

    async def _use_provider(self, provider: logins.ClaudeProvider | None) -> None:
        """Use a provider for all programs; running ones are restarted with the next prompt."""
        self._provider = provider
        self._tell_identity({})
        for conversation in [open.conversation for open in self._open.values()]:
            conversation.launch = replace(conversation.launch, environment=self._environment())
            await conversation.stop()

    def _tell_identity(self, account: Input) -> None:
        """Tell the client who pays for the model, whenever that changes."""
        identity = logins.identity(account, self._provider)
        if identity is None or identity == self._identity:
            return
        self._identity = identity
        self.client.notify(logins.IDENTITY, {"authStatus": identity})

    def _environment(self) -> dict[str, str]:
        return self._provider.environment() if self._provider else {}

    # Sessions

    async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
        """Start a program for a new session; the session has the program's id."""
        session = await self._opened(params)
        models = self._open[session.id].conversation.choices.model_state()
        return OpenedSession(
            session_id=session.id,
            modes=self.mode_state(session),
            config_options=self.option_state(session),
            models=s.UNSET if models is None else models,
        )

    async def load_session(self, params: s.LoadSessionRequest) -> s.LoadSessionResponse:
        """Continue a stored session, after sending its whole history."""
        session = await self._opened(params)
        messages = await asyncio.to_thread(history.transcript, params.session_id, params.cwd)
        translator = translator_for(params.cwd, self.client.offers)
        for message in messages:
            for update in translator.replayed(message):
                await session.update(update)
        for update in translator.unsettled():
            await session.update(update)
        return s.LoadSessionResponse(modes=self.mode_state(session), config_options=self.option_state(session))

    async def resume_session(self, params: s.ResumeSessionRequest) -> s.ResumeSessionResponse:
        """Go on with a kept session."""
        session = await self._opened(params)
        return s.ResumeSessionResponse(modes=self.mode_state(session), config_options=self.option_state(session))

    async def fork_session(self, params: s.ForkSessionRequest) -> s.ForkSessionResponse:
        """Open a new session that starts with the history of another one."""
        session = await self._opened(params)
        return s.ForkSessionResponse(
            session_id=session.id, modes=self.mode_state(session), config_options=self.option_state(session)
        )

    async def list_sessions(self, params: s.ListSessionsRequest) -> s.ListSessionsResponse:
        """List the sessions that Claude has stored, including those of its own terminal."""
        return await asyncio.to_thread(history.listed, params)

    async def delete_session(self, params: s.DeleteSessionRequest) -> s.DeleteSessionResponse:
        """Close a session and delete it for good."""
        if params.session_id in self.sessions:
            await self.close_session(s.CloseSessionRequest(session_id=params.session_id))
        await asyncio.to_thread(history.delete, params.session_id)
        return s.DeleteSessionResponse()

    async def set_title(self, params: s.SetSessionTitleRequest) -> s.SetSessionTitleResponse:
        """Give a stored session a title."""
        title = await asyncio.to_thread(history.rename, params.session_id, params.title)
        if open := self._open.get(params.session_id):
            open.title.was_given()
        return s.SetSessionTitleResponse(title=title)

    async def close_session(self, params: s.CloseSessionRequest) -> s.CloseSessionResponse:
        """Close a session and end its program."""
        response = await super().close_session(params)
        await self._let_go(params.session_id)
        return response

    async def _let_go(self, id: str) -> None:
        self._opening.pop(id, None)
        if open := self._open.pop(id, None):
            await finish(open.close())

    async def _opened(self, params: requests.Opening) -> AgentSession:
        """Open a session; a session that was already opened by the same request continues."""
        launch = requests.launch_of(params, self.client.offers, self._environment())
        opening = Opening(launch, requests.raw_messages(params.meta), requests.fingerprint(params))
        id = launch.session_id
        if id in self._open:
            if self._opening[id].fingerprint == opening.fingerprint:
                return self.sessions[id]
            await self.close_session(s.CloseSessionRequest(session_id=id))
        if launch.resume:
            await asyncio.to_thread(history.session_file, launch.resume)
        self._opening[id] = opening
        try:
            return await self.open_session(id, params)
        except BaseException:
            await self._let_go(id)
            raise

    async def opened(self, session: AgentSession) -> None:
        """Start the session's program and read its settings."""
        for path in (session.cwd, *session.additional_directories):
            history.check_directory(path)
        opening = self._opening[session.id]
        open = OpenSession(session, opening.launch, lent=self._lent, raw=opening.raw)
        open.conversation.patience = self.program_patience
        self._open[session.id] = open
        await open.conversation.start()
        self._tell_identity(open.conversation.account)
        self._check_account(open)
        session.mode = open.conversation.choices.mode
        session.config_options = open.conversation.choices.options()

    def _check_account(self, open: OpenSession) -> None:
        if self._hide_subscription and not self._provider and logins.is_subscription(open.conversation.account):
            raise AuthRequired(
                "this agent is not used with a Claude subscription; log in with the Anthropic Console"
            )

    def commands_of(self, session: AgentSession) -> Sequence[s.AvailableCommand]:
        """The slash commands that the program has."""
        return self._open[session.id].commands()

    def mode_state(self, session: AgentSession) -> s.SessionModeState:
        """The modes that the session's model and the user's rights allow."""
        choices = self._open[session.id].conversation.choices
        return s.SessionModeState(current_mode_id=choices.mode, available_modes=choices.modes())

    # Modes and options

    async def set_mode(self, params: s.SetSessionModeRequest) -> s.SetSessionModeResponse:
        """Switch the mode, which is also a config option."""
        session = self.session(params.session_id)
        await self._open[session.id].choose_mode(params.mode_id)
        await session.set_config_options(self._open[session.id].conversation.choices.options())
        return s.SetSessionModeResponse()

    async def set_config_option(self, params: s.SetSessionConfigOptionRequest) -> s.SetSessionConfigOptionResponse:
        """Set the mode, the model, the effort or the agent; the response has all options."""
        session = self.session(params.session_id)
        open = self._open[session.id]
        await open.choose(params.config_id, params.value)
        session.config_options = open.conversation.choices.options()
        if params.config_id == MODE:
            await session.set_mode(open.conversation.choices.mode)
        return s.SetSessionConfigOptionResponse(config_options=self.option_state(session) or ())

    # Turns

    async def answer(self, turn: Turn) -> s.StopReason | None:
        """Send the prompt to the program, and its messages to the client."""
        open = self._open[turn.session.id]
        self._check_account(open)
        try:
            if (told := await own_answer(turn.text, open.conversation.request)) is not None:
                await turn.say(told)
                return None
            open.title.look_for(turn.text)
            ended = await open.conversation.ask(content_of(turn.prompt))
        except asyncio.CancelledError:
            open.cancel()
            if cut_off := open.conversation.cut_off:
                turn.usage, turn.answer_meta = cut_off.usage, cut_off.meta
            raise
        turn.usage, turn.answer_meta = ended.usage, ended.meta
        await open.title.turn_ended(turn.text)
        return ended.stop_reason

    @extension("_session/steering")
    async def steer(self, params: Any) -> Message:
        """Add a message to the running turn; if none runs, the client has to send a prompt."""
        try:
            request = msgspec.convert(params, s.PromptRequest)
        except msgspec.ValidationError as exc:
            raise InvalidParams(f"_session/steering: {exc}") from None
        open = self._open.get(self.session(request.session_id).id)
        content = content_of(request.prompt)
        if open and open.conversation.steer(content, now=not open.questions.open):
            return {"outcome": "injected"}
        return {"outcome": "promptRequired", "reason": "noRunningTurn"}
