"""What version 2 requires of updates: ids of everything, whole messages, terminals, states around questions."""

import base64
from typing import Any

from .kit import SERVICES, TURN, NotShown, Shown, requirement
from .version2 import CHUNKS, SPOKEN, KitOfVersion2

MESSAGES, TOOLS, TERMINALS = "Content: messages", "Tool calls", "Terminals"
GONE = {"tool_call", "plan", "current_mode_update"}


@requirement(TURN, MESSAGES, 2, client="any")
async def messages_have_ids(kit: KitOfVersion2) -> None:
    """Every message and every piece of one has the id of the message."""
    assert all(update["messageId"] for update in (await kit.shown()).of_kind(*SPOKEN, *CHUNKS))


@requirement(TURN, MESSAGES, 2, client="any")
async def an_id_is_of_one_speaker(kit: KitOfVersion2) -> None:
    """What has one id is one message: of the user, of the agent, or a thought."""
    speakers: dict[str, set[str]] = {}
    for update in (await kit.shown()).of_kind(*SPOKEN, *CHUNKS):
        speakers.setdefault(update["messageId"], set()).add(update["sessionUpdate"].removesuffix("_chunk"))
    assert all(len(kinds) == 1 for kinds in speakers.values()), speakers


@requirement(TURN, MESSAGES, 2)
async def whole_messages_are_shown(kit: KitOfVersion2) -> None:
    """A message told as a whole has a list of content, and is told again under its id."""
    told = (await kit.shown()).of_kind("agent_message")
    assert all(isinstance(update.get("content"), list | None) for update in told)


@requirement(TURN, MESSAGES, 2)
async def whole_thoughts_are_shown(kit: KitOfVersion2) -> None:
    """A thought told as a whole has a list of content."""
    told = (await kit.shown()).of_kind("agent_thought")
    assert all(isinstance(update.get("content"), list | None) for update in told)


@requirement(TURN, "Initialization", 2, client="any")
async def updates_of_version_1_are_gone(kit: KitOfVersion2) -> None:
    """No update is told that version 2 no longer has."""
    await kit.shown()
    assert not {update["sessionUpdate"] for update in kit.updates()} & GONE


@requirement(TURN, TOOLS, 2, client="any")
async def pieces_of_tools_follow_their_tool(kit: KitOfVersion2) -> None:
    """A piece of a tool call's content belongs to one that was told, and has not ended."""
    shown = await kit.shown()
    shown.of_kind("tool_call_content_chunk")
    open_: dict[str, Any] = {}
    for update in shown.of_kind("tool_call_update", "tool_call_content_chunk"):
        if update["sessionUpdate"] == "tool_call_content_chunk":
            assert open_[update["toolCallId"]] not in ("completed", "failed", "cancelled")
        else:
            open_[update["toolCallId"]] = update.get("status") or open_.get(update["toolCallId"])


@requirement(TURN, "Agent plan", 2, client="any")
async def plans_have_ids(kit: KitOfVersion2) -> None:
    """Every plan has an id and a type."""
    for update in (await kit.shown()).of_kind("plan_update"):
        assert update["plan"]["planId"] and update["plan"]["type"]


@requirement(TURN, "Slash commands", 2, client="any")
async def commands_have_a_type(kit: KitOfVersion2) -> None:
    """A command says that it is one, and what it takes is a text."""
    await kit.shown()
    lists = [u["availableCommands"] for u in kit.updates() if u["sessionUpdate"] == "available_commands_update"]
    if not lists:
        raise NotShown
    for command in [command for commands in lists for command in commands]:
        assert command["type"] == "command"
        if (taken := command.get("input")) is not None:
            assert taken["type"] == "text"


@requirement(TURN, "Session config options", 2)
async def options_are_set(kit: KitOfVersion2) -> None:
    """To set an option is answered with all of them, this one with its value."""
    opened = await kit.good("session/new", {"cwd": kit.cwd})
    options = opened.get("configOptions")
    if not options:
        raise NotShown
    for option in options:
        is_switch = option["type"] == "boolean"
        choices = [c["value"] for entry in option.get("options") or [] for c in entry.get("options", [entry])]
        for value in (True, False) if is_switch else choices:
            chosen = {"configId": option["configId"], "type": "boolean" if is_switch else "id", "value": value}
            told = await kit.good("session/set_config_option", {"sessionId": opened["sessionId"], **chosen})
            values = {o["configId"]: o["currentValue"] for o in told["configOptions"]}
            assert set(values) >= {o["configId"] for o in options} and values[option["configId"]] == value


@requirement(TURN, "Session config options", 2)
async def unknown_options_are_refused(kit: KitOfVersion2) -> None:
    """An option there is not cannot be set, nor a value there is not."""
    opened = await kit.good("session/new", {"cwd": kit.cwd})
    ids = ["none", *(o["configId"] for o in opened.get("configOptions") or [] if o["type"] == "select")]
    for id in ids:
        chosen = {"configId": id, "type": "id", "value": "nobody's"}
        await kit.bad("session/set_config_option", {"sessionId": opened["sessionId"], **chosen}, code=-32602)


@requirement(SERVICES, "Tool calls: permission", 2, client="any")
async def questions_have_a_title(kit: KitOfVersion2) -> None:
    """A question for permission says in words what it is about."""
    assert all(q["title"].strip() for q in (await kit.shown()).asked("session/request_permission"))


@requirement(SERVICES, "Prompt lifecycle: state updates", 2, client="any")
async def a_question_requires_action(kit: KitOfVersion2) -> None:
    """While a question is open its session requires action."""
    _states_around(await kit.shown(), "session/request_permission")


@requirement(SERVICES, "Prompt lifecycle: state updates", 2, client="rich")
async def a_form_requires_action(kit: KitOfVersion2) -> None:
    """While a form or a page is open its session requires action."""
    _states_around(await kit.shown(), "elicitation/create")


@requirement(SERVICES, TERMINALS, 2, client="any")
async def terminals_are_told_before_they_print(kit: KitOfVersion2) -> None:
    """A terminal is told with its command before anything is printed to it."""
    shown = await kit.shown()
    known: set[str] = set()
    for update in shown.of_kind("terminal_update", "terminal_output_chunk"):
        if update["sessionUpdate"] == "terminal_update":
            if update["terminalId"] not in known:
                assert update.get("command")
            known.add(update["terminalId"])
        assert update["terminalId"] in known


@requirement(SERVICES, TERMINALS, 2, client="any")
async def terminals_are_in_absolute_directories(kit: KitOfVersion2) -> None:
    """The directory of a terminal is absolute."""
    for update in (await kit.shown()).of_kind("terminal_update"):
        assert (update.get("cwd") or "/").startswith("/")


@requirement(SERVICES, TERMINALS, 2, client="any")
async def what_terminals_print_is_base64(kit: KitOfVersion2) -> None:
    """What is printed comes as base64, each piece decodable by itself."""
    for update in (await kit.shown()).of_kind("terminal_output_chunk"):
        base64.b64decode(update["data"], validate=True)


@requirement(SERVICES, TERMINALS, 2, client="any")
async def terminals_end(kit: KitOfVersion2) -> None:
    """A terminal that has ended says with which code or signal, and prints nothing more."""
    shown = await kit.shown()
    ended: set[str] = set()
    for update in shown.of_kind("terminal_update", "terminal_output_chunk"):
        if update["terminalId"] in ended:
            assert update["sessionUpdate"] == "terminal_update"
        if status := update.get("exitStatus"):
            assert {"exitCode", "signal"} & set(status)
            ended.add(update["terminalId"])
    assert ended


@requirement(SERVICES, TERMINALS, 2)
async def terminals_in_tools_are_told(kit: KitOfVersion2) -> None:
    """A terminal that a tool call shows is one that was told."""
    shown = await kit.shown()
    told = {update["terminalId"] for update in shown.of_kind("terminal_update")}
    contents = [c for u in shown.of_kind("tool_call_update") for c in u.get("content") or []]
    assert {content["terminalId"] for content in contents if content["type"] == "terminal"} <= told


@requirement(TURN, "Tool calls", 2)
async def every_kind_is_shown(kit: KitOfVersion2) -> None:
    """Whole messages, pieces of tools, plans and terminals are shown where any prompt shows them."""
    shown = await kit.shown()
    for kind in ("agent_message", "agent_thought", "tool_call_content_chunk", "terminal_update"):
        shown.of_kind(kind)
    for kind in ("terminal_output_chunk", "plan_update", "tool_call_update"):
        shown.of_kind(kind)


def _states_around(shown: Shown, method: str) -> None:
    questions = [at for at, message in enumerate(shown.messages) if message.get("method") == method]
    if not questions:
        raise NotShown
    for at in questions:
        before, after = _states(shown.messages[:at]), _states(shown.messages[at:])
        assert before[-1] == "requires_action"
        assert after[0] == "running"


def _states(messages: list[Any]) -> list[str]:
    updates = [m["params"]["update"] for m in messages if m.get("method") == "session/update"]
    return [update["state"] for update in updates if update["sessionUpdate"] == "state_update"]
