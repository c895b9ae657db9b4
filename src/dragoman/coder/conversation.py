"""What the agent keeps of a session: everything a later turn needs, most of it in the session's state."""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .. import schema as s
from ..agent import with_value
from ..errors import Error
from ..roles import offered
from ..turn import AgentSession
from . import history as h
from . import titles
from .checkpoints import Checkpoints
from .context import Skill, find_skills
from .gate import Gate
from .model import Finished, Model, Tokens, answer_of
from .modes import DEFAULT
from .toolbox import USUAL, Toolbox
from .tools import ApplyPatch, AskUser, FetchUrl, Tool, UseSkill
from .workplace import Workplace

if TYPE_CHECKING:
    from ..mcp import Server

log = logging.getLogger("dragoman")

# Where in the session's state it is; messages, and the changes of a turn, have keys of their own, so that each is
# stored once.
STATE = "coder"
CHECKPOINTS = f"{STATE}.changes."
NAMING = 60.0  # seconds a model may take to name a session


class Conversation:
    """One session's history, place of work, tools and accounts."""

    def __init__(self, session: AgentSession, gate: Gate) -> None:
        stored: Mapping[str, Any] = session.state.get(STATE) or {}
        self.session = session
        self.gate = gate
        gate.allowed[:] = stored.get("allowed", [])
        self.history: list[h.Message] = h.repaired(_messages(session.state, stored.get("messages", 0)))
        self.place = Workplace(session, gate, Checkpoints.decode(_turns(session.state)))
        self.place.seen.update(stored.get("seen", {}))
        self.skills: Mapping[str, Skill] = {}
        self.toolbox = Toolbox(())
        self.servers: list[Server] | None = None  # None: not yet connected
        self.tokens = msgspec.convert(stored.get("tokens", {}), Tokens)
        self.cost: float | None = stored.get("cost")
        self.used: int = stored.get("used", 0)  # tokens of the last request and its answer
        self.title: str | None = stored.get("title")
        self.is_named: bool = stored.get("is_named", False)  # the model was asked for the title
        self._naming: asyncio.Task[None] | None = None
        self._is_closed = False
        self.told_model: str | None = stored.get("told_model")  # the model the user was told of
        self.choices: dict[str, str] = dict(stored.get("choices", {}))  # options the user set

    async def save(self) -> None:
        """Have all of it that outlives the process stored, where there is a store."""
        state = self.session.state
        for i, message in enumerate(self.history):
            state[_key(i)] = msgspec.to_builtins(message)
        for i in range(len(self.history), (state.get(STATE) or {}).get("messages", 0)):
            state.pop(_key(i), None)  # the conversation was made shorter
        changes = {f"{CHECKPOINTS}{number}": turn for number, turn in self.place.checkpoints.encode().items()}
        for key in [key for key in state if key.startswith(CHECKPOINTS) and key not in changes]:
            del state[key]
        state.update(changes)
        state[STATE] = {
            "messages": len(self.history),
            "seen": dict(self.place.seen),
            "allowed": list(self.gate.allowed),
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
        """Count what an answer took."""
        self.tokens += finished.tokens
        if finished.cost is not None:
            self.cost = (self.cost or 0.0) + finished.cost

    async def set_title(self, title: str) -> None:
        """Call the session something; nothing is no name."""
        if title and title != self.title:
            self.title = title
            await self.session.set_title(title)

    def name_soon(self, model: Model) -> None:
        """Have the model name the session, beside whatever comes next."""
        if self._naming is None and not self._is_closed:
            self._naming = asyncio.create_task(self._name(model), name="name the session")

    async def _name(self, model: Model) -> None:
        try:
            async with asyncio.timeout(NAMING):
                answer = await answer_of(model, titles.question(self.history))
            if answer is not None:
                self.spend(answer)
                self.is_named = True
                await self.set_title(titles.from_answer(answer.reply.text))
                await self.save()
        except (Error, TimeoutError) as exc:  # its first words will do
            log.debug("the session was not named: %s", exc)
        finally:
            self._naming = None

    async def look_around(self) -> None:
        """Find the skills there are."""
        self.skills = await asyncio.to_thread(find_skills, self.session.cwd)

    @property
    def mode(self) -> str:
        return self.session.mode or DEFAULT

    @property
    def model(self) -> str:
        """The name of the model the user has it answered by."""
        return str(self.session.config("model"))

    async def equip(self, *, fetch: bool = False) -> None:
        """Make the tools ready: our own, and those of the session's MCP servers."""
        if self.servers is None:
            self.servers = await self._connected() if self.session.mcp_servers else []
        foreign = []
        if self.servers:
            from .tools.foreign import tools_of

            foreign = tools_of(self.servers)
        further: list[tuple[type[Tool], bool]] = [
            (FetchUrl, fetch),
            (ApplyPatch, "gpt" in self.model),  # the models that were taught it
            (AskUser, offered(self.session.client.offers, "elicitation.form")),
            (UseSkill, bool(self.skills)),
        ]
        self.toolbox = Toolbox([*USUAL, *(kind for kind, is_there in further if is_there)], foreign)

    async def _connected(self) -> "list[Server]":
        """Reach the session's MCP servers; one that cannot be reached is told of and done without."""
        from ..mcp import connected

        trying = [asyncio.create_task(connected(config, self.session)) for config in self.session.mcp_servers]
        try:
            await asyncio.wait(trying)
        except asyncio.CancelledError:
            for task in trying:
                task.cancel()
            for found in await asyncio.gather(*trying, return_exceptions=True):
                if not isinstance(found, BaseException):
                    await found.close()
            raise
        servers = []
        for task in trying:
            if failure := task.exception():
                log.warning("%s", failure)
                await self.session.notice("An MCP server cannot be used", str(failure), "warning")
            else:
                servers.append(task.result())
        return servers

    async def set_mode(self, mode: str) -> None:
        """Change the mode from the agent's side, in both places a client may show it."""
        await self.session.set_mode(mode)
        await self.session.set_config_options(with_option(self.session.config_options, "mode", mode))

    async def close(self) -> None:
        self._is_closed = True
        if self._naming:
            self._naming.cancel()
            await asyncio.wait([self._naming])
        for server in self.servers or ():
            await server.close()
        await self.place.close()


def with_option(options: Sequence[s.SessionConfigOption], id: str, value: str) -> list[s.SessionConfigOption]:
    """Config options with one of them changed."""
    return [with_value(option, value) if getattr(option, "id", None) == id else option for option in options]


def _key(number: int) -> str:
    return f"{STATE}.message.{number}"


def _turns(state: Mapping[str, Any]) -> dict[int, Any]:
    """The stored changes by the numbers of their turns."""
    return {int(key.removeprefix(CHECKPOINTS)): state[key] for key in state if key.startswith(CHECKPOINTS)}


def _messages(state: Mapping[str, Any], count: int) -> Iterator[h.Message]:
    """The stored messages, as far as they can be read."""
    for i in range(count):
        try:
            yield msgspec.convert(state[_key(i)], h.Message)
        except (KeyError, msgspec.ValidationError):
            return  # what follows a message that is lost makes no sense without it
