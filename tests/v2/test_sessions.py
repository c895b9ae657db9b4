"""Which prompts are taken, and what becomes of sessions that are closed or listed, between the two versions."""

from typing import Any

import pytest
from test_lifecycle import TEXT, answers, notes, our_agent, our_client, prompt, request, updates
from test_negotiation import INFO, spoken_to

from dragoman.dialects.v2.shapes import fault_of
from dragoman.dialects.v2.translator import V2

IMAGE = {"type": "image", "data": "", "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a"}
RESOURCE = {"uri": "file:///a", "text": ""}
NOT_FOUND = {"code": -32002, "message": "Session not found", "data": {"sessionId": "s"}}


def without(block: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: member for key, member in block.items() if key != name}


# What a prompt needs, which is answered before our agent has read it


@pytest.mark.parametrize(
    "block",
    [
        TEXT,
        {"type": "text", "text": ""},
        IMAGE,
        {**IMAGE, "type": "audio"},
        LINK,
        {"type": "resource", "resource": RESOURCE},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": ""}},
        {"type": "_of_a_later_version"},
    ],
)
def test_a_block_that_has_what_its_type_needs_is_taken(block: Any) -> None:
    assert fault_of([TEXT, block]) is None


@pytest.mark.parametrize(
    ("blocks", "fault"),
    [
        ([], "an empty prompt"),
        (None, "the prompt is not an array"),
        ("hi", "the prompt is not an array"),
        ({}, "the prompt is not an array"),
        ([TEXT, "hi"], "prompt[1] has no type"),
        ([TEXT, {"text": "hi"}], "prompt[1] has no type"),
        ([{"type": 1}], "prompt[0] has no type"),
        ([{"type": "text"}], "prompt[0] has no text"),
        ([{"type": "text", "text": ["hi"]}], "prompt[0] has no text"),
        ([without(IMAGE, "data")], "prompt[0] has no data"),
        ([without(IMAGE, "mimeType")], "prompt[0] has no mimeType"),
        ([without({**IMAGE, "type": "audio"}, "data")], "prompt[0] has no data"),
        ([without({**IMAGE, "type": "audio"}, "mimeType")], "prompt[0] has no mimeType"),
        ([without(LINK, "uri")], "prompt[0] has no uri"),
        ([without(LINK, "name")], "prompt[0] has no name"),
        *(
            (
                [{"type": "resource", "resource": resource}],
                "prompt[0] has no resource with a uri and its text or blob",
            )
            for resource in (
                None,
                [],
                {},
                without(RESOURCE, "uri"),
                without(RESOURCE, "text"),
                {**RESOURCE, "text": 1},
            )
        ),
    ],
)
async def test_a_prompt_that_lacks_something_is_refused_and_reaches_no_agent(blocks: Any, fault: str) -> None:
    assert fault_of(blocks) == fault
    done = our_agent().inward(request(2, "session/prompt", sessionId="s", prompt=blocks))
    assert done.onward == []
    (answer,) = done.back
    assert (answer["id"], answer["error"]["code"]) == (2, -32602)
    assert answer["error"]["message"] == f"Invalid params: {fault}"


# Sessions that were closed


def closed(edge: V2) -> V2:
    """The edge after its client has closed the session `s`."""
    done = edge.inward(request(5, "session/close", sessionId="s"))
    if asked := [message for message in done.onward if message["method"] == "session/close"]:
        done = edge.outward({"id": asked[0]["id"], "result": {}})
        done.back, done.onward = done.onward, []
    assert [answer["result"] for answer in answers(done.back)] == [{}]
    return edge


CLOSES = {"sessionCapabilities": {"close": {}}}


@pytest.mark.parametrize("offers", [{}, CLOSES], ids=["cannot close", "closes"])
def test_a_session_that_is_closed_is_listed_no_more_and_not_resumed(offers: Any) -> None:
    edge = closed(our_agent(**offers))
    (listed,) = edge.inward(request(6, "session/list")).back
    assert listed["result"] == {"sessions": []}
    (answer,) = edge.inward(request(7, "session/resume", sessionId="s", cwd="/w")).back
    assert answer["error"] == NOT_FOUND


def test_a_prompt_to_a_closed_session_is_promised_nothing() -> None:
    edge = closed(our_agent(**CLOSES))
    asked, heard = prompt(edge, 6)
    assert heard == []
    (answer,) = edge.outward({"id": asked["id"], "error": NOT_FOUND}).onward
    assert (answer["id"], answer["error"]) == (6, NOT_FOUND)


def test_a_session_whose_agent_cannot_close_it_is_closed_all_the_same() -> None:
    edge = closed(our_agent())
    chosen = {"configId": "dragoman:mode", "type": "id", "value": "b"}
    for method, params in (("session/prompt", {"prompt": [TEXT]}), ("session/set_config_option", chosen)):
        done = edge.inward(request(6, method, sessionId="s", **params))
        assert done.onward == []
        assert [answer["error"] for answer in done.back] == [NOT_FOUND]


def test_a_closed_session_that_is_brought_back_takes_prompts_again() -> None:
    edge = closed(our_agent(loadSession=True))
    asked = edge.inward(request(6, "session/resume", sessionId="s", cwd="/w")).onward[0]
    edge.outward({"id": asked["id"], "result": {}})
    done = edge.inward(request(7, "session/prompt", sessionId="s", prompt=[TEXT]))
    assert [message["method"] for message in done.onward] == ["session/prompt"]
    assert [answer["id"] for answer in answers(done.back) if answer.get("result", {}).get("messageId")] == [7]


@pytest.mark.parametrize("offers", [{}, CLOSES], ids=["cannot close", "closes"])
def test_what_the_user_is_asked_is_withdrawn_when_the_session_is_closed(offers: Any) -> None:
    edge = our_agent(**offers)
    prompt(edge, 2)
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c", "title": "Run"}
    asked = edge.outward(request(9, "session/request_permission", sessionId="s", toolCall=call, options=options))
    question = next(message for message in asked.onward if "id" in message)
    done = edge.inward(request(5, "session/close", sessionId="s"))
    onward, back = done.onward, done.back
    if offers:
        done = edge.outward({"id": onward[0]["id"], "result": {}})
        onward, back = done.back, done.onward
    assert {"jsonrpc": "2.0", "id": 9, "result": {"outcome": {"outcome": "cancelled"}}} in onward
    assert {"requestId": question["id"]} in [message.get("params") for message in back]


def test_a_session_of_another_agent_that_is_closed_is_forgotten() -> None:
    edge = our_client()
    close = edge.outward(request(3, "session/close", sessionId="s")).onward[0]["id"]
    edge.inward({"id": close, "result": {}})
    assert "s" not in edge.sessions


async def test_a_closed_session_refuses_a_prompt_on_the_wire() -> None:
    async with spoken_to() as wire:
        await wire.request("initialize", {"protocolVersion": 2, "info": INFO, "capabilities": {}})
        opened = await wire.request("session/new", {"cwd": "/"})
        about = {"sessionId": opened["result"]["sessionId"]}
        assert (await wire.request("session/close", about))["result"] == {}
        answer = await wire.request("session/prompt", {**about, "prompt": [TEXT]})
        assert answer["error"]["code"] == -32002
        answer = await wire.request("session/prompt", about)  # and what is no prompt is none to any session
        assert answer["error"]["code"] == -32602


# Lists and their pages


def test_a_list_of_the_connection_has_one_page_and_no_cursor() -> None:
    edge = our_agent()
    for at, (cwd, ids) in enumerate([(None, ["s"]), ("/w", ["s"]), ("/elsewhere", [])]):
        (answer,) = edge.inward(request(at, "session/list", cwd=cwd, cursor=None)).back
        assert [session["sessionId"] for session in answer["result"]["sessions"]] == ids
    (answer,) = edge.inward(request(9, "session/list", cursor="from-5")).back
    refusal = answer.get("error", {})
    assert (refusal.get("code"), "one page" in refusal.get("message", "")) == (-32602, True)
    assert edge.report["session list"]


def test_a_cursor_passes_both_ways_where_the_agent_lists_sessions() -> None:
    edge = our_agent(sessionCapabilities={"list": {}})
    (asked,) = edge.inward(request(2, "session/list", cursor="from-5")).onward
    assert (asked["method"], asked["params"]) == ("session/list", {"cursor": "from-5"})
    page = {"sessions": [{"sessionId": "o", "cwd": "/"}], "nextCursor": "from-10"}
    (answer,) = edge.outward({"id": asked["id"], "result": page}).onward
    assert answer["result"] == page
    assert edge.report == {}


# What is told before the answer


def test_commands_of_a_session_that_is_brought_back_are_told_before_the_answer() -> None:
    command = {"type": "command", "name": "plan", "description": "d"}
    for method in ("session/load", "session/resume"):
        edge = our_client()
        asked = edge.outward(request(2, method, sessionId="o", cwd="/", mcpServers=[])).onward[0]["id"]
        done = edge.inward({"id": asked, "result": {"availableCommands": [command]}})
        told = {
            "sessionUpdate": "available_commands_update",
            "availableCommands": [{"name": "plan", "description": "d"}],
        }
        assert updates(notes(done.onward)) == [told]
        assert (done.onward[-1]["id"], done.wakes) == (2, [])
