"""Everything a dialect can say is understood, and said again word for word where its table calls that lossless."""

import json
import re
from pathlib import Path

import pytest

from .examples import EXAMPLES
from .line import CLIENT_CALLS, Line, caller_of

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
SEED_OF = {"pharo": "000", "beamcode": "001", "cursor": "002", "draft": "003", "jetbrains": "004"}
NOTES = {"session/update", "session/cancel"}
# What is answered here and not passed on: the layer itself waits no longer than it was told to.
HANDLED = {"timeout"}


def cases():
    for dialect, examples in EXAMPLES.items():
        for number, (place, said) in enumerate(examples):
            yield pytest.param(dialect, place, said, id=f"{dialect} {number} {place}")


@pytest.mark.parametrize(("dialect", "place", "said"), list(cases()))
def test_what_a_dialect_says_comes_back_as_it_was(dialect, place, said):
    assert relayed(Line(dialect, dialect), dialect, place, said) == without_handled(said)


def without_handled(said):
    return (
        {name: member for name, member in said.items() if name not in HANDLED} if isinstance(said, dict) else said
    )


def relayed(line, dialect, place, said):
    """Have something said at one end of a line; gives what is heard at the other."""
    if place.startswith("= "):
        return relayed_result(line, dialect, place[2:], said)
    if place in PARTS:
        method, whole, part = PARTS[place](dialect, said)
        return part(relayed(line, dialect, method, whole))
    if place == "error":
        asked = line.ask("client", "session/new", params_of(dialect, "session/new"))
        return line.fail("agent", asked, said)["error"]
    open_session(line, dialect, place)
    sender = caller_of(place)
    if place in NOTES:
        (heard,) = line.note(sender, place, said)
        return heard if "timestamp" in said else {n: m for n, m in heard.items() if n != "timestamp"}
    return line.ask(sender, place, said)["params"]


def relayed_result(line, dialect, method, said):
    open_session(line, dialect, method)
    sender = caller_of(method)
    asked = line.ask(sender, method, params_of(dialect, method))
    answer = line.answer("agent" if sender == "client" else "client", asked, said)
    while "result" not in answer:  # what the answer says alone is told before it
        answer = line.take(sender)
    return answer["result"]


def open_session(line, dialect, method):
    """Have what comes before: a session to be spoken of."""
    if method in CLIENT_CALLS - {"session/set_model"} or dialect not in ("draft", "beamcode"):
        return
    asked = line.ask("client", "session/new", params_of(dialect, "session/new"))
    models = {"currentModelId": "small", "availableModels": [{"modelId": "small", "name": "S"}]}
    extra = {"models": models} if dialect == "beamcode" else {"createdAt": ""}
    line.answer("agent", asked, {"sessionId": "sess_1", **extra})
    line.wake()
    line.at["client"].clear()


def params_of(dialect, method):
    for place, said in EXAMPLES[dialect]:
        if place == method and "timeout" not in said:
            return said
    return {"sessionId": "sess_1", "terminalId": "term_1", "cwd": "/a", "mcpServers": [], "prompt": []}


def in_update(dialect, said):
    if dialect == "draft":
        return "session/update", {"sessionId": "sess_1", **said}, lambda p: {n: p[n] for n in ("type", "data")}
    return "session/update", {"sessionId": "sess_1", "update": said}, lambda p: p["update"]


def in_prompt(dialect, said):
    name = "content" if dialect == "draft" else "prompt"
    return "session/prompt", {"sessionId": "sess_1", name: [said]}, lambda p: p[name][0]


def in_tool_call(dialect, said):
    tag = "type" if dialect == "pharo" else "sessionUpdate"
    update = {tag: "tool_call_update", "toolCallId": "t1", "content": [said]}
    return "session/update", {"sessionId": "sess_1", "update": update}, lambda p: p["update"]["content"][0]


def in_session(dialect, said):
    params = params_of(dialect, "session/new")
    return "session/new", {**params, "mcpServers": [said]}, lambda p: p["mcpServers"][0]


def in_greeting(dialect, said):
    name = "capabilities" if dialect == "draft" else "clientCapabilities"
    whole = {"protocolVersion": 1, "clientInfo": {"name": "e", "version": "1"}, name: said}
    return "initialize", whole, lambda p: p[name]


def in_welcome(dialect, said):
    name = "capabilities" if dialect == "draft" else "agentCapabilities"
    whole = {"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}, name: said}
    return "= initialize", whole, lambda p: p[name]


PARTS = {
    "update": in_update,
    "block": in_prompt,
    "tool content": in_tool_call,
    "server": in_session,
    "client capabilities": in_greeting,
    "agent capabilities": in_welcome,
}


# The documents themselves, where they are at hand


def documents():
    """Every JSON object in the five documents: the dialect, the line it stands on, the object."""
    for dialect, number in SEED_OF.items():
        for path in SEEDS.glob(f"{number}_*.txt"):
            text = path.read_text()
            for block in re.finditer(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
                line = text.count("\n", 0, block.start()) + 1
                for value in values(block[2]) if block[1] in ("", "json", "jsonc") else ():
                    yield dialect, line, value


def values(text):
    """The JSON objects in a text that may have comments between them; none if it is something else."""
    text, found, at = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE), [], 0
    decoder = json.JSONDecoder(strict=False)
    while rest := text[at:].lstrip():
        try:
            value, used = decoder.raw_decode(rest)
        except ValueError:
            return []
        found.append(value)
        at = len(text) - len(rest) + used
    return [value for value in found if isinstance(value, dict)]


# What the documents show that no peer ever says: schemas of their own, and how a client is to start an agent.
NOT_SAID = ("$schema",)


def sorted_into_places(dialect, value, asked):
    """Where an object of a document belongs, found by the shapes we know; `asked` has the open requests by id."""
    if "method" in value:
        asked[value.get("id")] = value["method"]
        return [(value["method"], value["params"])]
    if "error" in value:
        return [("error", value["error"])]
    if "result" in value:
        method = asked.get(value.get("id")) or "session/request_permission"
        return [(f"= {method}", value["result"])]
    if set(value) == {"sessionCapabilities"}:
        return [("agent capabilities", value)]
    if "capabilities" in value and "protocolVersion" not in value:
        if "requiredClientCapabilities" in value:
            return [("agent capabilities", value["capabilities"])]
        place = "agent capabilities" if "loadSession" in value["capabilities"] else "client capabilities"
        return [(place, value["capabilities"])]
    if dialect == "draft" and value.get("type") in ("stdio", "http", "sse", "acp"):
        return [("server", {"name": "example", "transport": value})]
    keys = set(value)
    known = [(place, said) for place, said in EXAMPLES[dialect] if isinstance(said, dict) and "type" in said]
    for place, said in known:
        if value.get("type") == said["type"] and (keys <= set(said) or place == "block"):
            return [(place, value)]
    if "sessionUpdate" in value:
        return [("update", value)]
    fitting = {
        place: value
        for place, said in EXAMPLES[dialect]
        if isinstance(said, dict) and keys <= set(said) and place != "error"
    }
    narrow = {place for place, said in EXAMPLES[dialect] if isinstance(said, dict) and keys == set(said)}
    return [(place, value) for place in fitting if place in narrow or not narrow]


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the documents are not at hand")
def test_every_example_of_the_documents_comes_back_as_it_was():
    seen, asked = 0, {}
    for dialect, number, value in documents():
        if any(name in value for name in NOT_SAID):
            continue
        places = sorted_into_places(dialect, value, asked)
        assert places, f"{dialect}, line {number}: what is {value}?"
        for place, said in places:
            heard = relayed(Line(dialect, dialect), dialect, place, said)
            assert heard == without_handled(said), f"{dialect}, line {number}, as {place}"
            seen += 1
    assert seen > 120
