"""A client that checks an agent over raw frames: the requirements of the specification as a table of checks.

A requirement is a coroutine that speaks to the agent; its docstring is the sentence it holds the agent to.  It
raises AssertionError where the agent fails, and `NotShown` where the agent does not offer what it is about.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dragoman import codec
from dragoman.testing import RawWire

LIMIT = 60.0  # seconds for one answer, on a busy machine
TEXT = {"type": "text", "text": "hello"}
LINK = {"type": "resource_link", "uri": "file:///a.md", "name": "a.md"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CONTENT = {
    "image": {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    "audio": {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
    "embeddedContext": {"type": "resource", "resource": {"uri": "file:///a.md", "text": "a"}},
}
Message = dict[str, Any]


class NotShown(Exception):
    """The agent does not offer what a requirement is about."""


class Kit:
    """One connection to an agent, and all that was heard on it."""

    version = 0
    update_type: Any = None

    def __init__(self, wire: RawWire, cwd: str) -> None:
        self.wire, self.cwd = wire, cwd
        self.heard: list[Message] = []
        self.welcome: Message = {}

    async def call(self, method: str, params: Any = None, *, id: Any = None) -> Message:
        """Ask, answer whatever is asked meanwhile, and give the answer."""
        self.wire.send({"id": id, "method": method, "params": params or {}}) if id is not None else None
        return await self.until(id if id is not None else self.wire.ask(method, params or {}))

    async def until(self, id: Any) -> Message:
        while True:
            message = await self.next()
            if "method" not in message and message.get("id") == id and type(message.get("id")) is type(id):
                return message

    async def next(self) -> Message:
        message = await self.wire.receive(LIMIT)
        self.heard.append(message)
        if "method" in message and "id" in message:
            self._answer(message)
        return message

    def _answer(self, message: Message) -> None:
        match message["method"]:
            case "session/request_permission":
                option = message["params"]["options"][0]["optionId"]
                self.wire.send(
                    {"id": message["id"], "result": {"outcome": {"outcome": "selected", "optionId": option}}}
                )
            case "elicitation/create":
                self.wire.send({"id": message["id"], "result": {"action": "decline"}})
            case _:
                self.wire.send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})

    async def good(self, method: str, params: Any = None) -> Any:
        """Ask for something that must be given."""
        answer = await self.call(method, params)
        assert "result" in answer, (method, answer)
        return answer["result"]

    async def bad(self, method: str, params: Any = None) -> Message:
        """Ask for something that must be refused."""
        answer = await self.call(method, params)
        assert "error" in answer, (method, answer)
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


Check = Callable[[Any], Awaitable[None]]
REQUIREMENTS: dict[int, dict[str, Check]] = {1: {}, 2: {}}


def requirement(*versions: int) -> Callable[[Check], Check]:
    """Put a check into the table of a version."""

    def mark(check: Check) -> Check:
        for version in versions:
            REQUIREMENTS[version][check.__name__] = check
        return check

    return mark


async def verdicts(kit: Kit) -> tuple[dict[str, str], set[str]]:
    """All requirements of the kit's version held against its agent: those it fails, and those it does not show."""
    failed, not_shown = {}, set()
    for name, check in REQUIREMENTS[kit.version].items():
        try:
            async with asyncio.timeout(LIMIT):
                await check(kit)
        except NotShown:
            not_shown.add(name)
        except Exception as exc:
            failed[name] = f"{check.__doc__} {exc!r}"
    return failed, not_shown
