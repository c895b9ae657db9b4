"""What version 1 requires."""

from typing import Any

from dragoman import schema as s

from .kit import TEXT, Kit, NotShown, requirement

STOP_REASONS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
SPOKEN = {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"}


class KitOfVersion1(Kit):
    version = 1
    update_type = s.SessionNotification

    async def greet(self) -> None:
        params = {"protocolVersion": 1.0, "clientInfo": {"name": "kit", "version": "1"}}
        self.welcome = await self.good("initialize", params)

    async def turn(self, id: str, prompt: list[Any], **more: Any) -> str:
        result = await self.good("session/prompt", {"sessionId": id, "prompt": prompt, **more})
        reason: str = result["stopReason"]
        return reason


@requirement(1)
async def the_welcome_is_of_version_1(kit: KitOfVersion1) -> None:
    """The answer to a greeting has the version as an integer, capabilities and the agent's name; 1.0 is 1."""
    assert kit.welcome["protocolVersion"] == 1
    assert isinstance(kit.welcome["protocolVersion"], int)
    assert kit.welcome["agentInfo"]["name"] and kit.welcome["agentInfo"]["version"]
    assert isinstance(kit.welcome["agentCapabilities"], dict)


@requirement(1)
async def a_turn_is_told_before_it_is_answered(kit: KitOfVersion1) -> None:
    """Updates are of the session, fit the schema and come before the answer, which has a stop reason."""
    id, start = await kit.session(), len(kit.heard)
    assert await kit.turn(id, [TEXT]) in STOP_REASONS
    assert kit.updates(id, start)
    assert [message for message in await kit.silence() if message.get("method") == "session/update"] == []


@requirement(1)
async def a_turn_is_cancelled(kit: KitOfVersion1) -> None:
    """A cancelled turn is answered `cancelled`, and not with an error."""
    id = await kit.session()
    asked = kit.wire.ask("session/prompt", {"sessionId": id, "prompt": [TEXT]})
    while (await kit.next()).get("method") != "session/update":
        pass
    kit.wire.tell("session/cancel", {"sessionId": id})
    answer = await kit.until(asked)
    if answer["result"]["stopReason"] == "end_turn":
        raise NotShown  # it was over before
    assert answer["result"]["stopReason"] == "cancelled"


@requirement(1)
async def nothing_is_asked_that_is_not_offered(kit: KitOfVersion1) -> None:
    """A client that offers nothing is asked for permission at most."""
    assert kit.asked() <= {"session/update", "session/request_permission", "auth/status_update"}


@requirement(1)
async def a_history_is_told_before_the_answer(kit: KitOfVersion1) -> None:
    """A loaded session tells what was said, all of it before the answer; commands too."""
    if not kit.welcome["agentCapabilities"].get("loadSession"):
        raise NotShown
    id = await kit.session()
    await kit.turn(id, [{"type": "text", "text": "remember me"}])
    start = len(kit.heard)
    await kit.good("session/load", {"sessionId": id, "cwd": kit.cwd, "mcpServers": []})
    told = kit.updates(id, start)
    words = [u["content"].get("text") for u in told if u["sessionUpdate"] == "user_message_chunk"]
    assert "remember me" in words
    assert [m for m in await kit.silence() if m.get("method") == "session/update"] == []


@requirement(1)
async def a_resumed_session_tells_no_history(kit: KitOfVersion1) -> None:
    """A resumed session repeats nothing, and its commands come before the answer."""
    if not (kit.welcome["agentCapabilities"].get("sessionCapabilities") or {}).get("resume") is not None:
        raise NotShown
    id = await kit.session()
    await kit.turn(id, [TEXT])
    start = len(kit.heard)
    await kit.good("session/resume", {"sessionId": id, "cwd": kit.cwd})
    assert not {update["sessionUpdate"] for update in kit.updates(id, start)} & SPOKEN
    assert [m for m in await kit.silence() if m.get("method") == "session/update"] == []


@requirement(1)
async def modes_and_options_are_set(kit: KitOfVersion1) -> None:
    """Every mode and every value of an option can be chosen, and all options are answered."""
    opened = await kit.good("session/new", {"cwd": kit.cwd, "mcpServers": []})
    id, options = opened["sessionId"], opened.get("configOptions") or []
    if not opened.get("modes") and not options:
        raise NotShown
    for mode in (opened.get("modes") or {}).get("availableModes", ()):
        await kit.good("session/set_mode", {"sessionId": id, "modeId": mode["id"]})
    for option in options:
        params = {"sessionId": id, "configId": option["id"], "value": option["currentValue"]}
        told = (await kit.good("session/set_config_option", params))["configOptions"]
        assert {o["id"] for o in told} >= {o["id"] for o in options}
    await kit.bad("session/set_config_option", {"sessionId": id, "configId": "none", "value": "x"})


@requirement(1)
async def system_prompts_are_taken_as_offered(kit: KitOfVersion1) -> None:
    """A system prompt is taken where that is offered, and refused with the session where it is not."""
    offers = (kit.welcome["agentCapabilities"].get("sessionCapabilities") or {}).get("systemPrompt")
    for mode in ("append", "override"):
        params = {"cwd": kit.cwd, "mcpServers": [], "systemPrompt": {"mode": mode, "content": [TEXT]}}
        is_offered = offers is not None and (
            mode == "append" or (offers.get("mode") or {}).get("override") is not None
        )
        await (kit.good if is_offered else kit.bad)("session/new", params)


@requirement(1)
async def every_kind_is_shown(kit: KitOfVersion1) -> None:
    """A tool, a plan and a question are shown where any prompt shows them."""
    shown = {update["sessionUpdate"] for update in kit.updates()}
    if not {"tool_call", "plan"} <= shown or "session/request_permission" not in kit.asked():
        raise NotShown
