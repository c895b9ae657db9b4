"""Content and tool calls of D0: annotations with titles, bare content blocks, one location."""

from typing import Any

from ..engine.shapes import OMITTED, Fields, Items, Pair, Shape, Words, carried, carry

PRIORITIES = {"high": 1.0, "medium": 0.5, "low": 0.0}


def _annotations_inward(value: Any, t: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {name: member for name, member in value.items() if name not in ("audience", "lastModified", "_meta")}
    if not isinstance(kept.get("priority"), str):
        kept.pop("priority", None)
    said = {name: member for name, member in value.items() if name not in kept}
    if kept.get("priority") in PRIORITIES:
        said["priority"] = PRIORITIES[kept["priority"]]
    return carry(said, kept, t) if kept else said


def _annotations_outward(value: Any, t: Any) -> Any:
    value, kept = carried(value, t)
    for name in ("audience", "lastModified"):
        if value.get(name) is not None:
            t.lose("annotations")
    said = {name: member for name, member in value.items() if name not in ("audience", "lastModified", "priority")}
    priority = value.get("priority")
    if isinstance(priority, int | float) and "priority" not in kept:
        said["priority"] = min(PRIORITIES, key=lambda word: abs(PRIORITIES[word] - priority))
        if PRIORITIES[said["priority"]] != priority:
            t.lose("annotations")
    return {**said, **kept}


class Block(Fields):
    """A content block; most have no annotations, and are the same in both."""

    def inward(self, value: Any, t: Any) -> Any:
        return super().inward(value, t) if "annotations" in value else value

    def outward(self, value: Any, t: Any) -> Any:
        return super().outward(value, t) if "annotations" in value else value


BLOCK = Block(shapes={"annotations": Pair(_annotations_inward, _annotations_outward)})
DIFF = Fields(carried=["mimeType"])
TERMINAL = Fields(carried=["command", "exitCode"])


def _tool_content_inward(value: Any, t: Any) -> Any:
    match value.get("type"):
        case "diff":
            return DIFF.inward(value, t)
        case "terminal":
            return TERMINAL.inward(value, t)
        case "content":
            return value
    return {"type": "content", "content": BLOCK.inward(value, t)}


def _tool_content_outward(value: Any, t: Any) -> Any:
    match value.get("type"):
        case "diff":
            if value.get("oldText") is None:
                t.lose("new file")
                value = {**value, "oldText": ""}
            return DIFF.outward(value, t)
        case "terminal":
            return {**t.terminals.get(value.get("terminalId"), {}), **TERMINAL.outward(value, t)}
        case "content":
            if value.get("_meta"):
                t.lose("margins")
            return BLOCK.outward(value["content"], t)
    t.lose("update kinds")
    return value


# Updates


def _locations_outward(value: Any, t: Any) -> Any:
    if isinstance(value, list) and len(value) > 1:
        t.lose("locations")
    return value[0] if value else OMITTED


KINDS = Words({}, {"switch_mode": "other"}, "tool kind switch_mode")
TOOL_CALL = Fields(
    {"type": "sessionUpdate", "location": "locations"},
    {
        "kind": KINDS,
        "content": Items(Pair(_tool_content_inward, _tool_content_outward)),
        "locations": Pair(lambda value, t: [value] if isinstance(value, dict) else value, _locations_outward),
    },
    lost={"rawInput": "tool input and output", "rawOutput": "tool input and output", "name": "tool name"},
)
MODE = Fields({"type": "sessionUpdate", "modeId": "currentModeId"})
OTHER = Fields({"type": "sessionUpdate"})
SHAPES: dict[str, Shape] = {"tool_call": TOOL_CALL, "tool_call_update": TOOL_CALL, "current_mode_update": MODE}
