"""What is told during a turn: tools, plans, commands, options, numbers."""

import datetime
from typing import Any

from .kit import TURN, Kit, NotShown, Shown, requirement

TOOLS, PLANS, COMMANDS, OPTIONS = "Tool calls", "Agent plan", "Slash commands", "Session config options"
KINDS = {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
STATUSES = {1: {"pending", "in_progress", "completed", "failed"}}
STATUSES[2] = STATUSES[1] | {"paused", "cancelled"}
SPOKEN = ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk")


@requirement(TURN, TOOLS, client="any")
async def tools_begin_with_a_title(kit: Kit) -> None:
    """What is first told of a tool call has its title, and what follows has the same id."""
    known: set[str] = set()
    for update in _tools(await kit.shown()):
        id = update["toolCallId"]
        assert id, update
        if id not in known:
            assert update.get("title", "").strip(), update
        if kit.version == 1:
            assert (update["sessionUpdate"] == "tool_call") == (id not in known)
        known.add(id)


@requirement(TURN, TOOLS, client="any")
async def tools_have_a_status_there_is(kit: Kit) -> None:
    """A tool call's status and kind are of those that there are."""
    for update in _tools(await kit.shown()):
        assert update.get("status") in {None, *STATUSES[kit.version]}
        assert update.get("kind") in {None, *KINDS}


@requirement(TURN, TOOLS, client="any")
async def finished_tools_stay_finished(kit: Kit) -> None:
    """A tool call that has completed or failed does not begin again."""
    ended: set[str] = set()
    for update in _tools(await kit.shown()):
        if update["toolCallId"] in ended:
            assert update.get("status") not in ("pending", "in_progress")
        if update.get("status") in ("completed", "failed", "cancelled"):
            ended.add(update["toolCallId"])


@requirement(TURN, TOOLS, client="any")
async def tools_are_over_when_the_turn_is(kit: Kit) -> None:
    """When a turn is over, no tool call of it is still at work."""
    last: dict[str, Any] = {}
    for update in _tools(await kit.shown()):
        last[update["toolCallId"]] = update.get("status") or last.get(update["toolCallId"])
    assert not set(last.values()) & {"pending", "in_progress"}, last


@requirement(TURN, TOOLS, client="any")
async def places_are_absolute(kit: Kit) -> None:
    """The places a tool call is about are absolute, and their lines are counted from 1."""
    places = [p for update in _tools(await kit.shown()) for p in update.get("locations") or []]
    if not places:
        raise NotShown
    for place in places:
        assert place["path"].startswith("/")
        if (line := place.get("line")) is not None:
            assert line >= 1


@requirement(TURN, TOOLS, client="any")
async def diffs_are_whole(kit: Kit) -> None:
    """A diff names a file by its absolute path, and what becomes of it."""
    diffs = [c for c in _contents(await kit.shown()) if c["type"] == "diff"]
    if not diffs:
        raise NotShown
    for diff in diffs:
        if kit.version == 1:
            assert diff["path"].startswith("/") and isinstance(diff["newText"], str)
        else:
            assert diff["changes"] and all(change["path"].startswith("/") for change in diff["changes"])


@requirement(TURN, TOOLS, client="any")
async def results_are_of_a_known_form(kit: Kit) -> None:
    """The content of a tool call is a block of content, a diff or a terminal."""
    found = _contents(await kit.shown())
    if not found:
        raise NotShown
    assert {content["type"] for content in found} <= {"content", "diff", "terminal"}


@requirement(TURN, TOOLS)
async def failures_are_told(kit: Kit) -> None:
    """A tool call that fails says why."""
    failed = [update for update in _tools(await kit.shown()) if update.get("status") == "failed"]
    if not failed:
        raise NotShown
    for update in failed:
        assert {"content", "rawOutput"} & {name for name, value in update.items() if value}, update


@requirement(TURN, PLANS, client="any")
async def plans_are_whole(kit: Kit) -> None:
    """An entry of a plan has words, a priority and a status."""
    for entries in _plans(kit, await kit.shown()):
        for entry in entries:
            assert entry["content"].strip()
            assert entry["priority"] in ("high", "medium", "low")
            assert entry["status"] in ("pending", "in_progress", "completed", "cancelled")


@requirement(TURN, PLANS)
async def plans_are_told_as_a_whole(kit: Kit) -> None:
    """A plan that goes on is told with all its entries, not with those that changed."""
    told = _plans(kit, await kit.shown())
    if len(told) < 2:
        raise NotShown
    assert {entry["content"] for entry in told[0]} <= {entry["content"] for entry in told[1]}


@requirement(TURN, COMMANDS, client="any")
async def commands_are_told_apart(kit: Kit) -> None:
    """A command's name is one word without a slash, is there once and comes with a description."""
    await kit.shown()
    lists = [u["availableCommands"] for u in kit.updates() if u["sessionUpdate"] == "available_commands_update"]
    if not lists:
        raise NotShown
    for commands in lists:
        names = [command["name"] for command in commands]
        assert len(names) == len(set(names))
        for command in commands:
            assert command["name"] and not command["name"].startswith("/") and len(command["name"].split()) == 1
            assert command["description"].strip()


@requirement(TURN, OPTIONS, client="any")
async def options_have_a_value_they_offer(kit: Kit) -> None:
    """An option has an id and a name, and its value is one of its choices, of which there is one at least."""
    for option in _options(await kit.shown()):
        assert option[kit.option_id] and option["name"].strip()
        if option["type"] == "select":
            choices = [c for entry in option["options"] for c in entry.get("options", [entry])]
            assert option["currentValue"] in [choice["value"] for choice in choices]


@requirement(TURN, OPTIONS, client="any")
async def options_are_told_apart(kit: Kit) -> None:
    """No two options have one id, and no two choices of one have one value."""
    options = _options(await kit.shown())
    ids = [option[kit.option_id] for option in options]
    assert len(ids) == len(set(ids))
    for option in options:
        values = [c["value"] for entry in option.get("options") or [] for c in entry.get("options", [entry])]
        assert len(values) == len(set(values))


@requirement(TURN, OPTIONS, client="any")
async def options_are_told_as_a_whole(kit: Kit) -> None:
    """When options change, all of them are told."""
    shown = await kit.shown()
    wanted = {option[kit.option_id] for option in _options(shown)}
    for update in shown.of_kind("config_option_update"):
        assert {option[kit.option_id] for option in update["configOptions"]} == wanted


@requirement(TURN, "Prompt turn: usage", client="any")
async def numbers_of_the_context_are_whole(kit: Kit) -> None:
    """What is told of the context window is how much is used and how much there is; a cost has its unit."""
    for update in (await kit.shown()).of_kind("usage_update"):
        assert update["used"] >= 0 and update["size"] >= 0
        if cost := update.get("cost"):
            assert cost["currency"] and isinstance(cost["amount"], int | float)


@requirement(TURN, "Session info", client="any")
async def times_are_times(kit: Kit) -> None:
    """A title is words or null, and a time is written as ISO 8601 has it."""
    for update in (await kit.shown()).of_kind("session_info_update"):
        assert isinstance(update.get("title"), str | None)
        if update.get("updatedAt"):
            assert datetime.datetime.fromisoformat(update["updatedAt"])


@requirement(TURN, "Content", client="any")
async def chunks_are_one_block(kit: Kit) -> None:
    """A chunk of a message is one block of content."""
    shown = await kit.shown()
    chunks = [update for update in shown.updates if update["sessionUpdate"] in SPOKEN]
    if not chunks:
        raise NotShown
    for update in chunks:
        assert update["content"]["type"] in ("text", "image", "audio", "resource_link", "resource")


@requirement(TURN, "Content")
async def every_kind_of_content_is_shown(kit: Kit) -> None:
    """A message may be text, image, sound, link and embedded file, all in the forms of a prompt."""
    types = {u["content"]["type"] for u in (await kit.shown()).updates if u["sessionUpdate"] in SPOKEN}
    if not {"text", "image", "audio", "resource_link", "resource"} <= types:
        raise NotShown


def _tools(shown: Shown) -> list[Any]:
    return shown.of_kind("tool_call", "tool_call_update")


def _contents(shown: Shown) -> list[Any]:
    found = shown.of_kind("tool_call", "tool_call_update")
    pieces = [u["content"] for u in shown.updates if u["sessionUpdate"] == "tool_call_content_chunk"]
    return [content for update in found for content in update.get("content") or []] + pieces


def _plans(kit: Kit, shown: Shown) -> list[list[Any]]:
    if kit.version == 1:
        return [update["entries"] for update in shown.of_kind("plan")]
    return [u["plan"]["entries"] for u in shown.of_kind("plan_update") if u["plan"]["type"] == "items"]


def _options(shown: Shown) -> list[Any]:
    if not shown.opened.get("configOptions"):
        raise NotShown
    options: list[Any] = shown.opened["configOptions"]
    return options
