"""What the agent keeps of a session: everything a later turn needs, most of it in the session's state."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from .. import schema as s
from ..agent import with_value
from ..turn import AgentSession
from . import history as h
from .checkpoints import Checkpoints
from .context import Skill, find_skills
from .gate import Gate
from .model import Tokens
from .toolbox import Toolbox
from .workplace import Workplace

STATE = "coder"  # where in the session's state it is; messages have keys of their own, so that each is stored once
CHECKPOINTS = f"{STATE}.checkpoints"


class Conversation:
    """One session's history, place of work, tools and accounts."""

    def __init__(self, session: AgentSession, gate: Gate) -> None:
        stored: Mapping[str, Any] = session.state.get(STATE) or {}
        self.session = session
        self.gate = gate
        gate.allowed[:] = stored.get("allowed", [])
        self.history: list[h.Message] = h.repaired(_messages(session.state, stored.get("messages", 0)))
        self.place = Workplace(session, gate, Checkpoints.decode(session.state.get(CHECKPOINTS, [])))
        self.skills: Mapping[str, Skill] = {}
        self.toolbox = Toolbox()
        self.tokens = msgspec.convert(stored.get("tokens", {}), Tokens)
        self.cost: float | None = stored.get("cost")
        self.used: int = stored.get("used", 0)  # tokens of the last request and its answer
        self.title: str | None = stored.get("title")
        self.told_model: str | None = stored.get("told_model")  # the model the user was told of
        self.choices: dict[str, str] = dict(stored.get("choices", {}))  # options the user set

    async def save(self) -> None:
        """Have all of it that outlives the process stored, where there is a store."""
        state = self.session.state
        for i, message in enumerate(self.history):
            state[_key(i)] = msgspec.to_builtins(message)
        for i in range(len(self.history), (state.get(STATE) or {}).get("messages", 0)):
            state.pop(_key(i), None)  # the conversation was made shorter
        state[CHECKPOINTS] = self.place.checkpoints.encode()
        state[STATE] = {
            "messages": len(self.history),
            "allowed": list(self.gate.allowed),
            "tokens": msgspec.to_builtins(self.tokens),
            "cost": self.cost,
            "used": self.used,
            "title": self.title,
            "told_model": self.told_model,
            "choices": dict(self.choices),
        }
        await self.session.save()

    async def look_around(self) -> None:
        """Find the skills there are."""
        self.skills = await asyncio.to_thread(find_skills, self.session.cwd)

    async def set_mode(self, mode: str) -> None:
        """Change the mode from the agent's side, in both places a client may show it."""
        await self.session.set_mode(mode)
        await self.session.set_config_options(with_option(self.session.config_options, "mode", mode))

    async def close(self) -> None:
        await self.place.close()


def with_option(options: Sequence[s.SessionConfigOption], id: str, value: str) -> list[s.SessionConfigOption]:
    """Config options with one of them changed."""
    return [with_value(option, value) if getattr(option, "id", None) == id else option for option in options]


def _key(number: int) -> str:
    return f"{STATE}.message.{number}"


def _messages(state: Mapping[str, Any], count: int) -> Iterator[h.Message]:
    """The stored messages, as far as they can be read."""
    for i in range(count):
        try:
            yield msgspec.convert(state[_key(i)], h.Message)
        except (KeyError, msgspec.ValidationError):
            return  # what follows a message that is lost makes no sense without it
