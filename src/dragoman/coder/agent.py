"""The coding agent as a client sees it."""

import asyncio
import functools
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .. import __version__
from .. import schema as s
from ..agent.agent import Agent
from ..agent.turn import AgentSession, Turn, new_id
from ..connection.remotes import RemoteClient
from ..errors import AuthRequired, InternalError, InvalidParams, InvalidRequest
from ..roles import offered
from .model.port import KeyRefused, Model, ModelError
from .modes import DEFAULT, MODES

if TYPE_CHECKING:
    from .conversation import Conversation
    from .model.models import Models
    from .model.retrying import TurnLimits

log = logging.getLogger("dragoman")


class Coder(Agent):
    """A coding agent for any language model.

    `model` is a model or the name of one; without it, the agent chooses the best available one.  `fetch` gives it a
    tool to visit pages; without `language_servers` it uses none.  Models, tools and settings are loaded with the
    first session, because `initialize` needs none of them.
    """

    info = s.Implementation(name="dragoman-coder", title="Dragoman Coder", version=__version__)
    accepts = (
        "image",
        "audio",
        "embedded_context",
        "http",
        "sse",
        "acp",
        "additional_directories",
        "override_system_prompt",
    )
    modes = tuple(mode.described for mode in MODES.values())
    auth_methods = (
        s.AuthMethodAgent(
            id="environment",
            name="A key in the environment, or a local server",
            description="Looks again for a provider's key and for a model server on this machine",
        ),
        s.AuthMethodAgent(id="key", name="Enter a key", description="Opens a page on this machine to enter it"),
        s.AuthMethodTerminal(id="terminal", name="Enter a key in a terminal", args=["--login"]),
    )

    def __init__(
        self,
        client: RemoteClient,
        *,
        model: Model | str | None = None,
        fetch: bool = False,
        language_servers: bool = True,
        limits: "TurnLimits | None" = None,
    ) -> None:
        super().__init__(client)
        self._model = model
        self._fetch = fetch
        self._language_servers = language_servers
        self._limits = limits
        self._conversations: dict[str, Conversation] = {}
        self._reviewer: Any = None

    def tool_catalogue(self) -> Sequence[s.JsonObject]:
        """List the tools of the default mode, for dialects whose clients need them before they open a session."""
        from .toolbox import USUAL, Toolbox

        specs = Toolbox(USUAL).specs(DEFAULT)
        return [
            {"name": spec.name, "description": spec.description, "inputSchema": spec.parameters} for spec in specs
        ]

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for id in list(self._conversations):
            await self._let_go(id)
        if "models" in vars(self):  # otherwise no models were loaded
            await self.models.close()
        if self._reviewer:
            await self._reviewer.__aexit__(None, None, None)

    @functools.cached_property
    def models(self) -> "Models":
        """The available models."""
        from .model.models import Models

        return Models(self._model)

    @functools.cached_property
    def limits(self) -> "TurnLimits":
        """Limits of a turn."""
        from .model.retrying import TurnLimits

        return self._limits or TurnLimits()

    # The user's keys for the providers

    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse:
        """Answer as every agent does; the login by key is listed only if the client can open its page."""
        response = await super().initialize(params)
        if offered(params.client_capabilities, "elicitation.url"):
            return response
        methods = [method for method in response.auth_methods if method.id != "key"]
        return replace(response, auth_methods=methods)

    async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse:
        """Store a model provider's key, or look again for models after a login in a terminal."""
        if params.method_id not in {method.id for method in self.auth_methods}:
            raise InvalidParams(f"there is no way to log in called {params.method_id!r}")
        if params.method_id == "key":
            await self._enter_key()
        await self.models.forget()
        await self.models.look()
        if self.models.choice and not self.models.choice.name:
            raise AuthRequired(f"{self.models.choice.why}; set a provider's key, or log in another way")
        return s.AuthenticateResponse()

    async def logout(self, params: s.LogoutRequest) -> s.LogoutResponse:
        """Delete the stored keys and forget the models found with them."""
        from .model.login import store_keys

        store_keys({})
        await self.models.forget()
        return s.LogoutResponse()

    async def _enter_key(self) -> None:
        from .model.login import KeyPage

        page = KeyPage()
        url = await page.open()
        id = new_id("ask")
        try:
            question = s.UrlElicitation(
                message="Enter a provider's key on this page of your own machine.",
                request_id=self.client.wire.request_id,
                url=url,
                elicitation_id=id,
            )
            if not isinstance(await self.client.create_elicitation(question), s.ElicitationAcceptAction):
                raise AuthRequired("no key was entered")
            try:
                await page.entered()
            except TimeoutError:
                raise AuthRequired("no key was entered in time") from None
            self.client.complete_elicitation(s.CompleteElicitationNotification(elicitation_id=id))
        finally:
            await page.close()

    # Sessions

    async def opened(self, session: AgentSession) -> None:
        """Load the rules, skills, instructions and MCP servers of a session and choose its model."""
        from ..host.permissions import Rules, RulesError, user_file, workspace_file
        from .conversation import Conversation
        from .options import options
        from .permissions import CoderPermissions

        try:
            rules = await asyncio.to_thread(Rules.load, user_file(), workspace_file(session.cwd))
        except RulesError as exc:
            raise InvalidRequest(str(exc)) from exc
        if session.mode not in MODES:
            session.mode = DEFAULT
        conversation = Conversation(session, CoderPermissions(session, rules, []))
        conversation.has_languages = self._language_servers
        await conversation.look_around()
        await self.models.look()
        model = conversation.choices.get("model") or self.models.usual
        self.models.prepare(model)
        effort = conversation.choices.get("effort", "default")
        session.config_options = options(session.mode or DEFAULT, model, self.models.known, effort)
        self._conversations[session.id] = conversation

    def commands_of(self, session: AgentSession) -> Sequence[s.AvailableCommand]:
        """The coder's own slash commands and one for each skill."""
        from .slash import commands

        return commands(self._conversations[session.id].skills)

    async def close_session(self, params: s.CloseSessionRequest) -> s.CloseSessionResponse:
        """Close a session with its MCP servers and running commands."""
        response = await super().close_session(params)
        await self._let_go(params.session_id)
        return response

    async def _let_go(self, id: str) -> None:
        if conversation := self._conversations.pop(id, None):
            await conversation.close()

    async def set_mode(self, params: s.SetSessionModeRequest) -> s.SetSessionModeResponse:
        """Switch the mode and report it as the config option `mode`, too."""
        from .conversation import with_option

        response = await super().set_mode(params)
        session = self.session(params.session_id)
        await session.set_config_options(with_option(session.config_options, "mode", params.mode_id))
        return response

    async def set_config_option(self, params: s.SetSessionConfigOptionRequest) -> s.SetSessionConfigOptionResponse:
        """Set the model, the mode or another option, and store the choice with the session."""
        response = await super().set_config_option(params)
        session, conversation = self.session(params.session_id), self._conversations[params.session_id]
        if params.config_id == "mode":
            await session.set_mode(str(params.value))
        else:
            conversation.choices[params.config_id] = str(params.value)
            await conversation.save()
        return response

    def instructions(self, conversation: "Conversation") -> str:
        """The system prompt of a session as it is now."""
        from .context.instructions import TASK, instructions

        session = conversation.session
        given = session.system_prompt
        words = (
            "\n".join(block.text for block in given.content if isinstance(block, s.TextContent)) if given else ""
        )
        replaces = given is not None and given.mode == "override"
        return instructions(
            session.cwd,
            session.additional_directories,
            conversation.mode,
            conversation.skills,
            conversation.helpers,
            task=words if replaces else TASK,
            addition="" if replaces else words,
        )

    # Turns

    async def answer(self, turn: Turn) -> s.StopReason | None:
        """Run a slash command, or let the model work until it has answered."""
        from .context.titles import from_words

        conversation = self._conversations[turn.session.id]
        conversation.place.journal.begin()
        if conversation.title is None and not turn.text.startswith("/"):
            await conversation.set_title(from_words(turn.text))
        try:
            return await self._command(turn, conversation)
        except KeyRefused as exc:
            raise AuthRequired(str(exc)) from exc
        except ModelError as exc:
            raise InternalError(str(exc)) from exc

    async def _command(self, turn: Turn, conversation: "Conversation") -> s.StopReason | None:
        """Run a slash command, or have the model answer."""
        from . import slash

        name, rest = slash.parsed(turn.text)
        if command := slash.OWN.get(name):
            return await command.run(self, turn, conversation, rest)
        if skill := conversation.skills.get(name):
            text = skill.with_arguments(rest)
            blocks = [block for block in turn.prompt if not isinstance(block, s.TextContent)]
            return await self.converse(turn, conversation, [s.TextContent(text=text), *blocks])
        return await self.converse(turn, conversation, await self._prompt_of(turn, conversation))

    async def _prompt_of(self, turn: Turn, conversation: "Conversation") -> Sequence[s.ContentBlock]:
        """The prompt; for a slash command of an MCP server the server's prompt."""
        if not turn.text.startswith("/mcp:"):
            return turn.prompt
        from ..mcp import McpFailure

        await conversation.load_tools(turn)
        try:
            found = await conversation.servers.command(turn) if conversation.servers else None
        except McpFailure as exc:
            raise InvalidRequest(str(exc)) from exc
        return turn.prompt if found is None else found

    async def converse(
        self, turn: Turn, conversation: "Conversation", prompt: Sequence[s.ContentBlock]
    ) -> s.StopReason | None:
        """Have the model answer, or the reviewer where there is none."""
        from .context.prompts import parts_of
        from .files.reviewing import can_review
        from .loop import Loop
        from .model.choice import NEXT_STEP
        from .tools.languages import checked

        model = await self.models.get(conversation.model)
        if model is None:
            if conversation.choices.get("model") != conversation.model and not can_review(
                prompt, conversation.session.cwd
            ):
                raise AuthRequired(f"{self.models.why(conversation.model)}. {NEXT_STEP}")
            await self._tell_model(turn, conversation)
            return await self.review(turn)
        await self._tell_model(turn, conversation)
        await conversation.load_tools(turn, model=model, web=self._fetch)
        parts, unread = parts_of(prompt, model.takes)
        if unread:
            await turn.session.notice(f"{model.name} cannot read the attachments", ", ".join(unread), "warning")
        loop = Loop(
            turn,
            conversation,
            model,
            lambda: self.instructions(conversation),
            effort=str(conversation.session.config("effort")),
            limits=self.limits,
            open_model=self.models.get,
            check=lambda turn, paths: checked(turn, conversation, paths),
        )
        stopped = await loop.run(parts)
        if not conversation.is_named and stopped is None:
            self.client.wire.after_answer(functools.partial(conversation.name_soon, model))
        return stopped

    async def _tell_model(self, turn: Turn, conversation: "Conversation") -> None:
        """Tell the user which model answers, the first time and whenever it changes."""
        from .options import REVIEWER

        name = conversation.model
        if conversation.told_model == name:
            return
        what = "The built-in reviewer, no language model, answers" if name == REVIEWER else f"`{name}` answers"
        await turn.say(f"_{what} ({self.models.why(name)}); `/model` changes that._\n\n")
        conversation.told_model = name

    async def review(self, turn: Turn) -> s.StopReason | None:
        """Have the reviewer answer."""
        if self._reviewer is None:
            from ..reviewer import Reviewer

            self._reviewer = await Reviewer(self.client).__aenter__()
        only_looks = MODES[turn.session.mode or DEFAULT].changes == "never"
        stopped: s.StopReason | None = await self._reviewer.answer(turn, only_looks=only_looks)
        return stopped
