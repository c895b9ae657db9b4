"""An open session with all its parts: the conversation, its questions, its MCP servers."""

from collections.abc import Mapping

from msgspec.structs import replace

from ... import schema as s
from ...agent.turn import AgentSession, new_id
from ...errors import InvalidParams, RpcError
from ...foundation.documents import Json, members, strings_in
from ...foundation.owning import own
from ...roles import offered
from .choices import DEFAULT
from .commands import available_commands
from .conversation import ClaudeConversation
from .lent.server import NAME, LentServer, lendable, with_server
from .messages.updates import MessageTranslator
from .program.launch import ClaudeLaunch
from .program.running import Message, ProgramError
from .questions import ClaudeQuestions
from .requests import Raw, wants_raw
from .titles import SessionTitle
from .tools.shown import ACP

RAW = "_claude/sdkMessage"


class OpenSession:
    """Creates the parts of a session and releases them."""

    def __init__(self, session: AgentSession, launch: ClaudeLaunch, *, lent: bool, raw: Raw) -> None:
        self.session, self._raw = session, raw
        offers = session.client.offers
        forbidden = strings_in(launch.options.get("disallowedTools"))
        tools = (
            [tool for tool in lendable(offers) if tool not in forbidden] if lent and launch.builtin_tools else []
        )
        self.questions = ClaudeQuestions(lambda: self.conversation, {f"{ACP}{tool}" for tool in tools})
        self.conversation = ClaudeConversation(
            session,
            with_server(launch, tools) if tools else launch,
            translator_for(session.cwd, offers),
            {
                "can_use_tool": self.questions.can_use_tool,
                "elicitation": self.questions.elicitation,
                "mcp_message": self._mcp_message,
                "hook_callback": _no_hook,
            },
            told=self._tell_raw,
            announce=self._announce,
        )
        self.title = SessionTitle(session, self.conversation.request, is_named=launch.resume is not None)
        self._server = LentServer(self.conversation, self.questions, tools) if tools else None
        self._by_name = {
            server.name: server.server_id for server in session.mcp_servers if isinstance(server, s.McpServerAcp)
        }

    def commands(self) -> list[s.AvailableCommand]:
        """The slash commands of the session."""
        return available_commands(self.conversation.commands, self.conversation.terminal_only)

    async def choose(self, id: str, value: str | bool) -> None:
        """Set an option; raises InvalidParams for a value that it does not offer."""
        if not isinstance(value, str):
            raise InvalidParams(f"config option {id!r} takes a name, not {value!r}")
        match id:
            case "mode":
                await self.choose_mode(value)
            case "model":
                await self._choose_model(value)
            case "effort" | "agent":
                await self._choose_setting(id, value)
            case _:
                raise InvalidParams(f"there is no config option {id!r}")

    async def choose_mode(self, wanted: str) -> None:
        """Switch the mode; raises InvalidParams for one that is not offered."""
        choices = self.conversation.choices
        if (mode := choices.mode_named(wanted)) is None:
            raise InvalidParams(f"there is no mode {wanted!r}")
        before, choices.mode = choices.mode, mode  # at once, since the program reports the mode as well
        try:
            await self.conversation.request("set_permission_mode", mode=mode)
        except BaseException as exc:
            choices.mode = before
            if isinstance(exc, ProgramError):
                raise InvalidParams(str(exc)) from None
            raise
        self.session.mode = mode
        self.conversation.launch = replace(self.conversation.launch, mode=mode)

    async def _choose_model(self, wanted: str) -> None:
        choices = self.conversation.choices
        if (model := choices.model_named(wanted)) is None:
            raise InvalidParams(f"there is no model {wanted!r}")
        try:
            await self.conversation.request("set_model", model=model)
        except ProgramError as exc:
            raise InvalidParams(str(exc)) from None
        choices.use_model(model)
        own(self.conversation.measure(), "claude's context window")
        self.conversation.launch = replace(self.conversation.launch, model=model)
        if choices.mode not in {mode.id for mode in choices.modes()}:
            await self.choose_mode(DEFAULT)
            await self.session.set_mode(choices.mode)

    async def _choose_setting(self, id: str, value: str) -> None:
        """Set the effort or the agent, which are settings of the program."""
        offered_values = {
            choice.value
            for option in self.conversation.choices.options()
            if isinstance(option, s.SessionConfigSelect) and option.id == id
            for choice in option.options
            if isinstance(choice, s.SessionConfigSelectOption)
        }
        if value not in offered_values:
            raise InvalidParams(f"config option {id!r} cannot be {value!r}")
        setting = "effortLevel" if id == "effort" else "agent"
        await self.conversation.request(
            "apply_flag_settings", settings={setting: None if value == DEFAULT else value}
        )
        setattr(self.conversation.choices, id, value)
        if id == "effort":
            self.conversation.launch = replace(self.conversation.launch, effort=None if value == DEFAULT else value)

    def cancel(self) -> None:
        """End the tools that run through the client, since the turn was cancelled."""
        if self._server:
            self._server.stop()

    async def close(self) -> None:
        """End the program and everything that runs in the client."""
        if self._server:
            await self._server.close()
        await self.conversation.stop()

    async def _announce(self) -> None:
        await self.session.set_commands(self.commands())

    def _tell_raw(self, message: Message) -> None:
        if wants_raw(self._raw, message):
            self.session.client.notify(RAW, {"sessionId": self.session.id, "message": message})

    async def _mcp_message(self, request: Message) -> Message:
        """Answer an MCP message through our own server, or through one in the client."""
        name, message = str(request.get("server_name")), members(request.get("message"))
        if name == NAME and self._server:
            answer = await self._server.answer(message)
        elif name in self._by_name:
            answer = await self._relayed(self._by_name[name], message)
        else:
            answer = _error(message, -32601, f"there is no MCP server {name!r}")
        return {"mcp_response": answer or {"jsonrpc": "2.0", "result": {}}}

    async def _relayed(self, server_id: str, message: Mapping[str, Json]) -> Message:
        """Pass a message on to an MCP server in the client, which does not receive notifications."""
        if message.get("id") is None:
            return {}
        params = message.get("params")
        asked = s.MessageMcpRequest(
            server_id=server_id,
            request_id=new_id("mcp"),
            method=str(message["method"]),
            params=None if params is None else members(params),
        )
        try:
            answer = await self.session.client.message_mcp(asked)
        except RpcError as exc:
            return _error(message, exc.code, exc.message)
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            return {"jsonrpc": "2.0", "id": message["id"], "error": answer["error"]}
        return {"jsonrpc": "2.0", "id": message["id"], "result": (answer or {}).get("result", {})}


def translator_for(cwd: str, client: s.ClientCapabilities) -> MessageTranslator:
    """A translator for the capabilities of this client."""
    meta = client.meta or {}
    translator = MessageTranslator(cwd, terminals=meta.get("terminal_output") is True)
    translator.system.notices = offered(client, "session.notices")
    translator.system.compactions = offered(client, "session.compaction")
    return translator


def _error(message: Mapping[str, Json], code: int, told: str) -> Message:
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": code, "message": told}}


async def _no_hook(request: Message) -> Message:
    return {"continue": True}
