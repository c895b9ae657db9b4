"""A session's conversation: everything a later turn needs, most of it in the session's state."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .. import codec
from .. import schema as s
from ..agent.agent import with_value
from ..agent.turn import AgentSession, Turn
from ..errors import Error
from ..lsp.table import LanguageTableError
from ..roles import offered
from .context import history as h
from .context import titles
from .context.instructions import Assistant, Skill, find_assistants, find_skills
from .context.kept_history import KeptHistory
from .model.port import Finished, Model, TokenUsage, answer_of
from .modes import DEFAULT
from .permissions import CoderPermissions
from .toolbox import USUAL, ForeignTool, Toolbox
from .tools import ApplyPatch, AskAssistant, AskUser, FetchUrl, Tool, UseSkill
from .warning import warned
from .workplace import Workplace

if TYPE_CHECKING:
    from ..mcp import SamplingRequest, SessionTools, ToolInfo

log = logging.getLogger("dragoman")

STATE = "coder"  # its key in the session's state; messages have keys of their own, so that each is stored once
MOST_HELPERS = 4  # helpers that ask the model at once
NAMING = 60.0  # seconds a model may take to name a session


class Conversation:
    """One session's history, workplace, tools and usage."""

    def __init__(self, session: AgentSession, permissions: CoderPermissions) -> None:
        stored: Mapping[str, Any] = session.state.get(STATE) or {}
        self.session = session
        self.permissions = permissions
        permissions.allowed[:] = stored.get("allowed", [])
        self.history = KeptHistory(_messages(session.state, stored.get("messages", 0)))
        self.place = Workplace(session, permissions)
        self.place.seen.update(stored.get("seen", {}))
        self.room_for_helpers = asyncio.Semaphore(MOST_HELPERS)
        self.skills: Mapping[str, Skill] = {}
        self.helpers: Mapping[str, Assistant] = {}
        self.toolbox = Toolbox(())
        self.has_languages = True  # language servers may be used
        self._told_table = False  # the user knows that the table of language servers is wrong
        self._language_tools: list[ForeignTool] = []
        self._left_out: set[str] = set()  # foreign tools that a provider refused
        self._faulty: set[str] = set()  # and those whose faults the user knows
        self.servers: SessionTools | None = None  # None: not yet connected
        self._asked: tuple[Turn | None, Model | None] = None, None  # the turn and the model that servers may use
        self.may_search_web = False
        self.tokens = msgspec.convert(stored.get("tokens", {}), TokenUsage)
        self.cost: float | None = stored.get("cost")
        self.used: int = stored.get("used", 0)  # tokens of the last request and its answer
        self.title: str | None = stored.get("title")
        self.is_named: bool = stored.get("is_named", False)  # the model was asked for the title
        self._offered: list[ToolInfo] = []  # the tools of servers that the model is offered
        self._naming: asyncio.Task[None] | None = None
        self._is_closed = False
        self.told_model: str | None = stored.get("told_model")  # the model that the user knows of
        self.choices: dict[str, str] = dict(stored.get("choices", {}))  # options the user set

    async def save(self) -> None:
        """Store everything that outlives the process, if there is a store."""
        state = self.session.state
        for i, message in enumerate(self.history):
            state[_key(i)] = msgspec.json.decode(codec.encode(message))
        for i in range(len(self.history), (state.get(STATE) or {}).get("messages", 0)):
            state.pop(_key(i), None)  # the conversation was shortened
        state[STATE] = {
            "messages": len(self.history),
            "seen": dict(self.place.seen),
            "allowed": list(self.permissions.allowed),
            "tokens": msgspec.to_builtins(self.tokens),
            "cost": self.cost,
            "used": self.used,
            "title": self.title,
            "is_named": self.is_named,
            "told_model": self.told_model,
            "choices": dict(self.choices),
        }
        await self.session.save()

    def spend(self, finished: Finished) -> None:
        """Count the tokens and the cost of an answer."""
        self.tokens += finished.tokens
        if finished.cost is not None:
            self.cost = (self.cost or 0.0) + finished.cost

    async def set_title(self, title: str) -> None:
        """Name the session; an empty title is ignored."""
        if title and title != self.title:
            self.title = title
            await self.session.set_title(title)

    def name_soon(self, model: Model) -> None:
        """Let the model name the session in the background."""
        if self._naming is None and not self._is_closed:
            self._naming = asyncio.create_task(self._name(model), name="name the session")

    async def _name(self, model: Model) -> None:
        try:
            async with asyncio.timeout(NAMING):
                answer = await answer_of(model, titles.question(self.history))
            self.spend(answer)
            self.is_named = True
            await self.set_title(titles.from_answer(answer.reply.text))
            await self.save()
        except (Error, TimeoutError) as exc:  # the first words of the prompt remain the title
            log.debug("the session was not named: %s", exc)
        finally:
            self._naming = None

    async def look_around(self) -> None:
        """Find the available skills and helpers."""
        self.skills = await asyncio.to_thread(find_skills, self.session.cwd)
        self.helpers = await asyncio.to_thread(find_assistants, self.session.cwd)

    @property
    def mode(self) -> str:
        return self.session.mode or DEFAULT

    @property
    def model(self) -> str:
        """The name of the model that answers."""
        return str(self.session.config("model"))

    async def load_tools(self, turn: Turn, *, model: Model | None = None, web: bool = False) -> None:
        """Make the tools ready: our own, and those of the session's MCP servers, which may ask the model.

        `web` lets the model visit pages, and search for them where its provider can.
        """
        self.may_search_web = web
        self._asked = turn, model
        if self.servers is None and self.session.mcp_servers:
            self.servers = await self.session.tools(sampling=self._sample).__aenter__()
        further: list[tuple[type[Tool], bool]] = [
            (FetchUrl, web),
            (ApplyPatch, "gpt" in self.model),  # models that were trained on this format
            (AskUser, offered(self.session.client.offers, "elicitation.form")),
            (UseSkill, bool(self.skills)),
            (AskAssistant, bool(self.helpers)),
        ]
        own: list[type[Tool]] = [*USUAL, *(kind for kind, is_there in further if is_there)]
        has_own = (self.session.meta or {}).get(
            "disableBuiltInTools"
        ) is not True  # as clients of claude-code-acp say
        self._language_tools = await self._found_languages(turn) if has_own else []
        self.toolbox = Toolbox(own if has_own else [], self._language_tools)
        self._offered = []
        await self.follow_servers(turn)

    async def _sample(self, request: "SamplingRequest") -> str:
        """The model's answer to a server's request; raises McpFailure."""
        from ..mcp import McpFailure
        from .tools.sampling import sampled

        turn, model = self._asked
        if turn is None or model is None or turn.ended:
            raise McpFailure("no model is at work")
        answer = await sampled(turn, model, request)
        self.spend(answer)
        return answer.reply.text

    async def follow_servers(self, turn: Turn) -> None:
        """Offer the current tools of the session's MCP servers."""
        if self.servers is None:
            return
        from .tools.foreign import tools_of

        await self.servers.refresh()
        there = list(self.servers)
        if there != self._offered:
            self._offered = there
            tools, faults = tools_of(self.servers)
            await self._tell_faults(turn, faults)
            every = [*self._language_tools, *tools]
            self.toolbox.set_foreign(tool for tool in every if tool.spec.name not in self._left_out)

    async def _found_languages(self, turn: Turn) -> list[ForeignTool]:
        """The tools of language servers, where any is installed."""
        from .tools.languages import language_tools

        try:
            return language_tools() if self.has_languages and await self.place.languages.look() else []
        except LanguageTableError as exc:
            if not self._told_table:
                self._told_table = True
                await warned(turn, "No language server can be used", str(exc))
            return []

    def leave_out(self, tool: str) -> None:
        """Stop offering a foreign tool that the provider refuses."""
        self._left_out.add(tool)
        self.toolbox.drop(tool)

    async def _tell_faults(self, turn: Turn, faults: Mapping[str, str]) -> None:
        """Tell the user once about each tool that cannot be offered to any model."""
        for tool, why in faults.items():
            if tool not in self._faulty:
                self._faulty.add(tool)
                await warned(turn, f"The tool {tool} cannot be used", why)

    async def set_mode(self, mode: str) -> None:
        """Change the mode from the agent's side, in both places a client may show it."""
        await self.session.set_mode(mode)
        await self.session.set_config_options(with_option(self.session.config_options, "mode", mode))

    async def close(self) -> None:
        self._is_closed = True
        if self._naming:
            self._naming.cancel()
            await asyncio.wait([self._naming])
        await self.session.end()
        await self.place.close()


def with_option(options: Sequence[s.SessionConfigOption], id: str, value: str) -> list[s.SessionConfigOption]:
    """The config options with one of them changed."""
    return [with_value(option, value) if getattr(option, "id", None) == id else option for option in options]


def _key(number: int) -> str:
    return f"{STATE}.message.{number}"


def _messages(state: Mapping[str, object], count: int) -> Iterator[h.Message]:
    """The stored messages, as far as they can be read."""
    for i in range(count):
        try:
            yield msgspec.convert(state[_key(i)], h.Message)
        except (KeyError, msgspec.ValidationError):
            return  # messages after a lost one make no sense without it
