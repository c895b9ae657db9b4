"""The coding agent as a client sees it."""

import asyncio
import functools
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import __version__
from .. import schema as s
from ..agent import Agent
from ..errors import AuthRequired, Error, InternalError, InvalidParams, InvalidRequest
from ..roles import RemoteClient, offered
from ..turn import AgentSession, Turn, new_id
from .model import KeyRefused, Model, ModelError
from .modes import DEFAULT, MODES

if TYPE_CHECKING:
    from ..mcp import Server
    from .choice import Choice
    from .conversation import Conversation
    from .loop import Limits

log = logging.getLogger("dragoman")

MAX_TITLE = 60


class Coder(Agent):
    """A coding agent for any language model.

    `model` is a model or the name of one; without it the best there is is found.  `fetch` gives it a tool to visit
    pages.  What it works with is loaded with the first session: none of it is needed to answer `initialize`.
    """

    info = s.Implementation(name="dragoman-coder", title="Dragoman Coder", version=__version__)
    accepts = ("image", "audio", "embedded_context", "http", "sse", "additional_directories", "system_prompt")
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
        limits: "Limits | None" = None,
    ) -> None:
        super().__init__(client)
        self._given = model
        self._fetch = fetch
        self._limits = limits
        self._talks: dict[str, Conversation] = {}
        self._models: dict[str, Model] = {}
        self._servers: dict[str, list[Server]] = {}
        self._reviewer: Any = None
        self._choice: Choice | None = None
        self._known: Sequence[str] = ()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for id in list(self._talks):
            await self._let_go(id)
        for model in self._models.values():
            await model.close()
        if self._reviewer:
            await self._reviewer.__aexit__(None, None, None)

    # Who the user is to the providers

    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse:
        response = await super().initialize(params)
        if offered(params.client_capabilities, "elicitation.url"):
            return response
        methods = [method for method in response.auth_methods if method.id != "key"]
        return s.InitializeResponse(
            protocol_version=response.protocol_version,
            agent_capabilities=response.agent_capabilities,
            auth_methods=methods,
            agent_info=response.agent_info,
        )

    async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse:
        if params.method_id not in {method.id for method in self.auth_methods}:
            raise InvalidParams(f"there is no way to log in called {params.method_id!r}")
        if params.method_id == "key":
            await self._enter_key()
        await self._forget_models()
        await self._choose()
        assert self._choice
        if not self._choice.name:
            raise AuthRequired(f"{self._choice.why}; set a provider's key, or log in another way")
        return s.AuthenticateResponse()

    async def logout(self, params: s.LogoutRequest) -> s.LogoutResponse:
        from .login import store_keys

        store_keys({})
        await self._forget_models()
        return s.LogoutResponse()

    async def _enter_key(self) -> None:
        from .login import KeyPage

        session = next(iter(self.sessions), None)
        if session is None:
            raise InvalidRequest("open a session first, or log in from a terminal")
        page = KeyPage()
        url = await page.open()
        id = new_id("ask")
        try:
            question = s.UrlElicitation(
                message="Enter a provider's key on this page of your own machine.",
                session_id=session,
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

    async def _forget_models(self) -> None:
        """Keys have changed: models are opened anew."""
        self._choice = None
        for model in self._models.values():
            await model.close()
        self._models.clear()

    # Sessions

    async def opened(self, session: AgentSession) -> None:
        from ..host.permissions import Rules, RulesError, user_file, workspace_file
        from .conversation import Conversation
        from .gate import Gate
        from .options import options

        try:
            rules = await asyncio.to_thread(Rules.load, user_file(), workspace_file(session.cwd))
        except RulesError as exc:
            raise InvalidRequest(str(exc)) from exc
        if session.mode not in MODES:
            session.mode = DEFAULT
        talk = Conversation(session, Gate(session, rules, []))
        await talk.look_around()
        if self._choice is None:
            await self._choose()
        model = talk.choices.get("model") or self._usual
        effort = talk.choices.get("effort", "default")
        session.config_options = options(session.mode or DEFAULT, model, self._known, effort)
        self._talks[session.id] = talk
        self.client.wire.after_answer(functools.partial(self._announce, talk))

    @property
    def _usual(self) -> str:
        from .options import REVIEWER

        return (self._choice.name if self._choice else "") or REVIEWER

    def _announce(self, talk: "Conversation") -> None:
        from .slash import commands

        update = s.AvailableCommandsUpdate(available_commands=commands(talk.skills))
        self.client.update(s.SessionNotification(session_id=talk.session.id, update=update))

    async def close_session(self, params: s.CloseSessionRequest) -> s.CloseSessionResponse:
        response = await super().close_session(params)
        await self._let_go(params.session_id)
        return response

    async def _let_go(self, id: str) -> None:
        if talk := self._talks.pop(id, None):
            await talk.close()
        for server in self._servers.pop(id, ()):
            await server.close()

    async def set_mode(self, params: s.SetSessionModeRequest) -> s.SetSessionModeResponse:
        from .conversation import with_option

        response = await super().set_mode(params)
        session = self.session(params.session_id)
        await session.set_config_options(with_option(session.config_options, "mode", params.mode_id))
        return response

    async def set_config_option(self, params: s.SetSessionConfigOptionRequest) -> s.SetSessionConfigOptionResponse:
        response = await super().set_config_option(params)
        session, talk = self.session(params.session_id), self._talks[params.session_id]
        if params.config_id == "mode":
            await session.set_mode(str(params.value))
        else:
            talk.choices[params.config_id] = str(params.value)
            await talk.save()
        return response

    # Models

    async def _choose(self) -> None:
        """Find out which models there are and which is the usual one."""
        from .choice import Choice, chosen
        from .login import stored_keys

        if self._given is not None and not isinstance(self._given, str):
            self._choice, self._known = Choice(self._given.name, "given"), [self._given.name]
        else:
            self._choice, self._known = await chosen(self._given, stored_keys())

    async def model_of(self, talk: "Conversation") -> Model | None:
        """The model a session uses now; None is the reviewer."""
        from .choice import Choice, opened
        from .login import stored_keys
        from .options import REVIEWER

        name = str(talk.session.config("model"))
        if name == REVIEWER:
            return None
        if self._given is not None and not isinstance(self._given, str) and name == self._given.name:
            return self._given
        if name not in self._models:
            usual = self._choice if self._choice and self._choice.name == name else Choice(name)
            self._models[name] = await opened(usual, stored_keys())
        return self._models[name]

    def instructions(self, talk: "Conversation") -> str:
        """The system prompt of a session as it is now."""
        from .context import TASK, instructions

        session = talk.session
        given = session.system_prompt
        words = (
            "\n".join(block.text for block in given.content if isinstance(block, s.TextContent)) if given else ""
        )
        replaces = given is not None and given.mode == "override"
        return instructions(
            session.cwd,
            session.additional_directories,
            session.mode or DEFAULT,
            talk.skills,
            task=words if replaces else TASK,
            addition="" if replaces else words,
        )

    # Turns

    async def answer(self, turn: Turn) -> s.StopReason | None:
        talk = self._talks[turn.session.id]
        talk.place.checkpoints.begin()
        await self._set_title(turn, talk)
        try:
            return await self._command(turn, talk)
        except KeyRefused as exc:
            raise AuthRequired(str(exc)) from exc
        except ModelError as exc:
            raise InternalError(str(exc)) from exc

    async def _command(self, turn: Turn, talk: "Conversation") -> s.StopReason | None:
        """Do what a slash command says, or have the model answer."""
        from . import slash

        name, rest = slash.parsed(turn.text)
        match name:
            case "help":
                await slash.help_(turn, talk)
            case "undo":
                await slash.undo(turn, talk)
            case "diff":
                await slash.diff(turn, talk)
            case "compact":
                await slash.compact(turn, talk, self)
            case "model":
                await self._show_or_change_model(turn, talk, rest)
            case "mcp":
                await self._show_servers(turn)
            case "review":
                await self._review(turn)
            case "init":
                return await self._converse(turn, talk, [s.TextContent(text=slash.INIT)])
            case _ if skill := talk.skills.get(name):
                text = f"{skill.body}\n\n{rest}".strip()
                blocks = [block for block in turn.prompt if not isinstance(block, s.TextContent)]
                return await self._converse(turn, talk, [s.TextContent(text=text), *blocks])
            case _:
                return await self._converse(turn, talk, turn.prompt)
        return None

    async def _converse(
        self, turn: Turn, talk: "Conversation", prompt: Sequence[s.ContentBlock]
    ) -> s.StopReason | None:
        from .loop import Limits, Loop
        from .prompts import parts_of
        from .reviewing import findings_in

        model = await self.model_of(talk)
        await self._tell_model(turn, talk)
        if model is None:
            await self._review(turn)
            return None
        await self._fill_toolbox(turn, talk)
        parts, unread = parts_of(prompt, model.takes)
        if unread:
            await turn.session.notice(f"{model.name} cannot read what was attached", ", ".join(unread), "warning")
        loop = Loop(
            turn,
            talk,
            model,
            lambda: self.instructions(talk),
            effort=str(talk.session.config("effort")),
            limits=self._limits or Limits(),
            check=lambda turn, paths: findings_in(turn, talk.place, paths),
        )
        return await loop.run(parts)

    async def _set_title(self, turn: Turn, talk: "Conversation") -> None:
        words = " ".join(turn.text.split())
        if talk.title is None and words and not words.startswith("/"):
            talk.title = words if len(words) <= MAX_TITLE else words[: MAX_TITLE - 1].rstrip() + "…"
            await talk.session.set_title(talk.title)

    async def _tell_model(self, turn: Turn, talk: "Conversation") -> None:
        """Say which model answers, the first time and whenever it is another one."""
        name = str(talk.session.config("model"))
        if talk.told_model == name:
            return
        why = self._choice.why if self._choice and name == self._usual else "chosen"
        what = "The built-in reviewer, no language model, answers" if name == "reviewer" else f"`{name}` answers"
        await turn.say(f"_{what} ({why}); `/model` changes that._\n\n")
        talk.told_model = name

    async def _fill_toolbox(self, turn: Turn, talk: "Conversation") -> None:
        from .toolbox import Toolbox

        session = talk.session
        if session.id not in self._servers:
            self._servers[session.id] = await self._connect(session) if session.mcp_servers else []
        foreign = []
        if self._servers[session.id]:
            from .tools.foreign import tools_of

            foreign = tools_of(self._servers[session.id])
        talk.toolbox = Toolbox(
            fetch=self._fetch,
            questions=offered(self.client.offers, "elicitation.form"),
            skills=bool(talk.skills),
            foreign=foreign,
        )

    async def _connect(self, session: AgentSession) -> "list[Server]":
        """Reach the session's MCP servers; one that cannot be reached is told of and done without."""
        from ..mcp import connected

        trying = (connected(config, session.cwd) for config in session.mcp_servers)
        servers = []
        for found in await asyncio.gather(*trying, return_exceptions=True):
            if isinstance(found, Error):
                await session.notice("An MCP server cannot be used", str(found), "warning")
                log.warning("%s", found)
            elif isinstance(found, BaseException):
                raise found
            else:
                servers.append(found)
        return servers

    async def _review(self, turn: Turn) -> None:
        if self._reviewer is None:
            from ..reviewer import Reviewer

            self._reviewer = await Reviewer(self.client).__aenter__()
        await self._reviewer.answer(turn)

    async def _show_or_change_model(self, turn: Turn, talk: "Conversation", wanted: str) -> None:
        from .options import options

        session = talk.session
        if not wanted:
            listed = "\n".join(f"- `{name}`" for name in [*self._known, "reviewer"])
            await turn.say(f"`{session.config('model')}` answers. There are:\n{listed}\n")
            return
        before = session.config_options
        session.config_options = options(
            session.mode or DEFAULT, wanted, self._known, str(session.config("effort"))
        )
        try:
            await self.model_of(talk)
        except Error:
            session.config_options = before
            raise
        await session.set_config_options(session.config_options)
        talk.choices["model"] = wanted
        talk.told_model = wanted
        await talk.save()
        await turn.say(f"`{wanted}` answers from now on.")

    async def _show_servers(self, turn: Turn) -> None:
        talk = self._talks[turn.session.id]
        await self._fill_toolbox(turn, talk)
        there = {server.name: server for server in self._servers[turn.session.id]}
        lines = []
        for config in turn.session.mcp_servers:
            server = there.get(config.name)
            tools = ", ".join(f"`{tool.name}`" for tool in server.tools) if server else "cannot be used"
            lines.append(f"- {config.name}: {tools}")
        await turn.say("\n".join(lines) or "This session has no MCP servers.")
