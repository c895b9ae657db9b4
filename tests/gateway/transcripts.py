"""The same conversation with an agent, directly and through a gateway: a transcript of all a client is sent."""

import asyncio
import itertools
import json
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from coder.desk import QUICK
from patience import PATIENCE

from dragoman import codec
from dragoman.client.connecting import reach
from dragoman.coder import Coder, ScriptedModel, call
from dragoman.reviewer import Reviewer
from dragoman.roles import AgentRole, ClientRole, methods
from dragoman.testing import Testy
from dragoman.transports.remote.client.http import dial_http
from dragoman.transports.remote.client.websocket import dial_websocket

from .house import Bare, hosting
from .versatile import Versatile

WIRES = ("websocket", "http/1.1", "http/2")
ATOMS: dict[str, dict[str, Any]] = {
    "read": {"fs": {"readTextFile": True}},
    "write": {"fs": {"writeTextFile": True}},
    "terminal": {"terminal": True},
    "notices": {"session": {"notices": {}}},
    "compaction": {"session": {"compaction": {}}},
    "switches": {"session": {"configOptions": {"boolean": {}}}},
    "form": {"elicitation": {"form": {}}},
    "url": {"elicitation": {"url": {}}},
    "plan": {"plan": {}},
    "subagents": {"subagents": {}},
    "login": {"auth": {"terminal": True}},
}
# What a gateway adds to the capabilities of an agent.
ADDED = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}}}

REQUESTS = {m.name: m for m in methods(AgentRole).values() if m.is_request}
TOLD = {(m.name, m.is_request): m for m in methods(ClientRole).values()}


def capabilities(atoms: Iterable[str]) -> dict[str, Any]:
    """The capabilities of a client that has these and no others."""
    offers: dict[str, Any] = {}
    for atom in atoms:
        _merge(offers, ATOMS[atom])
    return offers


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = json.loads(json.dumps(value))


class Talker(Bare):
    """A client that answers by rule, and keeps all it is sent in order."""

    def __init__(self, wire: Any, offers: dict[str, Any]) -> None:
        self.offers = offers
        self.transcript: list[Any] = []
        self.wrong: list[Any] = []  # frames that are not of the schema
        self._asked: dict[Any, str] = {}
        super().__init__(wire)

    def _hear(self, frames: Any) -> None:
        for frame in frames:
            message = msgspec.json.decode(frame)
            if wrong := misfit(message, self._asked):
                self.wrong.append((wrong, message))
            self.transcript.append(self._entry(message))
            if (
                message.get("method") == "mcp/message" and "serverId" in message["params"]
            ):  # what a server says meanwhile
                about = {name: message["params"][name] for name in ("serverId", "requestId")}
                self.tell("mcp/message", {**about, "method": "notifications/progress"})
            if "method" in message and "id" in message:
                self.send({"jsonrpc": "2.0", "id": message["id"], **self._answer(message["method"])})
        super()._hear(frames)

    def _entry(self, message: dict[str, Any]) -> Any:
        if "method" in message:
            return message["method"], "request" if "id" in message else "notification", message.get("params")
        return self._asked.pop(message["id"]), message.get("result"), message.get("error")

    def _answer(self, method: str) -> dict[str, Any]:
        answers: dict[str, Any] = {
            "session/request_permission": {"outcome": {"outcome": "selected", "optionId": "allow_once"}},
            "fs/read_text_file": {"content": "value = 1\n"},
            "fs/write_text_file": {},
            "terminal/create": {"terminalId": "terminal"},
            "terminal/output": {"output": "said", "truncated": False, "exitStatus": {"exitCode": 0}},
            "terminal/wait_for_exit": {"exitCode": 0},
            "terminal/kill": {},
            "terminal/release": {},
            "elicitation/create": {"action": "decline"},
            "mcp/connect": {"connectionId": "line"},
            "mcp/message": {"result": {"said": "by a server"}},
            "mcp/disconnect": {},
        }
        if method in answers and self._has(method):
            return {"result": answers[method]}
        return {"error": {"code": -32601, "message": "Method not found"}}

    def _has(self, method: str) -> bool:
        files = self.offers.get("fs", {})
        gates = {"fs/read_text_file": files.get("readTextFile"), "fs/write_text_file": files.get("writeTextFile")}
        gates["elicitation/create"] = "elicitation" in self.offers
        return bool(gates.get(method, self.offers.get("terminal") or not method.startswith("terminal/")))

    def tell(self, method: str, params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def do(self, method: str, params: Any) -> Any:
        self._last += 1
        self._asked[self._last] = method
        id = self._last
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        answer = await self._next(lambda frame: "method" not in frame and frame.get("id") == id)
        return answer.get("result")


def misfit(message: dict[str, Any], asked: dict[Any, str]) -> str | None:
    """What of a frame is not of the schema, read as strictly as that is; None when all is."""
    if "method" in message:
        known = TOLD.get((message["method"], "id" in message))
        if known is None:
            return None if message["method"].startswith(("_", "$/")) else "there is no such method"
        kind, value = known.params, message["params"]
        if value.get("update", {}).get("sessionUpdate", "").startswith("_"):
            return None  # an extension
    elif "result" in message and (answered := REQUESTS.get(asked[message["id"]])):
        kind, value = answered.result, message["result"]
    else:
        return None
    try:
        codec.decode_strict(msgspec.json.encode(value), kind)
    except codec.Invalid as exc:
        return str(exc)
    return None


# The conversations

Conversation = Callable[[Talker, Path], Any]


async def with_testy(talker: Talker, directory: Path) -> None:
    """Everything an agent can be asked, and everything it can ask."""
    opening = {"cwd": str(directory), "mcpServers": []}
    await talker.do("auth/status", {})
    await talker.do("authenticate", {"methodId": "key"})
    await talker.do("logout", {})
    session = (await talker.do("session/new", opening))["sessionId"]
    about = {"sessionId": session}

    async def say(*lines: str) -> None:
        for line in lines:
            await talker.do("session/prompt", {**about, "prompt": [{"type": "text", "text": line}]})

    await say("hello", "everything", "notice", "tool", "plan", "spend", "settings", "where")
    await say("ask allow_once reject_once", "elicit form", "elicit url", "read /file", "write /file text")
    await say("run echo said", "refuse", "max_tokens", "fail", "fail_tool", "error -32001 no", "nested 2")
    await say('request _client/why {"a": 1}', 'notify _client/note {"b": 2}', "meta")
    await talker.do("session/set_mode", {**about, "modeId": "plan"})
    await talker.do("session/set_mode", {**about, "modeId": "none"})
    await talker.do("session/set_config_option", {**about, "configId": "model", "value": "large"})
    await talker.do("session/set_config_option", {**about, "configId": "verbose", "type": "boolean", "value": True})
    await talker.do("_testy/ping", {"some": "thing"})
    await talker.do("_testy/nothing", {})
    await talker.do("session/nothing", about)
    await talker.do("session/set_title", {**about, "title": "A title"})
    await talker.do("session/status", about)
    fork = (await talker.do("session/fork", {**opening, **about}))["sessionId"]
    await talker.do("session/close", {"sessionId": fork})
    await talker.do("session/status", {"sessionId": fork})
    await talker.do("session/delete", {"sessionId": fork})
    about["sessionId"] = (await talker.do("session/new", opening))["sessionId"]
    await say("hello")
    await talker.do("session/archive", about)
    await talker.do("session/list", {})
    await talker.do("session/list", {"archived": "only"})
    await talker.do("session/unarchive", about)
    await talker.do("session/resume", {**opening, **about})
    await say("on", "commands")
    turn = asyncio.ensure_future(say("wait"))
    await talker.until(
        lambda: talker.transcript[-1][0] == "session/update" and "Waiting" in str(talker.transcript[-1])
    )
    talker.send({"jsonrpc": "2.0", "method": "session/cancel", "params": about})
    await turn
    await talker.do("session/close", about)
    await talker.do("session/prompt", {**about, "prompt": [{"type": "text", "text": "nobody"}]})
    await talker.do("session/delete", about)
    await talker.do("session/delete", about)
    await talker.do("session/load", {**opening, **about})


async def with_coder(talker: Talker, directory: Path) -> None:
    session = (await talker.do("session/new", {"cwd": str(directory), "mcpServers": []}))["sessionId"]
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Change it."}]}
    await talker.do("session/prompt", prompt)
    await talker.do("session/prompt", {**prompt, "prompt": [{"type": "text", "text": "/help"}]})
    await talker.do("session/close", {"sessionId": session})


async def with_reviewer(talker: Talker, directory: Path) -> None:
    session = (await talker.do("session/new", {"cwd": str(directory), "mcpServers": []}))["sessionId"]
    (directory / "a.py").unlink()  # which linters look at, side by side
    for words in ("Review notes.txt", "Review nothing.txt", "/help"):
        await talker.do("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": words}]})
    await talker.do("session/close", {"sessionId": session})


async def with_versatile(talker: Talker, directory: Path) -> None:
    """MCP servers in the client, suggestions of edits, and a session that the agent begins itself."""
    servers = [{"type": "acp", "name": name, "serverId": f"of {name}"} for name in ("notes", "tools")]
    opening = {"cwd": str(directory), "mcpServers": servers}
    session = (await talker.do("session/new", opening))["sessionId"]

    async def say(*lines: str) -> None:
        for line in lines:
            await talker.do("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": line}]})

    await say("call", "line")
    await talker.do("mcp/message", {"connectionId": "line", "method": "sampling/createMessage"})
    await talker.do("mcp/message", {"connectionId": "of nobody", "method": "sampling/createMessage"})
    await say("hang")
    await with_suggestions(talker)
    await say("begin")
    if "subagents" in talker.offers:
        await with_begun(talker, {"sessionId": "child-1"})
    await talker.do("session/close", {"sessionId": session})


async def with_begun(talker: Talker, about: dict[str, Any]) -> None:
    """A session that the agent has begun, and that waits until it is cancelled."""
    turn = asyncio.ensure_future(talker.do("session/prompt", {**about, "prompt": []}))
    await talker.until(lambda: "I wait" in str(talker.transcript[-1]))
    await talker.do("_versatile/which", about)
    await talker.do("session/set_mode", {**about, "modeId": "none"})
    talker.tell("session/cancel", about)
    await turn


async def with_suggestions(talker: Talker) -> None:
    about = {"sessionId": (await talker.do("nes/start", {}))["sessionId"], "uri": "file:///a.py"}
    place = {"line": 0, "character": 0}
    suggest = {**about, "version": 2, "position": place, "triggerKind": "manual"}
    talker.tell("document/didOpen", {**about, "languageId": "python", "version": 1, "text": "one"})
    talker.tell("document/didChange", {**about, "version": 2, "contentChanges": [{"text": "two"}]})
    await talker.do("nes/suggest", suggest)
    talker.tell("nes/accept", {"sessionId": about["sessionId"], "id": "edit"})
    await talker.do("nes/suggest", suggest)
    await talker.do("nes/close", {"sessionId": about["sessionId"]})
    await talker.do("nes/suggest", suggest)


def coder() -> Any:
    model = ScriptedModel(
        ["I read.", call("read_file", path="a.py")],
        [call("edit_file", path="a.py", old="value = 1", new="value = 2")],
        [call("run_command", command="true")],
        "Done.",
    )
    return lambda remote: Coder(remote, model=model, limits=QUICK)


AGENTS: dict[str, tuple[Callable[[], Any], Conversation]] = {
    "testy": (lambda: Testy, with_testy),
    "coder": (coder, with_coder),
    "reviewer": (lambda: Reviewer, with_reviewer),
    "versatile": (lambda: Versatile, with_versatile),
}


# Both ways


@asynccontextmanager
async def directly(app: Any) -> AsyncIterator[Any]:
    async with reach(app) as wire:
        yield wire


@asynccontextmanager
async def hosted(app: Any, state: Path, wire: str) -> AsyncIterator[Any]:
    async with hosting(state, app, hosted={"workspace": "client"}) as house:
        if wire == "websocket":
            transport: Any = await dial_websocket(house.url(), headers=house.headers("ann"))
        else:
            version: Any = wire.removeprefix("http/")
            transport = await dial_http(house.url(wire="http"), headers=house.headers("ann"), version=version)
        try:
            yield transport
        finally:
            await transport.close()


async def transcript(agent: str, atoms: Iterable[str], directory: Path, wire: str | None = None) -> list[Any]:
    """What a client with these capabilities is sent, directly or over a wire of a gateway."""
    made, conversation = AGENTS[agent]
    work = directory / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "a.py").write_text("value = 1\n")
    (work / "notes.txt").write_text("<<<<<<< HEAD\nvalue = 1  \n")
    offers = capabilities(atoms)
    way = directly(made()) if wire is None else hosted(made(), directory / "state", wire)
    async with way as transport, asyncio.timeout(PATIENCE):
        talker = Talker(transport, offers)
        await talker.do("initialize", {"protocolVersion": 1, "clientCapabilities": offers})
        await conversation(talker, work)
    assert not talker.wrong
    return normal(talker.transcript, str(work))


ANY_ID = re.compile(
    r'"(sessionId|messageId|toolCallId|errorId|elicitationId|ask)": "([^"]*)"|(sess_[\w-]{20,}|host-[0-9a-f]{24})'
)


def normal(told: Sequence[Any], work: str) -> list[Any]:
    """A transcript in which ids are numbers in the order they came, and nothing is of this run or of a gateway."""
    names: dict[str, str] = {}
    count = itertools.count(1)

    def named(found: re.Match[str]) -> str:
        id = found[2] if found[1] else found[3]
        name = names.setdefault(id, f"id-{next(count)}")
        return f'"{found[1]}": "{name}"' if found[1] else name

    shown = []
    for entry in told:
        text = json.dumps(_plain(entry)).replace(work, "/work")
        text = re.sub(r'"updatedAt": "[^"]*"', '"updatedAt": ""', text)
        shown.append(json.loads(ANY_ID.sub(named, text)))
    return shown


def _plain(value: Any) -> Any:
    """Without what a gateway notes in `_meta`; what it adds to an agent's capabilities is added to any."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    plain = {name: _plain(each) for name, each in value.items()}
    if "_meta" in plain:
        plain["_meta"] = {name: each for name, each in plain["_meta"].items() if not name.startswith("dragoman")}
        if not plain["_meta"]:
            del plain["_meta"]
    if "promptCapabilities" in plain:
        _merge(plain, ADDED)
    return plain
