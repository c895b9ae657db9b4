"""On messages nobody thought of: what is not lost arrives as it was, and what is lost is told."""

import json
import os
from typing import get_args

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schema.generating import messages

from dragoman import schema as s
from dragoman.dialects import translator
from dragoman.roles import AgentRole, ClientRole, methods

from .examples import EXAMPLES
from .line import Line, other
from .test_examples import relayed, without_handled

SIZE = int(os.environ.get("DIALECT_EXAMPLES", "20"))  # messages of each kind
EACH = settings(
    max_examples=SIZE,
    deadline=None,
    phases=(Phase.generate,),  # a smaller example would be nicer, and take minutes to find
    suppress_health_check=list(HealthCheck),
)
DIALECTS = ["pharo", "beamcode", "cursor", "draft", "jetbrains", "legacy"]  # `tests/v2` has the updates of v2

OLDER = ["beamcode", "cursor", "legacy"]  # those with the older forms

# Every method of version 1: who calls it, and what it takes and gives.
METHODS = [("client", method) for method in methods(AgentRole).values()]
METHODS += [("agent", method) for method in methods(ClientRole).values()]
UPDATES = [kind for kind in get_args(s.SessionUpdate) if kind is not s.Raw]
# What never arrives at the other end, because it is answered in between; seen in the tests of the dialect.
ANSWERED = {
    ("draft", "terminal/output"),  # from what the client has pushed
    *((dialect, "mcp/connect") for dialect in OLDER),  # there are no connections any more
    *((dialect, "mcp/disconnect") for dialect in OLDER),
}


def is_struct(tp):
    return isinstance(tp, type) and issubclass(tp, msgspec.Struct)


def translated(is_wanted):
    """The methods a dialect has a row for, each with the dialect and who calls it."""
    found = []
    for dialect in [*DIALECTS, "v2"]:
        table = {"client": translator(dialect, "agent").to_agent, "agent": translator(dialect, "agent").to_client}
        for sender, method in METHODS:
            is_passed_on = (dialect, method.name) not in ANSWERED
            if method.name in table[sender] and is_passed_on and is_wanted(method):
                found.append(pytest.param(dialect, sender, method, id=f"{dialect} {sender} {method.name}"))
    return found


ALL = "*"
# The members that a row of the losses takes from a message; all others are heard as they were said.
TAKEN = {
    "pharo": {
        "implementation title": {"title"},
        "auth method type": {"authMethods"},
        "server name": {"name"},
        "repeated names": {"env", "headers"},
        "session modes": {"modes"},
        "config options": {"configOptions"},
        "session directory": {"cwd", "additionalDirectories"},
        "message boundaries": {"messageId"},
        "thoughts": ALL,
        "update kinds": ALL,
        "locations": {"locations"},
        "tool input and output": {"rawInput", "rawOutput"},
        "tool name": {"name"},
        "tool kind switch_mode": {"kind"},
        "new file": {"oldText"},
        "annotations": {"annotations"},
        "link to the tool call": {"toolCall"},
        "truncation and signals": {"truncated", "signal"},
        "margins": {"_meta"},
        "output limit": {"outputByteLimit"},
        "stop reason max_turn_requests": {"stopReason"},
    },
    "cursor": {"system prompt": {"systemPrompt"}},
    "draft": {
        "client capabilities": {"clientCapabilities"},
        "agent capabilities": {"agentCapabilities"},
        "content types": {"promptCapabilities"},
        "auth methods": {"authMethods"},
        "repeated names": {"env", "headers"},
        "servers over ACP": {"mcpServers"},
        "additional directories": {"additionalDirectories"},
        "session directory": {"cwd", "mcpServers", "additionalDirectories"},
        "system prompt": {"systemPrompt"},
        "mode list": {"modes"},
        "config option definitions": {"configOptions"},
        "stop reasons": {"stopReason"},
        "token details": {"usage"},
        "update kinds": ALL,
        "content of messages": {"content"},
        "plan priorities": {"priority"},
        "command hints": {"input"},
        "tool titles": {"title", "kind", "name", "rawInput", "locations"},
        "tool content": {"content"},
        "raw output": {"rawOutput"},
        "locations": {"locations"},
        "option names": {"options"},
        "tool calls of questions": {"toolCall"},
        "new file": {"oldText"},
        "margins": {"_meta"},
        "cancelled questions": {"outcome"},
        "image address": {"uri"},
        "link details": {"name", "description", "size"},
        "binary resources": {"resource"},
        "choice of signal": set(),
        "allowed once": set(),
        "fast output": set(),
        "output streams": set(),
    },
    "jetbrains": {"tool kind switch_mode": {"kind"}, "repeated content": {"content"}},
    "beamcode": {},
    "legacy": {},
    "v2": {
        "diff without text": {"content"},
        "message replaced": {"messageId"},
        "tool name cleared": {"name"},
        "boolean option": {"configOptions"},
        "notices": ALL,
        "compaction": ALL,
        "subagents": ALL,
        "plan without entries": ALL,
        "permission option": {"options"},
        "permission outcome": {"outcome"},
        "session list": {"sessions"},
        "sse server": set(),  # it is passed on, though nobody there knows what it is
    },
}


class Tunnel(Line):
    """Two ends of version 1 that speak a dialect with each other."""

    def __init__(self, dialect):
        super().__init__()
        self.near = {"client": translator(dialect, "agent"), "agent": translator(dialect, "client")}
        if dialect == "v2":
            self.greet()  # without which it takes no calls

    def greet(self):
        """Have an agent offer all that it can be asked for."""
        sessions = {name: {} for name in ("list", "resume", "close", "fork")}
        asked = self.ask("client", "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        offers = {"loadSession": True, "sessionCapabilities": sessions}
        self.answer("agent", asked, {"protocolVersion": 1, "agentCapabilities": offers})

    def opened(self):
        """With a session, of which some calls are without saying so."""
        asked = self.ask("client", "session/new", {"cwd": "/", "mcpServers": []})
        self.answer("agent", asked, {"sessionId": "s"})
        return self

    def _inward(self, sender, message):
        self._said(sender, self.near[sender].outward(message))

    def _said(self, end, translation):
        for message in translation.back:
            self.at[end].append(message)
        for message in translation.onward:
            self._heard("agent" if end == "client" else "client", message)

    def _heard(self, end, message):
        translation = self.near[end].inward(message)
        self.at[end].extend(translation.onward)
        for back in translation.back:
            self._heard("agent" if end == "client" else "client", back)

    @property
    def lost(self):
        return {row for edge in self.near.values() for row in edge.report}


def plain(value):
    return json.loads(msgspec.json.encode(value))


def unheard(heard, said, taken, where="$"):
    """The places where something said was not heard; what was made up besides is no harm."""
    match said:
        case None:
            return []
        case dict() if isinstance(heard, dict):
            told = {
                name: member for name, member in said.items() if name not in taken and member not in (None, [], {})
            }
            parts = [unheard(heard.get(name), member, taken, f"{where}.{name}") for name, member in told.items()]
        case list() if isinstance(heard, list) and len(heard) == len(said):
            parts = [unheard(*pair, taken, f"{where}[]") for pair in zip(heard, said, strict=True)]
        case _:
            return [] if heard == said else [where]
    return [place for part in parts for place in part]


def check(dialect, tunnel, heard, said):
    rows = TAKEN[dialect]
    if any(rows[row] == ALL for row in tunnel.lost):
        return
    taken = set().union(*(rows[row] for row in tunnel.lost))
    missing = unheard(heard, said, taken)
    assert not missing, f"{missing}: {heard} does not say {said}, and only {tunnel.lost} is told to be lost"


def test_every_row_of_the_losses_is_known_here():
    for dialect, rows in TAKEN.items():
        assert set(rows) == set(translator(dialect, "agent").losses)


@pytest.mark.parametrize(("dialect", "sender", "method"), translated(lambda method: is_struct(method.params)))
def test_what_is_asked_arrives_or_is_told_to_be_lost(dialect, sender, method):
    @EACH
    @given(messages(method.params))
    def holds(params):
        tunnel, said, receiver = Tunnel(dialect).opened(), plain(params), other(sender)
        tunnel.say(sender, {**({"id": 1} if method.is_request else {}), "method": method.name, "params": said})
        arrived = [message for message in tunnel.at[receiver] if message["method"] == method.name]
        if not arrived:
            assert "error" in tunnel.take(sender)  # it cannot be said, and is refused
            return
        check(dialect, tunnel, arrived[-1]["params"], without_known(dialect, said))

    holds()


def without_known(dialect, said):
    """Without what the other side knows by itself, or is told elsewhere."""
    if "cwd" in said and dialect in ("draft", "cursor"):  # a system prompt goes into the margin
        said = without(said, "systemPrompt")
    if isinstance(said.get("value"), str):
        said = without(said, "type")  # of a text it says nothing
    if dialect == "v2" and "toolCall" in said and not said["toolCall"].get("title"):
        said = {**said, "toolCall": without(said["toolCall"], "title")}  # a question has words
    if dialect == "v2" and any(option.get("category") == "mode" for option in said.get("configOptions") or ()):
        said = without(said, "modes")  # the option says what they are
    if dialect == "v2":
        return without(said, "protocolVersion")  # it is agreed upon by either two
    if dialect != "draft" or not {"path", "command", "terminalId"} & set(said):
        return said
    relative = {name for name in ("path", "cwd") if said.get(name) is not None and not said[name].startswith("/")}
    return without(said, "sessionId", "outputByteLimit", *relative, *(["line"] if said.get("line") == 0 else []))


@pytest.mark.parametrize(("dialect", "sender", "method"), translated(lambda method: is_struct(method.result)))
def test_what_is_answered_arrives_or_is_told_to_be_lost(dialect, sender, method):
    @EACH
    @given(messages(method.result))
    def holds(result):
        tunnel, said = Tunnel(dialect), plain(result)
        if method.name not in ("initialize", "session/new"):
            tunnel.opened()
        tunnel.say(sender, {"id": 1, "method": method.name, "params": ASKING})
        (*_, asked) = tunnel.at[other(sender)]
        tunnel.say(other(sender), {"id": asked["id"], "result": said})
        if not any("result" in message or "error" in message for message in tunnel.at[sender]):
            (*_, asked) = tunnel.at[other(sender)]  # what a command printed is asked for when it has ended
            tunnel.say(other(sender), {"id": asked["id"], "result": {"output": "", "truncated": False}})
        heard = next(message for message in reversed(tunnel.at[sender]) if message.get("id") == 1)
        if "error" not in heard:
            check(dialect, tunnel, heard["result"], without_known(dialect, said))

    holds()


def test_an_exit_code_beside_a_signal_that_nobody_knows_is_kept() -> None:
    tunnel = Tunnel("draft")
    tunnel.opened()
    tunnel.say("agent", {"id": 1, "method": "terminal/wait_for_exit", "params": ASKING})
    (*_, asked) = tunnel.at["client"]
    tunnel.say("client", {"id": asked["id"], "result": {"exitCode": 128, "signal": "SIGODD"}})
    (*_, asked) = tunnel.at["client"]
    if asked.get("method") == "terminal/output":  # what the command printed is asked for when it has ended
        tunnel.say("client", {"id": asked["id"], "result": {"output": "", "truncated": False}})
    heard = next(message for message in reversed(tunnel.at["agent"]) if message.get("id") == 1)
    assert heard["result"] == {"exitCode": 128, "signal": "SIGODD"}


ASKING = {
    "sessionId": "s",
    "terminalId": "t",
    "path": "/a",
    "content": "",
    "command": "x",
    "modeId": "m",
    "configId": "c",
    "value": "v",
    "methodId": "l",
    "cwd": "/",
    "mcpServers": [],
    "prompt": [],
    "protocolVersion": 1,
    "clientCapabilities": {},
    "toolCall": {"toolCallId": "tc"},
    "options": [{"optionId": "o", "kind": "allow_once", "name": "O"}],
    "serverId": "srv",
    "requestId": "r",
    "method": "ping",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_dialect_has_no_row_for_passes_as_it_is(dialect):
    rows = {**translator(dialect, "agent").to_agent, **translator(dialect, "agent").to_client}
    for sender, method in METHODS:
        if method.name not in rows:
            tunnel = Tunnel(dialect)
            tunnel.say(sender, {"id": 1, "method": method.name, "params": {"any": [1]}})
            assert tunnel.take(other(sender))["params"] == {"any": [1]}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", UPDATES, ids=lambda kind: kind.__name__)
def test_what_is_told_arrives_or_is_told_to_be_lost(dialect, kind):
    @EACH
    @given(messages(kind))
    def holds(update):
        tunnel, said = Tunnel(dialect), plain(update)
        told = tunnel.note("agent", "session/update", {"sessionId": "s", "update": said})
        heard, meta = {}, {}
        if not told and tunnel.lost:  # nothing of it is left that could be told
            heard["sessionUpdate"] = said["sessionUpdate"]
        for params in told:
            heard = {**params["update"], **heard}
            meta |= params["update"].get("_meta") or {}
        if says_nothing(said):
            return
        check(dialect, tunnel, {**heard, "_meta": meta}, without(said, "messageId"))

    holds()


def says_nothing(said):
    content = said.get("content")
    return isinstance(content, dict) and content.get("text") == "" and not said.get("_meta")


def without(said, *names):
    return {name: member for name, member in said.items() if name not in names}


# And back: what a dialect says comes through version 1 as it was

KEPT = {
    "type",
    "sessionUpdate",
    "role",
    "kind",
    "status",
    "operation",
    "scope",
    "priority",
    "stopReason",
    "code",
    "encoding",
    "uri",
    "url",
    "path",
    "cwd",
    "data",
    "transport",
    "protocolVersion",
    "remember",
    "granted",
    "hunks",
    "sessionId",
    "toolCallId",
    "terminalId",
    "id",
    "line",
    "endLine",
    "startLine",
    "timeout",
    "tool",
    "resource",
    "selectedOptionId",
    "optionId",
    "success",
    "requiredClientCapabilities",
}
OPTIONAL = {
    "description",
    "annotations",
    "duration",
    "reason",
    "title",
    "timestamp",
    "index",
    "final",
    "visible",
    "mimeType",
    "size",
    "usage",
    "ui",
    "_custom",
    "watch",
    "interactive",
    "maxConcurrent",
    "rawInput",
}


def varied(value, name=""):
    """Values of the same shape: other words and numbers, and without some of what may be left out."""
    match value:
        case dict() if name not in ("env", "headers", "configOptions"):
            parts = {key: st.just(member) if key in KEPT else varied(member, key) for key, member in value.items()}
            nested = {key: varied(value[key], key) for key in parts if key in ("data", "transport", "resource")}
            nested = {key: strategy for key, strategy in nested.items() if isinstance(value[key], dict)}
            parts |= nested
            optional = {key: parts.pop(key) for key in list(parts) if key in OPTIONAL}
            return st.fixed_dictionaries(parts, optional=optional)
        case list():
            return st.tuples(*(varied(item, name) for item in value)).map(list)
        case bool():
            return st.booleans() if name in ("image", "audio", "embeddedContext", "loadSession") else st.just(value)
        case str() if name not in KEPT:
            return st.text(min_size=1, max_size=20)
        case _:
            return st.just(value)


@pytest.mark.parametrize("dialect", EXAMPLES)
def test_whatever_a_dialect_says_in_these_shapes_comes_back_as_it_was(dialect):
    lossless = [(place, said) for place, said in EXAMPLES[dialect] if place != "error" and isinstance(said, dict)]

    @settings(EACH, max_examples=4 * SIZE)
    @given(st.sampled_from(lossless).flatmap(lambda one: st.tuples(st.just(one[0]), varied(one[1]))))
    def holds(example):
        place, said = example
        assert relayed(Line(dialect, dialect), dialect, place, said) == without_handled(said)

    holds()


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("peer", ["agent", "client"])
def test_no_message_is_too_odd_for_a_translator(dialect, peer):
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
        max_leaves=12,
    )
    both = [*translator(dialect, peer).to_agent, *translator(dialect, peer).to_client, "session/update", "?"]
    odd = st.fixed_dictionaries(
        {"method": st.sampled_from(both), "params": json_values}, optional={"id": st.integers(0, 3)}
    )
    answers = st.fixed_dictionaries(
        {"id": st.integers(0, 3)}, optional={"result": json_values, "error": json_values}
    )

    @settings(EACH, max_examples=2 * SIZE)
    @given(st.lists(st.tuples(st.booleans(), odd | answers), max_size=8))
    def holds(conversation):
        t = translator(dialect, peer)
        for is_inward, message in conversation:
            translation = (t.inward if is_inward else t.outward)(message)
            for one in (*translation.onward, *translation.back):
                json.dumps(one)
            for _, key in translation.wakes:
                t.timer_due(key)

    holds()


WORDS = ["sessionId", "update", "type", "data", "content", "_meta", "options", "toolCall", "toolCallId", "prompt"]
WORDS += ["sessionUpdate", "modes", "configOptions", "status", "terminalId", "output", "command", "capabilities"]
