"""A client that checks an agent over raw frames: the requirements of the specification as a table of checks.

A requirement is a coroutine that speaks to the agent; its docstring is the sentence it holds the agent to, its name
the id.  It raises AssertionError where the agent fails, and `NotShown` where the agent does not offer what it is
about.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from dragoman import codec
from dragoman.testing import RawWire

from .services import Services

LIMIT = 60.0  # seconds for one answer, on a busy machine
TEXT = {"type": "text", "text": "hello"}
LINK = {"type": "resource_link", "uri": "file:///a.md", "name": "a.md"}
Message = dict[str, Any]
Dial = Callable[[], Awaitable[RawWire]]


class NotShown(Exception):
    """The agent does not offer what a requirement is about."""


class Shown(NamedTuple):
    """One turn as it was heard: how its session began, what came until its end, how it ended, and what followed."""

    opened: Message
    session: str
    messages: list[Message]
    updates: list[Message]
    stop_reason: str
    afterwards: list[Message]

    def of_kind(self, *kinds: str) -> list[Message]:
        found = [update for update in self.updates if update["sessionUpdate"] in kinds]
        if not found:
            raise NotShown
        return found

    def asked(self, method: str) -> list[Message]:
        found = [message["params"] for message in self.messages if message.get("method") == method]
        if not found:
            raise NotShown
        return found


class Kit:
    """One connection to an agent, and all that was heard on it."""

    version = 0
    update_type: Any = None
    schema: Any = None
    option_id = ""  # what the id of an option is called
    login = ""  # the method to log in with

    def __init__(self, wire: RawWire, cwd: str, dial: Dial, client: str) -> None:
        self.wire, self.cwd, self.dial, self.client = wire, cwd, dial, client
        self.heard: list[Message] = []
        self.quick = TEXT  # the prompt of turns of which nothing but their end matters
        self.slow = TEXT  # the prompt of turns that are to be cancelled
        self.welcome: Message = {}
        self.services = Services(wire)
        self._shown: Shown | None = None

    @property
    def offers(self) -> Message:
        """What the agent says it can do."""
        raise NotImplementedError

    def session_offers(self) -> Message:
        """What the agent says it can do with sessions."""
        raise NotImplementedError

    def takes(self, kind: str) -> bool:
        """Whether the agent takes a kind of content."""
        raise NotImplementedError

    def offered(self, name: str) -> None:
        """Go on only where the agent offers something about sessions."""
        if self.session_offers().get(name) is None:
            raise NotShown

    def greeting(self) -> Message:
        raise NotImplementedError

    async def greet(self) -> None:
        self.welcome = await self.good("initialize", self.greeting())

    async def stranger(self) -> "Kit":
        """A further connection, on which nothing was said yet."""
        return type(self)(await self.dial(), self.cwd, self.dial, self.client)

    def prompt(self, id: str, prompt: list[Any]) -> tuple[int, int]:
        """Begin a turn; gives the request's id, and how much was heard before."""
        return self.wire.ask("session/prompt", {"sessionId": id, "prompt": prompt}), len(self.heard)

    async def end(self, asked: tuple[int, int], id: str) -> str:
        """The stop reason of a turn that was begun."""
        raise NotImplementedError

    async def turn(self, id: str, prompt: list[Any]) -> str:
        """A whole turn; gives its stop reason."""
        return await self.end(self.prompt(id, prompt), id)

    async def shown(self) -> Shown:
        """The turn that this connection saw first, which whatever only looks at a turn looks at."""
        if self._shown is None:
            opened = await self.good("session/new", {"cwd": self.cwd, "mcpServers": []})
            id, start = opened["sessionId"], len(self.heard)
            reason = await self.turn(id, [TEXT])
            heard, updates = self.heard[start:], self.updates(id, start)
            self._shown = Shown(opened, id, heard, updates, reason, await self.silence())
        return self._shown

    async def call(self, method: str, params: Any = None, *, id: Any = None) -> Message:
        """Ask, answer whatever is asked meanwhile, and give the answer."""
        self.wire.send({"id": id, "method": method, "params": params or {}}) if id is not None else None
        return await self.until(id if id is not None else self.wire.ask(method, params or {}))

    async def until(self, id: Any, since: int | None = None) -> Message:
        """The answer with this id, which may have been heard since some place."""
        at = len(self.heard) if since is None else since
        while True:
            while at == len(self.heard):
                await self.next()
            message, at = self.heard[at], at + 1
            if "method" not in message and message.get("id") == id and type(message.get("id")) is type(id):
                return message

    async def next(self) -> Message:
        message = await self.wire.receive(LIMIT)
        self.heard.append(message)
        if "method" in message and "id" in message:
            self.services.answer(message)
        return message

    async def hear(self, method: str) -> Message:
        """What comes next of a method."""
        while (message := await self.next()).get("method") != method:
            pass
        return message

    async def good(self, method: str, params: Any = None) -> Any:
        """Ask for something that must be given."""
        answer = await self.call(method, params)
        assert "result" in answer, (method, answer)
        return answer["result"]

    async def bad(self, method: str, params: Any = None, code: int | None = None) -> Message:
        """Ask for something that must be refused, with this code if one is named."""
        answer = await self.call(method, params)
        assert "error" in answer, (method, answer)
        assert code in (None, answer["error"]["code"]), (method, answer)
        error = answer["error"]
        assert isinstance(error["code"], int), error
        assert isinstance(error["message"], str), error
        assert error["message"] and "\n" not in error["message"], error
        return error

    async def session(self, **params: Any) -> str:
        id = (await self.good("session/new", {"cwd": self.cwd, "mcpServers": [], **params}))["sessionId"]
        assert isinstance(id, str) and id
        return id

    async def silence(self) -> list[Message]:
        """What came until the agent has answered one more question, which it answers in order."""
        start = len(self.heard)
        await self.call("_conformance/nothing")
        return self.heard[start:-1]

    def updates(self, session: str | None = None, since: int = 0) -> list[Message]:
        """The updates heard, each checked against the schema."""
        found = []
        for message in self.heard[since:]:
            if message.get("method") == "session/update":
                codec.decode_strict(codec.encode(message["params"]), self.update_type)
                if session in (None, message["params"]["sessionId"]):
                    found.append(message["params"]["update"])
        return found

    def asked(self) -> set[str]:
        """What the agent has asked of its client."""
        return {message["method"] for message in self.heard if "method" in message}

    def read(self, value: Any, kind: str) -> None:
        """Hold a value to the schema's type of this name."""
        codec.decode_strict(codec.encode(value), getattr(self.schema, kind))

    def all(self, method: str) -> list[Message]:
        """All that was ever asked or told by a method on this connection."""
        found = [message["params"] for message in self.heard if message.get("method") == method]
        if not found:
            raise NotShown
        return found


Check = Callable[[Any], Awaitable[None]]
LIFECYCLE, TURN, SERVICES, OPTIONAL = (
    "base lifecycle",
    "prompt turn and updates",
    "client services",
    "optional parts",
)


class Requirement(NamedTuple):
    """One row of the table."""

    id: str
    says: str
    part: str
    section: str  # of the specification
    versions: tuple[int, ...]
    clients: tuple[str, ...]  # that it is held to: one that offers nothing, one that offers all there is
    check: Check


REQUIREMENTS: list[Requirement] = []


def requirement(part: str, section: str, *versions: int, client: str = "bare") -> Callable[[Check], Check]:
    """Put a check into the table."""

    def mark(check: Check) -> Check:
        says = (check.__doc__ or "").strip()
        clients = ("bare", "rich") if client == "any" else (client,)
        REQUIREMENTS.append(Requirement(check.__name__, says, part, section, versions or (1, 2), clients, check))
        return check

    return mark


async def verdicts(kit: Kit) -> tuple[dict[str, str], set[str]]:
    """What the kit's version requires, held against its agent: what it fails, and what it does not show."""
    failed, not_shown = {}, set()
    for row in REQUIREMENTS:
        if kit.version not in row.versions or kit.client not in row.clients:
            continue
        try:
            async with asyncio.timeout(LIMIT):
                await row.check(kit)
        except NotShown:
            not_shown.add(row.id)
        except Exception as exc:
            failed[row.id] = f"{row.id}: {row.says} {exc!r}"
        finally:
            kit.services.replies.clear()
    return failed, not_shown
