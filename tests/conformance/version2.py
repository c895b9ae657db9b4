"""What version 2 requires in words of its own: greeting, prompts, states, histories, options."""

import json

from dragoman.schema import v2

from .kit import LIFECYCLE, OPTIONAL, TEXT, TURN, Kit, Message, NotShown, requirement

SPOKEN = {"user_message", "agent_message", "agent_thought"}
CHUNKS = {f"{kind}_chunk" for kind in SPOKEN}
OPENED, PROMPT, STATES = "Session setup", "Prompt lifecycle", "Prompt lifecycle: state updates"


class KitOfVersion2(Kit):
    version = 2
    update_type = v2.UpdateSessionNotification
    schema = v2
    option_id = "configId"
    login = "auth/login"

    @property
    def offers(self) -> Message:
        return self.welcome.get("capabilities") or {}

    def session_offers(self) -> Message:
        return {"list": {}, "close": {}, **(self.offers.get("session") or {})}

    def takes(self, kind: str) -> bool:
        return (self.session_offers().get("prompt") or {}).get(kind) is not None

    def greeting(self) -> Message:
        rich = {"auth": {"terminal": {}}, "elicitation": {"form": {}, "url": {}}}
        params = {"protocolVersion": 2, "info": {"name": "kit", "version": "1"}}
        return {**params, "capabilities": rich if self.client == "rich" else {}}

    async def idle(self, id: str, since: int) -> Message:
        """The state in which a turn of a session ends."""
        while True:
            for update in self.updates(id, since):
                if update.get("state") == "idle":
                    return update
            await self.next()

    async def end(self, asked: tuple[int, int], id: str) -> str:
        answer = await self.until(*asked)
        assert "result" in answer, answer
        assert isinstance(answer["result"]["messageId"], str) and answer["result"]["messageId"]
        reason: str = (await self.idle(id, asked[1]))["stopReason"]
        return reason

    def states(self, id: str, since: int = 0) -> list[str]:
        return [u["state"] for u in self.updates(id, since) if u["sessionUpdate"] == "state_update"]


@requirement(LIFECYCLE, "Initialization", 2, client="any")
async def offers_are_objects(kit: KitOfVersion2) -> None:
    """Capabilities are objects, never truth values, under names there are."""
    offers = {name: offer for name, offer in kit.offers.items() if name != "_meta"}
    assert set(offers) <= {"session", "auth", "providers"}
    waiting = [offers]
    while waiting:
        for name, offer in waiting.pop().items():
            assert isinstance(offer, dict | None), name
            waiting += [offer] if offer else []


@requirement(LIFECYCLE, "Authentication", 2, client="any")
async def logins_have_a_type(kit: KitOfVersion2) -> None:
    """A way to log in says of which type it is."""
    assert all(method["type"] in ("agent", "terminal") for method in kit.welcome.get("authMethods") or [])


@requirement(LIFECYCLE, "Initialization", 2)
async def what_version_1_alone_has_is_refused(kit: KitOfVersion2) -> None:
    """The methods that version 2 no longer has are unknown."""
    id = await kit.session()
    for method in ("authenticate", "logout", "session/load", "session/set_mode"):
        params = {"sessionId": id, "cwd": kit.cwd, "mcpServers": [], "modeId": "x", "methodId": "x"}
        await kit.bad(method, params, code=-32601)


@requirement(LIFECYCLE, OPENED, 2)
async def servers_may_go_unmentioned(kit: KitOfVersion2) -> None:
    """A session is opened without a word about MCP servers."""
    assert (await kit.good("session/new", {"cwd": kit.cwd}))["sessionId"]


@requirement(LIFECYCLE, "Overview: JSON-RPC", 2)
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


@requirement(TURN, PROMPT, 2)
async def a_prompt_is_echoed(kit: KitOfVersion2) -> None:
    """A prompt is answered with the id of its message, and the message is told under this id, as it was written."""
    id, start = await kit.session(), len(kit.heard)
    answer = await kit.good("session/prompt", {"sessionId": id, "prompt": [kit.quick]})
    await kit.idle(id, start)
    told = [u for u in kit.updates(id, start) if u["sessionUpdate"].startswith("user_message")]
    echo = [u["content"] for u in told if u["messageId"] == answer["messageId"]]
    assert echo[0] in ([kit.quick], kit.quick)


@requirement(TURN, PROMPT, 2)
async def prompts_have_ids_of_their_own(kit: KitOfVersion2) -> None:
    """Two prompts of a session are messages with different ids."""
    id, ids = await kit.session(), []
    for _ in range(2):
        start = len(kit.heard)
        ids.append((await kit.good("session/prompt", {"sessionId": id, "prompt": [kit.quick]}))["messageId"])
        await kit.idle(id, start)
    assert len(set(ids)) == 2


@requirement(TURN, PROMPT, 2)
async def empty_prompts_are_refused(kit: KitOfVersion2) -> None:
    """A prompt without content is refused."""
    await kit.bad("session/prompt", {"sessionId": await kit.session(), "prompt": []}, code=-32602)


@requirement(TURN, STATES, 2, client="any")
async def a_turn_runs_first(kit: KitOfVersion2) -> None:
    """The first state of a turn is running."""
    shown = await kit.shown()
    assert shown.of_kind("state_update")[0]["state"] == "running"


@requirement(TURN, STATES, 2, client="any")
async def a_turn_ends_idle_once(kit: KitOfVersion2) -> None:
    """A turn ends with one idle state, which says why."""
    ends = [update for update in (await kit.shown()).of_kind("state_update") if update["state"] == "idle"]
    assert [end["stopReason"] for end in ends] == ["end_turn"]


@requirement(TURN, STATES, 2, client="any")
async def states_are_of_those_there_are(kit: KitOfVersion2) -> None:
    """A session runs, is idle or requires action; an error is told with its reason and no other end."""
    for update in (await kit.shown()).of_kind("state_update"):
        assert update["state"] in ("running", "idle", "requires_action")
        assert (update.get("stopReason") == "error") == (update.get("error") is not None)
        if update["state"] != "idle":
            assert update.get("stopReason") is None


@requirement(TURN, STATES, 2, client="any")
async def a_turn_is_told_while_it_runs(kit: KitOfVersion2) -> None:
    """What the agent says and does in a turn lies between running and idle."""
    running = False
    for update in (await kit.shown()).updates:
        if update["sessionUpdate"] == "state_update":
            running = update["state"] != "idle"
        elif update["sessionUpdate"] in {"agent_message", "agent_message_chunk", "tool_call_update"}:
            assert running, update


@requirement(TURN, "Prompt lifecycle: cancellation", 2)
async def a_turn_is_cancelled(kit: KitOfVersion2) -> None:
    """After a cancel the session becomes idle as `cancelled`, once, and the prompt is no error."""
    id = await kit.session()
    start = len(kit.heard)
    await kit.good("session/prompt", {"sessionId": id, "prompt": [kit.slow]})
    kit.wire.tell("session/cancel", {"sessionId": id, "_meta": {}})
    if (end := await kit.idle(id, start))["stopReason"] == "end_turn":
        raise NotShown  # it was over before
    assert end["stopReason"] == "cancelled"
    await kit.silence()
    assert kit.states(id, start).count("idle") == 1


@requirement(TURN, "Prompt lifecycle: cancellation", 2)
async def closing_cancels(kit: KitOfVersion2) -> None:
    """To close a session ends its turn as `cancelled`."""
    id = await kit.session()
    start = len(kit.heard)
    await kit.good("session/prompt", {"sessionId": id, "prompt": [kit.slow]})
    assert await kit.good("session/close", {"sessionId": id}) == {}
    assert (await kit.idle(id, start))["stopReason"] in ("cancelled", "end_turn")


@requirement(TURN, PROMPT, 2)
async def a_prompt_during_a_turn_has_an_end(kit: KitOfVersion2) -> None:
    """A prompt that comes while another is at work is taken or refused, and the session becomes idle."""
    id, start = await kit.session(), len(kit.heard)
    asked = [kit.wire.ask("session/prompt", {"sessionId": id, "prompt": [TEXT]}) for _ in range(2)]
    waiting = set(asked)
    while waiting or kit.states(id, start)[-1:] != ["idle"]:
        message = await kit.next()
        if "method" not in message:
            waiting.discard(message["id"])
    assert "idle" in kit.states(id, start)


@requirement(OPTIONAL, OPENED, 2)
async def a_resumed_session_tells_no_history(kit: KitOfVersion2) -> None:
    """A session that is resumed without a place to replay from tells its state and no message."""
    id = (await kit.shown()).session
    since = len(kit.heard)
    await kit.good("session/resume", {"sessionId": id, "cwd": kit.cwd, "replayFrom": None})
    assert not [u for u in kit.updates(id, since) if u["sessionUpdate"] in SPOKEN | CHUNKS]
    assert kit.states(id, since) == ["idle"]


@requirement(OPTIONAL, OPENED, 2)
async def a_history_begins_anew_under_the_same_ids(kit: KitOfVersion2) -> None:
    """What is replayed has its live ids, and empties each message before it fills it."""
    id = (await kit.shown()).session
    live = {update["messageId"] for update in kit.updates(id) if "messageId" in update}
    since = len(kit.heard)
    await kit.good("session/resume", {"sessionId": id, "cwd": kit.cwd, "replayFrom": {"type": "start"}})
    begun: set[str] = set()
    for update in [u for u in kit.updates(id, since) if u["sessionUpdate"] in SPOKEN | CHUNKS]:
        assert update["messageId"] in live, (update, live)
        if update["sessionUpdate"] in CHUNKS:
            assert update["messageId"] in begun
        begun.add(update["messageId"])


@requirement(OPTIONAL, OPENED, 2)
async def a_replay_is_over_before_its_answer(kit: KitOfVersion2) -> None:
    """A replay ends with the session's state, and nothing of it follows the answer."""
    id = (await kit.shown()).session
    since = len(kit.heard)
    await kit.good("session/resume", {"sessionId": id, "cwd": kit.cwd, "replayFrom": {"type": "start"}})
    assert kit.states(id, since) == ["idle"]
    assert [m for m in await kit.silence() if m.get("method") == "session/update"] == []


@requirement(OPTIONAL, OPENED, 2)
async def unknown_places_to_replay_from_are_refused(kit: KitOfVersion2) -> None:
    """A replay from a place that the agent does not know is -32602."""
    id = (await kit.shown()).session
    params = {"sessionId": id, "cwd": kit.cwd, "replayFrom": {"type": "_nowhere"}}
    await kit.bad("session/resume", params, code=-32602)


@requirement(OPTIONAL, OPENED, 2)
async def unknown_sessions_are_not_resumed(kit: KitOfVersion2) -> None:
    """A session that nobody opened cannot be resumed."""
    await kit.bad("session/resume", {"sessionId": "nobody's", "cwd": kit.cwd}, code=-32002)
