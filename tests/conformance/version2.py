"""What version 2 requires."""

import base64
import json
from typing import Any

from dragoman.schema import v2

from .kit import TEXT, Kit, Message, NotShown, requirement

SPOKEN = {"user_message", "agent_message", "agent_thought"}
CHUNKS = {f"{kind}_chunk" for kind in SPOKEN}


class KitOfVersion2(Kit):
    version = 2
    update_type = v2.UpdateSessionNotification

    async def greet(self) -> None:
        params = {"protocolVersion": 2, "info": {"name": "kit", "version": "1"}, "capabilities": {}}
        self.welcome = await self.good("initialize", params)

    async def idle(self, id: str) -> Message:
        """The state in which a turn of a session ends."""
        while True:
            message = await self.next()
            update = (message.get("params") or {}).get("update") or {}
            if update.get("state") == "idle" and message["params"]["sessionId"] == id:
                return update  # type: ignore[no-any-return]

    async def turn(self, id: str, prompt: list[Any], **more: Any) -> str:
        start = len(self.heard)
        answer = await self.good("session/prompt", {"sessionId": id, "prompt": prompt, **more})
        assert isinstance(answer["messageId"], str) and answer["messageId"]
        states = [update for update in self.updates(id, start) if update.get("state") == "idle"]
        end = states[-1] if states else await self.idle(id)
        told = self.updates(id, start)
        assert answer["messageId"] in [
            u.get("messageId") for u in told if u["sessionUpdate"].startswith("user_message")
        ]
        states = [u["state"] for u in told if u["sessionUpdate"] == "state_update"]
        assert states.index("running") == 0
        reason: str = end["stopReason"]
        return reason


@requirement(2)
async def the_welcome_is_of_version_2(kit: KitOfVersion2) -> None:
    """The answer to a greeting has the version, a name, and capabilities that are objects, never truth values."""
    assert kit.welcome["protocolVersion"] == 2
    assert kit.welcome["info"]["name"] and kit.welcome["info"]["version"]
    offers = {name: offer for name, offer in kit.welcome["capabilities"].items() if name != "_meta"}
    assert set(offers) <= {"session", "auth", "providers"}
    waiting = [offers]
    while waiting:
        for name, offer in waiting.pop().items():
            assert offer is None or isinstance(offer, dict), name
            waiting += [offer] if offer else []
    assert all(method["type"] in ("agent", "terminal") for method in kit.welcome["authMethods"])


@requirement(2)
async def servers_may_go_unmentioned(kit: KitOfVersion2) -> None:
    """A session is opened without a word about MCP servers."""
    assert (await kit.good("session/new", {"cwd": kit.cwd}))["sessionId"]


@requirement(2)
async def a_prompt_is_echoed_between_running_and_idle(kit: KitOfVersion2) -> None:
    """A prompt is answered with its message's id, echoed under it, and ends idle with a stop reason; ids differ."""
    id = await kit.session()
    assert await kit.turn(id, [TEXT]) == "end_turn"
    assert await kit.turn(id, [TEXT]) == "end_turn"
    prompts = [u["messageId"] for u in kit.updates(id) if u["sessionUpdate"] == "user_message"]
    assert len(prompts) == len(set(prompts)) == 2
    await kit.bad("session/prompt", {"sessionId": id, "prompt": []})


@requirement(2)
async def a_turn_is_cancelled(kit: KitOfVersion2) -> None:
    """After a cancel the session becomes idle as `cancelled`, once, and the prompt is no error."""
    id = await kit.session()
    start = len(kit.heard)
    await kit.good("session/prompt", {"sessionId": id, "prompt": [TEXT]})
    kit.wire.tell("session/cancel", {"sessionId": id, "_meta": {}})
    states = [update for update in kit.updates(id, start) if update.get("state") == "idle"]
    end = states[-1] if states else await kit.idle(id)
    if end["stopReason"] == "end_turn":
        raise NotShown  # it was over before
    assert end["stopReason"] == "cancelled"
    await kit.silence()
    assert [u["state"] for u in kit.updates(id, start) if u["sessionUpdate"] == "state_update"].count("idle") == 1


@requirement(2)
async def closing_cancels(kit: KitOfVersion2) -> None:
    """To close a session ends its turn as `cancelled`."""
    id = await kit.session()
    start = len(kit.heard)
    await kit.good("session/prompt", {"sessionId": id, "prompt": [TEXT]})
    assert await kit.good("session/close", {"sessionId": id}) == {}
    states = [update for update in kit.updates(id, start) if update.get("state") == "idle"]
    end = states[-1] if states else await kit.idle(id)
    assert end["stopReason"] in ("cancelled", "end_turn")


@requirement(2)
async def only_methods_of_version_2_are_asked(kit: KitOfVersion2) -> None:
    """No file, no terminal and no form is asked of a client that offers none."""
    assert {name for name in kit.asked() if not name.startswith(("_", "$/"))} <= {
        "session/update",
        "session/request_permission",
        "auth/status_update",
    }


@requirement(2)
async def questions_are_whole_and_waited_for(kit: KitOfVersion2) -> None:
    """A question has a title and options; while it is open the session requires action, and then runs again."""
    questions = [at for at, m in enumerate(kit.heard) if m.get("method") == "session/request_permission"]
    if not questions:
        raise NotShown
    for at in questions:
        params = kit.heard[at]["params"]
        assert params["title"] and all({"optionId", "name", "kind"} <= set(option) for option in params["options"])
        before = kit.heard[: at + 1]
        states = [
            m["params"]["update"]["state"]
            for m in before
            if m.get("method") == "session/update"
            and m["params"]["sessionId"] == params["sessionId"]
            and m["params"]["update"]["sessionUpdate"] == "state_update"
        ]
        assert states[-1] == "requires_action"


@requirement(2)
async def a_history_begins_anew_under_the_same_ids(kit: KitOfVersion2) -> None:
    """What is replayed has its live ids, empties each message before it fills it, and is over before the answer."""
    id = await kit.session()
    await kit.turn(id, [TEXT])
    live = {update["messageId"] for update in kit.updates(id) if "messageId" in update}
    for start in (None, {"type": "start"}):
        since = len(kit.heard)
        await kit.good("session/resume", {"sessionId": id, "cwd": kit.cwd, "replayFrom": start})
        told = kit.updates(id, since)
        spoken = [u for u in told if u["sessionUpdate"] in SPOKEN | CHUNKS]
        assert start or not spoken
        begun: set[str] = set()
        for update in spoken:
            assert update["messageId"] in live, (update, live)
            assert update["sessionUpdate"] in SPOKEN or update["messageId"] in begun
            begun.add(update["messageId"])
        assert [u["state"] for u in told if u["sessionUpdate"] == "state_update"] == ["idle"]
        assert [m for m in await kit.silence() if m.get("method") == "session/update"] == []
    await kit.bad("session/resume", {"sessionId": id, "cwd": kit.cwd, "replayFrom": {"type": "_nowhere"}})


@requirement(2)
async def batches_are_taken(kit: KitOfVersion2) -> None:
    """Requests in one frame are answered in one; what is no message there is refused alone, and so is none."""
    both = [{"jsonrpc": "2.0", "id": f"b{at}", "method": "session/list", "params": {}} for at in (1, 2)]
    kit.wire.send(json.dumps([*both, 7]).encode())
    while isinstance(answers := await kit.wire.receive(), dict):
        kit.heard.append(answers)
    assert {answer["id"] for answer in answers} == {"b1", "b2", None}
    kit.wire.send(b"[]")
    refusal = await kit.next()
    assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)


@requirement(2)
async def everything_has_its_id(kit: KitOfVersion2) -> None:
    """Messages, tools, plans and terminals are told by id; a tool call begins with a title; bytes are base64."""
    titled: set[tuple[str, str]] = set()
    for message in kit.heard:
        if message.get("method") != "session/update":
            continue
        session, update = message["params"]["sessionId"], message["params"]["update"]
        match update["sessionUpdate"]:
            case kind if kind in SPOKEN | CHUNKS:
                assert update["messageId"]
            case "tool_call_update":
                assert update["toolCallId"]
                key = (session, update["toolCallId"])
                assert key in titled or update.get("title")
                titled.add(key)
            case "plan_update":
                assert update["plan"]["planId"]
            case "terminal_update":
                assert update.get("cwd", "/").startswith("/")
            case "terminal_output_chunk":
                base64.b64decode(update["data"], validate=True)
            case "tool_call" | "plan" | "current_mode_update":
                raise AssertionError(f"version 2 has no {update['sessionUpdate']}")


@requirement(2)
async def options_are_complete(kit: KitOfVersion2) -> None:
    """An option's value is one of its choices, and to set one is answered with all of them."""
    opened = await kit.good("session/new", {"cwd": kit.cwd})
    if not opened.get("configOptions"):
        raise NotShown
    for option in opened["configOptions"]:
        if option["type"] == "select":
            choices = [c for entry in option["options"] for c in entry.get("options", [entry])]
            assert option["currentValue"] in [choice["value"] for choice in choices]
        kind = "boolean" if option["type"] == "boolean" else "id"
        chosen = {"configId": option["configId"], "type": kind, "value": option["currentValue"]}
        told = await kit.good("session/set_config_option", {"sessionId": opened["sessionId"], **chosen})
        assert {o["configId"] for o in told["configOptions"]} >= {o["configId"] for o in opened["configOptions"]}


@requirement(2)
async def every_kind_is_shown(kit: KitOfVersion2) -> None:
    """Whole messages, pieces of tools, plans and terminals are shown where any prompt shows them."""
    shown = {update["sessionUpdate"] for update in kit.updates()}
    kinds = {
        "agent_message",
        "agent_thought",
        "tool_call_content_chunk",
        "terminal_update",
        "terminal_output_chunk",
    }
    if not kinds | {"plan_update", "tool_call_update"} <= shown:
        raise NotShown
