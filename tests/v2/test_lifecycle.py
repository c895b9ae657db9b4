"""The life of a prompt and of a session, where one side has version 1 and the other version 2."""

import base64
from pathlib import Path
from typing import Any

import pytest
from between import note, updates

from dragoman.dialects.engine.shapes import CARRIED
from dragoman.dialects.v2.translator import V2

Message = dict[str, Any]
INFO = {"name": "n", "version": "1"}
TEXT = {"type": "text", "text": "hi"}


def request(id: Any, method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def states(messages: list[Message]) -> list[str]:
    return [update["state"] for update in updates(notes(messages)) if update["sessionUpdate"] == "state_update"]


def notes(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message.get("method") == "session/update"]


def answers(messages: list[Message]) -> list[Message]:
    return [message for message in messages if "method" not in message]


def test_what_is_lost_is_written_down() -> None:
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "v2.md").read_text()
    assert [row for row in V2.losses if row not in page] == []


# An agent of ours


def our_agent(**offers: Any) -> V2:
    """The edge where a client of version 2 stands; it has opened the session `s`."""
    edge = V2("client")
    hello = edge.inward(request(0, "initialize", protocolVersion=2, info=INFO)).onward[0]
    edge.outward({"id": hello["id"], "result": {"protocolVersion": 1, "agentCapabilities": offers}})
    opened = edge.inward(request(1, "session/new", cwd="/w")).onward[0]
    assert opened["params"] == {"cwd": "/w", "mcpServers": []}
    modes = {"currentModeId": "a", "availableModes": [{"id": "a", "name": "A"}, {"id": "b", "name": "B"}]}
    edge.outward({"id": opened["id"], "result": {"sessionId": "s", "modes": modes}})
    return edge


def prompt(edge: V2, id: Any, session: str = "s") -> tuple[Message, list[Message]]:
    """What our agent is asked, and what the client hears at once."""
    done = edge.inward(request(id, "session/prompt", sessionId=session, prompt=[TEXT]))
    return done.onward[0], done.back


def test_a_prompt_is_answered_when_it_has_its_place_and_idle_comes_with_the_answer() -> None:
    edge = our_agent()
    asked, heard = prompt(edge, 2)
    running, echo, answer = heard
    meta = {"dragoman.messageId": answer["result"]["messageId"]}
    assert asked["params"] == {"sessionId": "s", "prompt": [TEXT], "_meta": meta}
    assert running["params"]["update"] == {"sessionUpdate": "state_update", "state": "running"}
    assert echo["params"]["update"]["messageId"] == answer["result"]["messageId"]
    usage = {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}
    result = {"stopReason": "max_tokens", "usage": usage}
    (idle,) = updates(edge.outward({"id": asked["id"], "result": result}).onward)
    assert idle == {"sessionUpdate": "state_update", "state": "idle", "stopReason": "max_tokens", "usage": usage}


def test_a_turn_that_fails_ends_with_the_error() -> None:
    edge = our_agent()
    asked, _ = prompt(edge, 2)
    error = {"code": -32000, "message": "log in", "data": [1]}
    (idle,) = updates(edge.outward({"id": asked["id"], "error": error}).onward)
    assert (idle["state"], idle["stopReason"], idle["error"]) == ("idle", "error", error)


def test_a_second_prompt_has_its_place_when_the_first_is_over() -> None:
    edge = our_agent()
    first, _ = prompt(edge, 2)
    second, heard = prompt(edge, 3)
    assert heard == []
    done = edge.outward({"id": first["id"], "result": {"stopReason": "end_turn"}}).onward
    assert states(done) == ["idle", "running"]
    assert [answer["id"] for answer in answers(done)] == [3]
    assert states(edge.outward({"id": second["id"], "result": {"stopReason": "end_turn"}}).onward) == ["idle"]


def test_a_prompt_cancelled_before_it_has_its_place_is_taken_back() -> None:
    edge = our_agent()
    first, _ = prompt(edge, 2)
    second, _ = prompt(edge, 3)
    cancelled = {"result": {"stopReason": "cancelled"}}
    (answer,) = edge.outward({"id": second["id"], **cancelled}).onward
    assert (answer["id"], answer["error"]["code"]) == (3, -32800)
    assert states(edge.outward({"id": first["id"], **cancelled}).onward) == ["idle"]


def test_a_waiting_prompt_can_be_taken_back_as_a_request() -> None:
    edge = our_agent()
    prompt(edge, 2)
    second, _ = prompt(edge, 3)
    done = edge.inward({"method": "$/cancel_request", "params": {"requestId": 3}})
    assert done.onward[0]["params"] == {"requestId": second["id"]}


def test_a_prompt_to_a_session_nobody_opened_is_refused_as_a_request() -> None:
    edge = our_agent()
    asked, heard = prompt(edge, 2, "nobody")
    assert heard == []
    error = {"code": -32002, "message": "Session not found", "data": {"sessionId": "nobody"}}
    (answer,) = edge.outward({"id": asked["id"], "error": error}).onward
    assert (answer["id"], answer["error"]) == (2, error)


def test_a_cancelled_turn_is_no_longer_asked_for() -> None:
    edge = our_agent()
    prompt(edge, 2)
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c", "title": "Run"}
    asked = edge.outward(request(9, "session/request_permission", sessionId="s", toolCall=call, options=options))
    assert states(asked.onward) == ["requires_action"]
    question = asked.onward[1]
    assert (question["params"]["title"], question["params"]["subject"]["toolCall"]) == ("Run", call)
    done = edge.inward({"method": "session/cancel", "params": {"sessionId": "s"}})
    cancel, answer = done.onward
    assert cancel["method"] == "session/cancel"
    assert (answer["id"], answer["result"]) == (9, {"outcome": {"outcome": "cancelled"}})
    assert done.back[0]["params"] == {"requestId": question["id"]}
    late = {"id": question["id"], "result": {"outcome": {"outcome": "selected", "optionId": "y"}}}
    assert edge.inward(late).onward == []


def test_an_unknown_outcome_allows_nothing() -> None:
    edge = our_agent()
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "c"}
    asked = edge.outward(request(9, "session/request_permission", sessionId="s", toolCall=call, options=options))
    result = {"outcome": {"outcome": "_perhaps", "optionId": "y"}}
    (answer,) = edge.inward({"id": asked.onward[0]["id"], "result": result}).onward
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
    assert edge.report == {"permission outcome": 1}


def test_words_without_an_id_get_one_for_each_message() -> None:
    edge = our_agent()
    chunk = {"sessionUpdate": "agent_message_chunk", "content": TEXT}
    call = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}
    said = [updates(edge.outward(note(update)).onward)[0] for update in (chunk, chunk, call, chunk)]
    first, second, third = said[0]["messageId"], said[1]["messageId"], said[3]["messageId"]
    assert first == second != third


def test_modes_are_an_option_that_can_be_set() -> None:
    edge = our_agent()
    chosen = {"sessionId": "s", "configId": "dragoman:mode", "type": "id", "value": "b"}
    (asked,) = edge.inward(request(2, "session/set_config_option", **chosen)).onward
    assert (asked["method"], asked["params"]) == ("session/set_mode", {"sessionId": "s", "modeId": "b"})
    (answer,) = edge.outward({"id": asked["id"], "result": {}}).onward
    (option,) = answer["result"]["configOptions"]
    assert (option["currentValue"], [choice["value"] for choice in option["options"]]) == ("b", ["a", "b"])
    (update,) = updates(edge.outward(note({"sessionUpdate": "current_mode_update", "currentModeId": "a"})).onward)
    assert update["configOptions"][0]["currentValue"] == "a"


def test_an_agent_that_cannot_list_lists_what_is_open() -> None:
    (answer,) = our_agent().inward(request(2, "session/list")).back
    assert answer["result"] == {"sessions": [{"sessionId": "s", "cwd": "/w"}]}


def test_an_agent_that_cannot_close_is_cancelled() -> None:
    done = our_agent().inward(request(2, "session/close", sessionId="s"))
    assert [message["method"] for message in done.onward] == ["session/cancel"]
    assert done.back[0]["result"] == {}


def test_a_session_that_was_never_left_is_resumed_without_asking() -> None:
    done = our_agent().inward(request(2, "session/resume", sessionId="s", cwd="/w"))
    assert done.onward == []
    assert states(done.back) == ["idle"]
    assert answers(done.back)[0]["result"]["configOptions"][0]["category"] == "mode"


def test_a_history_is_replayed_or_kept_quiet_as_the_client_wants() -> None:
    said = note({"sessionUpdate": "user_message_chunk", "content": TEXT})
    for start, told in (({"type": "start"}, 2), (None, 0)):
        edge = our_agent(loadSession=True)
        asked = edge.inward(request(2, "session/resume", sessionId="old", cwd="/w", replayFrom=start)).onward[0]
        assert asked["method"] == "session/load"
        assert len(edge.outward(said | {"params": {**said["params"], "sessionId": "old"}}).onward) == told
        done = edge.outward({"id": asked["id"], "result": {}}).onward
        assert (states(done), answers(done)[0]["id"]) == (["idle"], 2)


def test_a_history_from_an_unknown_place_is_an_error() -> None:
    edge = our_agent(loadSession=True)
    (answer,) = edge.inward(request(2, "session/resume", sessionId="o", cwd="/", replayFrom={"type": "_half"})).back
    assert answer["error"]["code"] == -32602


def test_of_an_agent_that_cannot_tell_a_history_there_is_none_to_tell() -> None:
    start = {"type": "start"}
    edge = our_agent(sessionCapabilities={"resume": {}})
    asked = edge.inward(request(2, "session/resume", sessionId="o", cwd="/", replayFrom=start)).onward[0]
    assert asked["method"] == "session/resume"
    done = edge.outward({"id": asked["id"], "result": {}}).onward
    assert (states(done), answers(done)[0]["id"]) == (["idle"], 2)
    done = our_agent().inward(request(2, "session/resume", sessionId="s", cwd="/w", replayFrom=start))
    assert (done.onward, states(done.back), answers(done.back)[0]["id"]) == ([], ["idle"], 2)
    (answer,) = our_agent().inward(request(2, "session/resume", sessionId="o", cwd="/")).back
    assert (answer["error"]["code"], answer["error"]["data"]) == (-32002, {"sessionId": "o"})


def test_a_form_or_a_page_requires_action_and_ends_with_the_turn() -> None:
    form = {"message": "Who?", "mode": "form", "requestedSchema": {"properties": {}}}
    page = {"message": "Log in", "mode": "url", "url": "https://x.example", "elicitationId": "e"}
    edge = our_agent()
    asked, _ = prompt(edge, 2)
    for id, about in enumerate((form | {"sessionId": "s"}, page | {"requestId": asked["id"]}), 10):
        heard = edge.outward(request(id, "elicitation/create", **about)).onward
        assert states(heard) == ["requires_action"]
        question = heard[-1]
        assert (question["params"]["sessionId"], "requestId" in question["params"]) == ("s", False)
        done = edge.inward({"id": question["id"], "result": {"action": "accept", "content": {}}})
        assert done.onward[0] == {"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {}}}
        assert states(done.back) == ["running"]
    question = edge.outward(request(20, "elicitation/create", **form, sessionId="s")).onward[-1]
    done = edge.inward({"method": "session/cancel", "params": {"sessionId": "s"}})
    assert {"jsonrpc": "2.0", "id": 20, "result": {"action": "cancel"}} in done.onward
    assert {"requestId": question["id"]} in [message.get("params") for message in done.back]


def told_again(edge: V2, *history: Message) -> list[Message]:
    """What a client hears that has the history of the session `s` told again."""
    start = {"type": "start"}
    asked = edge.inward(request(9, "session/resume", sessionId="s", cwd="/w", replayFrom=start)).onward[0]
    told = [heard for update in history for heard in updates(edge.outward(note(update)).onward)]
    edge.outward({"id": asked["id"], "result": {}})
    return told


def test_a_history_told_again_has_the_ids_it_was_told_with() -> None:
    edge = our_agent(loadSession=True)
    said = {"sessionUpdate": "agent_message_chunk", "content": TEXT}
    live = []
    for id in (2, 3):
        asked, heard = prompt(edge, id)
        live.append(answers(heard)[0]["result"]["messageId"])
        live += [heard["messageId"] for heard in updates(edge.outward(note(said)).onward)]
        edge.outward({"id": asked["id"], "result": {"stopReason": "end_turn"}})
    # As an agent tells it that knows nothing of these ids, that has ids of its own, and that has kept ours.
    kept = [{"messageId": id} for id in live[::2]]
    for ids in ([{}, {}], [{"messageId": "x"}, {"messageId": "y"}], kept):
        mine = [{"sessionUpdate": "user_message_chunk", "content": TEXT, **id} for id in ids]
        told = told_again(edge, mine[0], said, mine[1], said)
        assert list(dict.fromkeys(update["messageId"] for update in told)) == live
    asked, heard = prompt(edge, 4)
    assert answers(heard)[0]["result"]["messageId"] not in live


def test_a_history_told_again_empties_everything_before_it_fills_it() -> None:
    edge = our_agent(loadSession=True)
    item = {"type": "content", "content": TEXT}
    chunk = {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "t", "content": item}
    output = {"sessionUpdate": "terminal_output_chunk", "terminalId": "x", "data": "aGk="}
    carried = [
        {"sessionUpdate": "session_info_update", "_meta": {CARRIED: {"v2": {"update": update}}}}
        for update in (chunk, chunk, output, output)
    ]
    said = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT}
    told = told_again(edge, said, said, *carried, {"sessionUpdate": "tool_call", "toolCallId": "u", "title": "U"})
    assert told == [
        {"sessionUpdate": "agent_message", "messageId": "m", "content": []},
        *[said] * 2,
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "content": []},
        *[chunk] * 2,
        {"sessionUpdate": "terminal_update", "terminalId": "x", "output": None},
        *[output] * 2,
        {"sessionUpdate": "tool_call_update", "toolCallId": "u", "title": "U", "content": []},
    ]
    assert updates(edge.outward(note(said)).onward) == [said]  # and not when it is no history


def test_a_tool_call_our_agent_cannot_cancel_is_not_cancellable() -> None:
    for what, id in (("tool_call", "toolCallId"), ("terminal", "terminalId")):
        edge = our_agent()
        (asked,) = edge.inward(request(2, f"{what}/cancel", sessionId="s", **{id: "x"})).onward
        error = {"code": -32601, "message": "Method not found"}
        (answer,) = edge.outward({"id": asked["id"], "error": error}).onward
        assert answer["error"]["code"] == -32602


# A client of ours


def our_client(**offers: Any) -> V2:
    """The edge where an agent of version 2 stands; our client has opened the session `s`."""
    edge = V2("agent")
    hello = edge.outward(request(0, "initialize", protocolVersion=1, clientCapabilities=offers)).onward[0]
    result = {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}}
    edge.inward({"id": hello["id"], "result": result})
    opened = edge.outward(request(1, "session/new", cwd="/w", mcpServers=[])).onward[0]
    edge.inward({"id": opened["id"], "result": {"sessionId": "s"}})
    return edge


def ask(edge: V2, id: Any) -> Any:
    return edge.outward(request(id, "session/prompt", sessionId="s", prompt=[TEXT])).onward[0]["id"]


def state(edge: V2, **fields: Any) -> list[Message]:
    return edge.inward(note({"sessionUpdate": "state_update", **fields})).onward


def test_a_prompt_of_ours_waits_for_the_session_to_be_idle() -> None:
    edge = our_client()
    asked = ask(edge, 2)
    assert edge.inward({"id": asked, "result": {"messageId": "m"}}).onward == []
    assert state(edge, state="idle") == []  # an old snapshot: nothing has run yet
    assert state(edge, state="running") == []
    (answer,) = state(edge, state="idle", stopReason="refusal", usage=None)
    assert (answer["id"], answer["result"]) == (2, {"stopReason": "refusal"})


def test_an_idle_that_is_faster_than_the_answer_counts() -> None:
    edge = our_client()
    asked = ask(edge, 2)
    state(edge, state="running")
    assert state(edge, state="idle", stopReason="end_turn") == []
    (answer,) = edge.inward({"id": asked, "result": {"messageId": "m"}}).onward
    assert answer["result"] == {"stopReason": "end_turn"}


def test_an_error_that_ends_a_turn_is_the_answer() -> None:
    edge = our_client()
    asked = ask(edge, 2)
    edge.inward({"id": asked, "result": {"messageId": "m"}})
    error = {"code": -32000, "message": "log in"}
    (answer,) = state(edge, state="idle", stopReason="error", error=error)
    assert (answer["id"], answer["error"]) == (2, error)


def test_a_prompt_that_has_no_place_yet_outlives_the_turn_before_it() -> None:
    edge = our_client()
    first, second = ask(edge, 2), ask(edge, 3)
    edge.inward({"id": first, "result": {"messageId": "m"}})
    state(edge, state="running")
    assert [answer["id"] for answer in state(edge, state="idle", stopReason="end_turn")] == [2]
    edge.inward({"id": second, "result": {"messageId": "n"}})
    state(edge, state="running")
    assert [answer["id"] for answer in state(edge, state="idle", stopReason="end_turn")] == [3]


def test_a_prompt_taken_back_before_its_place_answers_cancelled() -> None:
    edge = our_client()
    asked = ask(edge, 2)
    edge.outward({"method": "session/cancel", "params": {"sessionId": "s"}})
    (answer,) = edge.inward({"id": asked, "error": {"code": -32800, "message": "cancelled"}}).onward
    assert answer["result"] == {"stopReason": "cancelled"}


def test_a_session_that_is_closed_ends_its_turns() -> None:
    edge = our_client()
    edge.inward({"id": ask(edge, 2), "result": {"messageId": "m"}})
    close = edge.outward(request(3, "session/close", sessionId="s")).onward[0]["id"]
    done = edge.inward({"id": close, "result": {}}).onward
    assert [(answer["id"], answer["result"]) for answer in done] == [(2, {"stopReason": "cancelled"}), (3, {})]


def test_the_echo_of_a_prompt_is_not_heard_whenever_it_comes() -> None:
    for early in (True, False):
        edge = our_client()
        asked = ask(edge, 2)
        echo = note({"sessionUpdate": "user_message", "messageId": "m", "content": [TEXT]})
        if early:
            assert edge.inward(echo).onward == []
        edge.inward({"id": asked, "result": {"messageId": "m"}})
        if not early:
            assert edge.inward(echo).onward == []
        other = note({"sessionUpdate": "user_message_chunk", "messageId": "n", "content": TEXT})
        assert len(edge.inward(other).onward) == 1


def test_work_in_the_background_is_handed_on() -> None:
    (heard,) = updates(state(our_client(), state="running", background=[{"type": "terminal", "terminalId": "t"}]))
    assert heard["sessionUpdate"] == "session_info_update"
    assert heard["_meta"][CARRIED]["v2"]["update"]["background"]


def test_a_message_that_grows_is_heard_as_it_grows_and_one_taken_back_anew() -> None:
    edge = our_client()

    def message(*words: str) -> list[str]:
        content = [{"type": "text", "text": word} for word in words]
        update = {"sessionUpdate": "agent_message", "messageId": "m", "content": content}
        heard = updates(edge.inward(note(update)).onward)
        return [chunk["content"]["text"] for chunk in heard if "content" in chunk]

    assert message("Good") == ["Good"]
    assert message("Good day", "!") == [" day", "!"]
    assert message("Good day!") == []
    assert message("Never mind") == ["Never mind"]
    assert edge.report == {"message replaced": 1}


def test_a_terminal_of_the_agent_is_shown_in_its_tool_call() -> None:
    edge = our_client()
    shown = [{"type": "terminal", "terminalId": "t"}]
    edge.inward(note({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "make", "content": shown}))
    data = base64.b64encode(b"one\n").decode()
    heard = edge.inward(note({"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": data})).onward
    assert updates(heard)[1]["content"][0]["content"]["text"] == "one\n"
    status = {"exitCode": None, "signal": "SIGKILL"}
    ended = {"sessionUpdate": "terminal_update", "terminalId": "t", "exitStatus": status}
    heard = edge.inward(note(ended)).onward
    assert updates(heard)[1]["content"][0]["content"]["text"] == "one\n[ended by SIGKILL]"


@pytest.mark.parametrize(
    ("printed", "status", "shown"),
    [
        (b"x", {"exitCode": 0}, "x\n[exit code 0]"),
        (b"x\n", {"exitCode": None, "signal": None}, "x\n[ended]"),
        (b"x\n", {}, "x\n[ended]"),
        (b"", {"exitCode": 2}, "[exit code 2]"),
    ],
)
def test_how_a_terminal_of_the_agent_ended_stands_on_a_line_of_its_own(
    printed: bytes, status: dict[str, Any], shown: str
) -> None:
    edge = our_client()
    content = [{"type": "terminal", "terminalId": "t"}]
    edge.inward(note({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "make", "content": content}))
    ended = {"output": {"data": base64.b64encode(printed).decode()}, "exitStatus": status}
    heard = edge.inward(note({"sessionUpdate": "terminal_update", "terminalId": "t", **ended})).onward
    assert updates(heard)[1]["content"][0]["content"]["text"] == shown


def test_an_option_that_is_neither_yes_nor_no_is_not_offered() -> None:
    edge = our_client()
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "_allow_for_an_hour")]
    asked = edge.inward(request(9, "session/request_permission", sessionId="s", title="Run?", options=options))
    params = asked.onward[0]["params"]
    assert [option["optionId"] for option in params["options"]] == ["allow_once"]
    assert params["toolCall"]["title"] == "Run?"
    assert edge.report == {"permission option": 1}


def test_to_load_is_to_resume_from_the_start() -> None:
    (asked,) = our_client().outward(request(2, "session/load", sessionId="o", cwd="/", mcpServers=[])).onward
    assert (asked["method"], asked["params"]["replayFrom"]) == ("session/resume", {"type": "start"})


def test_commands_that_come_with_a_session_are_told_after_it() -> None:
    edge = our_client()
    opened = edge.outward(request(2, "session/new", cwd="/w", mcpServers=[])).onward[0]["id"]
    command = {"type": "command", "name": "plan", "description": "d", "input": {"type": "text", "hint": "h"}}
    done = edge.inward({"id": opened, "result": {"sessionId": "t", "availableCommands": [command]}})
    assert [answer["result"] for answer in done.onward] == [{"sessionId": "t"}]
    ((_, key),) = done.wakes
    (update,) = updates(edge.timer_due(key).onward)
    assert update["availableCommands"] == [{"name": "plan", "description": "d", "input": {"hint": "h"}}]


def test_the_mode_of_an_agent_is_set_by_its_option() -> None:
    edge = our_client()
    option = {"type": "select", "configId": "style", "name": "S", "category": "mode"}
    choices = [{"value": "x", "name": "X"}, {"value": "y", "name": "Y"}]
    opened = edge.outward(request(2, "session/new", cwd="/w", mcpServers=[])).onward[0]["id"]
    options = [{**option, "currentValue": "x", "options": choices}]
    (answer,) = edge.inward({"id": opened, "result": {"sessionId": "t", "configOptions": options}}).onward
    assert [mode["id"] for mode in answer["result"]["modes"]["availableModes"]] == ["x", "y"]
    (asked,) = edge.outward(request(3, "session/set_mode", sessionId="t", modeId="y")).onward
    assert (asked["method"], asked["params"]["configId"]) == ("session/set_config_option", "style")
    changed = {"sessionUpdate": "config_option_update", "configOptions": [{**options[0], "currentValue": "y"}]}
    params = {"sessionId": "t", "update": changed}
    heard = edge.inward({"method": "session/update", "params": params}).onward
    assert [update["sessionUpdate"] for update in updates(heard)] == ["current_mode_update", "config_option_update"]


def test_our_client_may_cancel_a_tool_call_by_an_extension() -> None:
    (asked,) = our_client().outward(request(2, "_dragoman/tool_call/cancel", sessionId="s", toolCallId="c")).onward
    assert asked["method"] == "tool_call/cancel"


def test_a_question_about_a_request_names_it_by_its_own_id() -> None:
    edge = our_client()
    opened = edge.outward(request(7, "session/new", cwd="/w", mcpServers=[])).onward[0]["id"]
    (asked,) = edge.inward(request(1, "elicitation/create", mode="url", requestId=opened)).onward
    assert asked["params"]["requestId"] == 7
