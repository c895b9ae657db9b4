"""What version 1 requires in words of its own."""

from dragoman import schema as s

from .kit import LIFECYCLE, OPTIONAL, SERVICES, TURN, Kit, Message, NotShown, requirement

STOP_REASONS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
SPOKEN = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"}
EVERYTHING = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "plan": {},
    "subagents": {},
}
# What is only told to a client that offers to take it.
GATED = {
    "notice": {"notice"},
    "compaction": {"compaction_update", "compaction_summary_chunk"},
    "plan": {"plan_update", "plan_removed"},
}


class KitOfVersion1(Kit):
    version = 1
    update_type = s.SessionNotification
    schema = s
    option_id = "id"
    login = "authenticate"

    @property
    def offers(self) -> Message:
        return self.welcome.get("agentCapabilities") or {}

    def session_offers(self) -> Message:
        return self.offers.get("sessionCapabilities") or {}

    def takes(self, kind: str) -> bool:
        return bool((self.offers.get("promptCapabilities") or {}).get(kind))

    def greeting(self) -> Message:
        params = {"protocolVersion": 1.0, "clientInfo": {"name": "kit", "version": "1"}}
        return {**params, "clientCapabilities": EVERYTHING if self.client == "rich" else {}}

    async def end(self, asked: tuple[int, int], id: str) -> str:
        answer = await self.until(*asked)
        assert "result" in answer, answer
        reason: str = answer["result"]["stopReason"]
        assert reason in STOP_REASONS
        return reason


@requirement(LIFECYCLE, "Initialization", 1)
async def a_number_is_a_greeting(kit: KitOfVersion1) -> None:
    """A client need not say more than its version."""
    other = await kit.stranger()
    assert (await other.good("initialize", {"protocolVersion": 1}))["protocolVersion"] == 1
    await other.wire.hang_up()


@requirement(LIFECYCLE, "Initialization", 1)
async def offers_are_truth_values_where_they_were(kit: KitOfVersion1) -> None:
    """What version 1 offers with a truth value has one, and what it offers with an object has an object."""
    flags = {"loadSession": kit.offers.get("loadSession", False), **(kit.offers.get("promptCapabilities") or {})}
    flags |= kit.offers.get("mcpCapabilities") or {}
    assert all(isinstance(flag, bool) for name, flag in flags.items() if name != "_meta"), flags
    assert all(isinstance(offer, dict | None) for offer in kit.session_offers().values())


@requirement(TURN, "Prompt turn", 1)
async def a_turn_is_told_before_it_is_answered(kit: KitOfVersion1) -> None:
    """Updates come before the answer, which has a stop reason that there is."""
    id, start = await kit.session(), len(kit.heard)
    assert await kit.turn(id, [kit.quick]) in STOP_REASONS
    assert kit.updates(id, start)


@requirement(TURN, "Prompt turn: cancellation", 1)
async def a_turn_is_cancelled(kit: KitOfVersion1) -> None:
    """A cancelled turn is answered `cancelled`, and not with an error."""
    id = await kit.session()
    asked = kit.prompt(id, [kit.slow])
    await kit.hear("session/update")
    kit.wire.tell("session/cancel", {"sessionId": id})
    if (reason := await kit.end(asked, id)) == "end_turn":
        raise NotShown  # it was over before
    assert reason == "cancelled"
    assert await kit.turn(id, [kit.quick]) == "end_turn"


@requirement(TURN, "Cancellation", 1)
async def a_cancelled_request_is_answered(kit: KitOfVersion1) -> None:
    """A prompt that is cancelled as a request is answered -32800, or `cancelled`, or as if nothing were."""
    id = await kit.session()
    asked = kit.prompt(id, [kit.slow])
    await kit.hear("session/update")
    kit.wire.tell("$/cancel_request", {"requestId": asked[0]})
    answer = await kit.until(*asked)
    if "error" in answer:
        assert answer["error"]["code"] == -32800
    else:
        assert answer["result"]["stopReason"] in STOP_REASONS
    assert await kit.turn(id, [kit.quick]) == "end_turn"


@requirement(TURN, "Content", 1)
async def unknown_content_is_refused(kit: KitOfVersion1) -> None:
    """Content of a type that there is not is -32602."""
    params = {"sessionId": await kit.session(), "prompt": [{"type": "nonsense"}]}
    await kit.bad("session/prompt", params, code=-32602)


@requirement(TURN, "Session modes", 1, client="any")
async def modes_are_of_those_there_are(kit: KitOfVersion1) -> None:
    """The mode of a session, at its start and later, is one of those it offers, which have names."""
    shown = await kit.shown()
    modes = shown.opened.get("modes")
    if not modes:
        raise NotShown
    ids = [mode["id"] for mode in modes["availableModes"]]
    assert len(ids) == len(set(ids)) and all(mode["name"].strip() for mode in modes["availableModes"])
    changed = [u["currentModeId"] for u in shown.updates if u["sessionUpdate"] == "current_mode_update"]
    assert {modes["currentModeId"], *changed} <= set(ids)


@requirement(TURN, "Session modes", 1)
async def modes_are_set(kit: KitOfVersion1) -> None:
    """Every mode can be chosen, and one there is not is refused."""
    opened = await kit.good("session/new", {"cwd": kit.cwd, "mcpServers": []})
    if not opened.get("modes"):
        raise NotShown
    for mode in opened["modes"]["availableModes"]:
        assert await kit.good("session/set_mode", {"sessionId": opened["sessionId"], "modeId": mode["id"]}) == {}
    await kit.bad("session/set_mode", {"sessionId": opened["sessionId"], "modeId": "nobody's"})


@requirement(TURN, "Session config options", 1)
async def options_are_set(kit: KitOfVersion1) -> None:
    """Every value of an option can be chosen, and all options are answered, this one with its value."""
    opened = await kit.good("session/new", {"cwd": kit.cwd, "mcpServers": []})
    id, options = opened["sessionId"], opened.get("configOptions") or []
    if not options:
        raise NotShown
    for option in options:
        for choice in [c for entry in option.get("options") or [] for c in entry.get("options", [entry])]:
            params = {"sessionId": id, "configId": option["id"], "value": choice["value"]}
            told = (await kit.good("session/set_config_option", params))["configOptions"]
            values = {o["id"]: o["currentValue"] for o in told}
            assert set(values) >= {o["id"] for o in options} and values[option["id"]] == choice["value"]


@requirement(TURN, "Session config options", 1)
async def unknown_options_are_refused(kit: KitOfVersion1) -> None:
    """An option there is not cannot be set."""
    id = await kit.session()
    await kit.bad("session/set_config_option", {"sessionId": id, "configId": "none", "value": "x"})


@requirement(TURN, "Tool calls", 1)
async def every_kind_is_shown(kit: KitOfVersion1) -> None:
    """A tool, a plan and a question are shown where any prompt shows them."""
    shown = await kit.shown()
    shown.of_kind("plan")
    shown.of_kind("tool_call")
    shown.asked("session/request_permission")


@requirement(SERVICES, "Initialization", 1)
async def nothing_is_told_that_is_not_taken(kit: KitOfVersion1) -> None:
    """Notices, compactions and plans by id are not told to a client that does not offer to take them."""
    await kit.shown()
    told = {update["sessionUpdate"] for update in kit.updates()}
    assert not told & set().union(*GATED.values(), {"subagent_update", "session_message"})


@requirement(SERVICES, "Initialization", 1, client="rich")
async def what_is_taken_is_told(kit: KitOfVersion1) -> None:
    """Notices, compactions and plans by id are told to a client that offers to take them, whole."""
    shown = await kit.shown()
    for kinds in GATED.values():
        shown.of_kind(*kinds)
    assert all(update["title"].strip() for update in shown.of_kind("notice"))


@requirement(SERVICES, "Initialization", 1, client="rich")
async def compactions_come_to_one_end(kit: KitOfVersion1) -> None:
    """A compaction begins, and ends once; its pieces come between."""
    shown = await kit.shown()
    states: dict[str, list[str]] = {}
    for update in shown.of_kind("compaction_update", "compaction_summary_chunk"):
        states.setdefault(update["compactionId"], []).append(update.get("status", "piece"))
    for path in states.values():
        assert path[-1] in ("completed", "failed", "cancelled")
        assert set(path[:-1]) <= {"in_progress", "piece"}


@requirement(SERVICES, "Session config options", 1)
async def switches_are_for_those_who_take_them(kit: KitOfVersion1) -> None:
    """An option with two states is not offered to a client that does not offer to show it."""
    shown = await kit.shown()
    lists = [shown.opened.get("configOptions") or []]
    lists += [u["configOptions"] for u in shown.updates if u["sessionUpdate"] == "config_option_update"]
    assert "boolean" not in [option["type"] for options in lists for option in options]


@requirement(SERVICES, "Session config options", 1, client="rich")
async def switches_are_set(kit: KitOfVersion1) -> None:
    """An option with two states can be set to both."""
    shown = await kit.shown()
    switches = [option for option in shown.opened.get("configOptions") or [] if option["type"] == "boolean"]
    if not switches:
        raise NotShown
    for option in switches:
        for value in (True, False):
            params = {"sessionId": shown.session, "configId": option["id"], "type": "boolean", "value": value}
            told = (await kit.good("session/set_config_option", params))["configOptions"]
            assert {o["id"]: o["currentValue"] for o in told}[option["id"]] is value


@requirement(OPTIONAL, "Session setup", 1)
async def a_history_is_told_before_the_answer(kit: KitOfVersion1) -> None:
    """A loaded session tells what was said, all of it before the answer; commands too."""
    if not kit.offers.get("loadSession"):
        raise NotShown
    id = await kit.session()
    await kit.turn(id, [kit.quick, {"type": "text", "text": "remember me"}])
    start = len(kit.heard)
    await kit.good("session/load", {"sessionId": id, "cwd": kit.cwd, "mcpServers": []})
    told = kit.updates(id, start)
    words = [u["content"].get("text") for u in told if u["sessionUpdate"] == "user_message_chunk"]
    assert "remember me" in words
    assert [m for m in await kit.silence() if m.get("method") == "session/update"] == []


@requirement(OPTIONAL, "Session setup", 1)
async def unknown_sessions_are_not_loaded(kit: KitOfVersion1) -> None:
    """A session that nobody opened can be neither loaded nor resumed."""
    for method, is_offered in (
        ("session/load", kit.offers.get("loadSession")),
        ("session/resume", kit.session_offers().get("resume") is not None),
    ):
        if is_offered:
            await kit.bad(method, {"sessionId": "nobody's", "cwd": kit.cwd, "mcpServers": []}, code=-32002)


@requirement(OPTIONAL, "Session setup", 1)
async def a_resumed_session_tells_no_history(kit: KitOfVersion1) -> None:
    """A resumed session repeats nothing, and its commands come before the answer."""
    kit.offered("resume")
    id = (await kit.shown()).session
    start = len(kit.heard)
    await kit.good("session/resume", {"sessionId": id, "cwd": kit.cwd})
    assert not {update["sessionUpdate"] for update in kit.updates(id, start)} & SPOKEN
    assert [m for m in await kit.silence() if m.get("method") == "session/update"] == []
