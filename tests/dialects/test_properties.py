"""On messages nobody thought of: what is not lost arrives as it was, and what is lost is told."""

import json
import os

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schema.generating import messages

from dragoman import schema as s
from dragoman.dialects import translator

from .examples import EXAMPLES
from .line import Line, caller_of
from .test_examples import NOTES, relayed, without_handled

SIZE = int(os.environ.get("DIALECT_EXAMPLES", "4"))  # messages of each kind
EACH = settings(
    max_examples=SIZE,
    deadline=None,
    phases=(Phase.generate,),  # a smaller example would be nicer, and take minutes to find
    suppress_health_check=list(HealthCheck),
)
DIALECTS = ["pharo", "cursor", "draft", "jetbrains"]

PARAMS = {
    "initialize": s.InitializeRequest,
    "authenticate": s.AuthenticateRequest,
    "session/new": s.NewSessionRequest,
    "session/load": s.LoadSessionRequest,
    "session/prompt": s.PromptRequest,
    "session/cancel": s.CancelNotification,
    "session/set_mode": s.SetSessionModeRequest,
    "session/set_config_option": s.SetSessionConfigOptionRequest,
    "session/request_permission": s.RequestPermissionRequest,
    "fs/read_text_file": s.ReadTextFileRequest,
    "fs/write_text_file": s.WriteTextFileRequest,
    "terminal/create": s.CreateTerminalRequest,
    "terminal/kill": s.KillTerminalRequest,
    "terminal/release": s.ReleaseTerminalRequest,
}
RESULTS = {
    "initialize": s.InitializeResponse,
    "session/new": s.NewSessionResponse,
    "session/prompt": s.PromptResponse,
    "session/set_mode": s.SetSessionModeResponse,
    "fs/read_text_file": s.ReadTextFileResponse,
    "fs/write_text_file": s.WriteTextFileResponse,
    "terminal/create": s.CreateTerminalResponse,
    "terminal/kill": s.KillTerminalResponse,
}
UPDATES = [
    s.UserMessageChunk,
    s.AgentMessageChunk,
    s.AgentThoughtChunk,
    s.ToolCall,
    s.ToolCallUpdated,
    s.Plan,
    s.AvailableCommandsUpdate,
    s.CurrentModeUpdate,
    s.ConfigOptionUpdate,
    s.SessionInfoUpdate,
    s.UsageUpdate,
    s.Notice,
]
# Some of these say in their own way what version 1 says in another, without a loss: compared in their own tests.
APART = {
    ("draft", "session/request_permission"),  # choices become what was granted
    ("pharo", "session/request_permission"),  # its tool call becomes words
    ("draft", "session/set_config_option"),
}


class Tunnel(Line):
    """Two ends of version 1 that speak a dialect with each other."""

    def __init__(self, dialect):
        super().__init__()
        self.near = {"client": translator(dialect, "agent"), "agent": translator(dialect, "client")}

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


def says(heard, said):
    """Whether all that was said was heard; what was made up besides is no harm."""
    match said:
        case None:
            return True
        case dict():
            members = {name: member for name, member in said.items() if member not in (None, [], {})}
            return isinstance(heard, dict) and all(
                says(heard.get(name), member) for name, member in members.items()
            )
        case list():
            same = isinstance(heard, list) and len(heard) == len(said)
            return same and all(says(*pair) for pair in zip(heard, said, strict=True))
        case _:
            return heard == said


def check(dialect, tunnel, heard, said):
    rows = translator(dialect, "agent").losses
    assert tunnel.lost <= set(rows)
    assert says(heard, said) or tunnel.lost, f"{heard} does not say {said}"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("method", PARAMS)
def test_what_is_asked_arrives_or_is_told_to_be_lost(dialect, method):
    if (dialect, method) in APART:
        pytest.skip("said in another way")

    @EACH
    @given(messages(PARAMS[method]))
    def holds(params):
        tunnel, said, sender = Tunnel(dialect).opened(), plain(params), caller_of(method)
        if method in NOTES:
            (heard,) = tunnel.note(sender, method, said)
        else:
            tunnel.say(sender, {"id": 1, "method": method, "params": said})
            end = "agent" if sender == "client" else "client"
            if not tunnel.at[end]:
                assert "error" in tunnel.take(sender)  # it cannot be said, and is refused
                return
            heard = tunnel.take(end)["params"]
        check(dialect, tunnel, heard, without_ids(dialect, said))

    holds()


def without_ids(dialect, said):
    """Without what the other side knows by itself, or is told elsewhere."""
    if "cwd" in said and dialect in ("draft", "cursor"):  # a system prompt goes into the margin
        said = {name: member for name, member in said.items() if name != "systemPrompt"}
    if isinstance(said.get("value"), str):
        said = {name: member for name, member in said.items() if name != "type"}  # of a text it says nothing
    if dialect != "draft" or not {"path", "command", "terminalId"} & set(said):
        return said
    relative = {name for name in ("path", "cwd") if said.get(name) is not None and not said[name].startswith("/")}
    known = {"sessionId", "outputByteLimit", *relative, *(["line"] if said.get("line") == 0 else [])}
    return {name: member for name, member in said.items() if name not in known}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("method", RESULTS)
def test_what_is_answered_arrives_or_is_told_to_be_lost(dialect, method):
    @EACH
    @given(messages(RESULTS[method]))
    def holds(result):
        tunnel, said = Tunnel(dialect), plain(result)
        if caller_of(method) == "agent":
            tunnel.opened()
        sender = caller_of(method)
        asked = tunnel.ask(sender, method, asking(method))
        tunnel.say("agent" if sender == "client" else "client", {"id": asked["id"], "result": said})
        while "method" in (heard := tunnel.take(sender)):
            pass
        if "error" not in heard:
            check(dialect, tunnel, heard["result"], said)

    holds()


def asking(method):
    params = {"sessionId": "s", "terminalId": "t", "path": "/a", "content": "", "command": "x", "modeId": "m"}
    return {**params, "cwd": "/", "mcpServers": [], "prompt": [], "protocolVersion": 1, "clientCapabilities": {}}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", UPDATES, ids=lambda kind: kind.__name__)
def test_what_is_told_arrives_or_is_told_to_be_lost(dialect, kind):
    @EACH
    @given(messages(kind))
    def holds(update):
        tunnel, said = Tunnel(dialect), plain(update)
        heard = {}
        for params in tunnel.note("agent", "session/update", {"sessionId": "s", "update": said}):
            heard = {
                **heard,
                **params["update"],
                "sessionUpdate": heard.get("sessionUpdate", said["sessionUpdate"]),
            }
        if said.get("configOptions") == [] or says_nothing(said.get("content")):
            return
        check(dialect, tunnel, heard, {name: member for name, member in said.items() if name != "messageId"})

    holds()


def says_nothing(content):
    return isinstance(content, dict) and content.get("text") == ""


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

    @settings(EACH, max_examples=20 * SIZE)
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

    @settings(EACH, max_examples=10 * SIZE)
    @given(st.lists(st.tuples(st.booleans(), odd | answers), max_size=8))
    def holds(conversation):
        t = translator(dialect, peer)
        for is_inward, message in conversation:
            translation = (t.inward if is_inward else t.outward)(message)
            for one in (*translation.onward, *translation.back):
                json.dumps(one)
            for _, key in translation.wakes:
                t.woken(key)

    holds()


WORDS = ["sessionId", "update", "type", "data", "content", "_meta", "options", "toolCall", "toolCallId", "prompt"]
WORDS += ["sessionUpdate", "modes", "configOptions", "status", "terminalId", "output", "command", "capabilities"]
