"""What the bridges may do differently, and why: it is taken out of what they said before that is compared.

`MEANT` is the list that docs/programs/claude.md has.
"""

import re
from collections.abc import Sequence
from typing import Any

from .driver import Message

MEANT = {
    "capabilities": "MCP servers in the client, titles and the login's state are offered here alone",
    "choices": "`dontAsk` is a mode here; fast mode and ultracode are offered there",
    "commands": "commands that cannot work without a terminal or belong to the program itself are left out here",
    "identity": "who pays is told with the first session here, by one more program at the start there",
    "tool response": "what a tool gave comes with its result here, in an update before it there",
    "titles": "the title comes before the prompt's answer here, so that whoever reads a turn reads it; later there",
    "suggestions": "what the user might say next costs a request of the model after every turn there",
    "reasons": "a permission request shows here why the program asks",
    "scope": "whatever the program suggests for always is offered here, in words; there only a single change",
    "the plan": "the question shows the plan here, and offers every mode that there is",
    "a plan that is refused": "the model is told so and goes on here; there the turn ends as cancelled",
    "replay": "an edit that is told again has the lines around it here",
    "the same twice": "the same usage, and the report of `/context`, is told once here",
    "mode after a yes": "a mode that changes with an answer is told here",
    "texts of tools": "line numbers and marks for the model are taken out of what is shown here",
    "cancelled calls": "the words for a call that was cancelled are the program's or the bridge's",
    "why it did not run": "`nonExecutionKind` is not told here",
}
_NUMBERS = re.compile(r"^\s*\d+\t", re.MULTILINE)
_REFUSED = re.compile(  # one of these, by which process is quicker when a turn is cancelled
    r"User refused permission to run tool|The user did not allow this tool call\.|Tool permission request failed: "
    r"Error: Tool use aborted|The user doesn't want to proceed with this tool use\.[^`]*"
)
_INTERRUPTED = re.compile(r" for tool use\]")
_HANDED_BACK = re.compile(r"^\[Subagent hand-back\].*$", re.DOTALL)  # an id and times
_MARKS = re.compile(r"</?tool_use_error>")
HERE_ALONE = {"models", "agentInfo", "authMethods"}
OFFERED_HERE = {"acp", "status", "title"}  # capabilities
WORDING = {"title", "description"}
NOT_COMPARED = {*HERE_ALONE, *WORDING, "cost", "quota", "toolResponse", "nonExecutionKind"}
REPLAY = "load with replay"
ELSEWHERE = {"session_info_update", "available_commands_update"}  # whose places differ
LEFT_OUT = {"dontAsk", "fast", "ultracode"}


def comparable(name: str, messages: Sequence[Message]) -> list[Message]:
    """What must be the same on both sides."""
    found: list[Message] = []
    usage: list[Message] = []  # is told beside everything else: where, depends on which process is quicker
    early: dict[str, Message] = {}  # what tools gave, before their end was told
    for message in messages:
        update = message.get("params", {}).get("update", {})
        if message.get("method") == "_auth/status_update" or update.get("sessionUpdate") in ELSEWHERE:
            continue
        if _is_response(update):
            early[update["toolCallId"]] = update
            continue
        if update.get("status") and (response := early.pop(update.get("toolCallId"), None)):
            message = {**message, "params": {**message["params"], "update": {**response, **update}}}
        shown = plain(message)
        if update.get("sessionUpdate") == "usage_update":
            known = {name: update[name] for name in ("used", "size")}
            if usage[-1:] != [known]:
                usage.append(known)
            continue
        if name == REPLAY and _has_diff(update):
            shown["params"]["update"].pop("content")
            shown["params"]["update"].pop("locations", None)
        if _is_report(shown) and found and _is_report(found[-1]):
            continue
        found.append(shown)
    kept = [message for number, message in enumerate(found) if not _follows_a_yes(found, number)]
    return [*kept, {"usage": usage}]


def _has_diff(update: Message) -> bool:
    parts = update.get("content") or []
    return update.get("sessionUpdate") == "tool_call_update" and any(part.get("type") == "diff" for part in parts)


def _is_report(message: Message) -> bool:
    return str(message.get("params", {}).get("update", {}).get("content", {}))[:60].find("## Context Usage") > 0


def _follows_a_yes(messages: Sequence[Message], number: int) -> bool:
    """Whether a message tells the mode that an answer to an ordinary question has changed."""
    kinds = [m.get("params", {}).get("update", {}).get("sessionUpdate") for m in messages]
    if kinds[number] not in ("current_mode_update", "config_option_update"):
        return False
    while number > 0 and kinds[number] in ("current_mode_update", "config_option_update"):
        number -= 1
    asked = messages[number].get("params", {}).get("toolCall", {})
    return bool(asked) and asked.get("kind") != "switch_mode"


def _is_response(update: Message) -> bool:
    """Whether an update has only what a tool gave, before its end is told."""
    given = (update.get("_meta") or {}).get("claudeCode") or {}
    return "toolResponse" in given and "status" not in update


def plain(value: Any, name: str = "") -> Any:
    """A message without what need not be the same."""
    if isinstance(value, str):
        shown = _NUMBERS.sub("", _MARKS.sub("", value)).replace("\n\n```", "\n```")
        return _INTERRUPTED.sub("]", _HANDED_BACK.sub("handed back", _REFUSED.sub("refused", shown)))
    if isinstance(value, list):
        if name == "options":  # of a choice, or of a question: what they are called is wording
            return sorted({str(o.get("value") or o.get("kind")) for o in value if o.get("value") not in LEFT_OUT})
        if name == "availableModes":
            return sorted(mode["id"] for mode in value if mode["id"] not in LEFT_OUT)
        return [plain(item) for item in value if not _is_left_out(item)]
    if isinstance(value, dict):
        found = {key: plain(item, key) for key, item in value.items() if item is not None}
        for key in [key for key in found if key in NOT_COMPARED or (key in OFFERED_HERE and _is_offer(found[key]))]:
            del found[key]
        if value.get("sessionUpdate") == "tool_call":
            found = {"kind": "other", "status": "pending", "locations": [], **found}
        if "toolCallId" in value and (not found.get("content") or found.get("kind") == "switch_mode"):
            found.pop("content", None)
        if "stopReason" not in value and "configOptions" in value and "modes" in value:
            found.pop("sessionId", None)
        return found
    return value


def _is_offer(value: Any) -> bool:
    """Whether a member says that something is offered."""
    return value is True or value == {}


def _is_left_out(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    told = item.get("content")
    is_reason = isinstance(told, dict) and str(told.get("text", "")).startswith("Reason: ")
    return is_reason or item.get("id") in LEFT_OUT
