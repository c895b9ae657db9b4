"""Content and tool calls of D0: annotations with titles, bare content blocks, one location."""

from typing import TYPE_CHECKING

from ...foundation.documents import Document, Json, document, elements
from ..engine.shapes import OMITTED, Fields, Items, Pair, ValuePair, Words, carried, carry
from ..engine.translator import Translator

if TYPE_CHECKING:
    from .translator import Pharo

PRIORITIES = {"high": 1.0, "medium": 0.5, "low": 0.0}


def _annotations_inward(value: Json, t: Translator) -> Json:
    if not isinstance(value, dict):
        return value
    kept = {name: member for name, member in value.items() if name not in ("audience", "lastModified", "_meta")}
    word = kept.get("priority")
    if not isinstance(word, str):
        kept.pop("priority", None)
    said = {name: member for name, member in value.items() if name not in kept}
    if isinstance(word, str) and word in PRIORITIES:
        said["priority"] = PRIORITIES[word]
    return carry(said, kept, t) if kept else said


def _annotations_outward(annotations: Json, t: Translator) -> Json:
    value, kept = carried(document(annotations), t)
    for name in ("audience", "lastModified"):
        if value.get(name) is not None:
            t.lose("annotations")
    said = {name: member for name, member in value.items() if name not in ("audience", "lastModified", "priority")}
    priority = value.get("priority")
    if isinstance(priority, int | float) and "priority" not in kept:
        said["priority"] = nearest = min(PRIORITIES, key=lambda word: abs(PRIORITIES[word] - priority))
        if PRIORITIES[nearest] != priority:
            t.lose("annotations")
    return {**said, **kept}


ANNOTATED = Fields(shapes={"annotations": ValuePair(_annotations_inward, _annotations_outward)})
BLOCK = Pair(  # most blocks have no annotations, and have the same form in both
    lambda block, t: ANNOTATED.inward(block, t) if "annotations" in block else block,
    lambda block, t: ANNOTATED.outward(block, t) if "annotations" in block else block,
)
DIFF = Fields(carried=["mimeType"])
TERMINAL = Fields(carried=["command", "exitCode"])


def _tool_content_inward(value: Document, t: Translator) -> Json:
    match value.get("type"):
        case "diff":
            return DIFF.inward(value, t)
        case "terminal":
            return TERMINAL.inward(value, t)
        case "content":
            return value
    return {"type": "content", "content": BLOCK.inward(value, t)}


def _tool_content_outward(value: Document, t: "Pharo") -> Json:
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


def _locations_outward(value: Json, t: Translator) -> Json:
    locations = elements(value or [])
    if len(locations) > 1:
        t.lose("locations")
    return locations[0] if locations else OMITTED


KINDS = Words({}, {"switch_mode": "other"}, "tool kind switch_mode")
TOOL_CALL = Fields(
    {"type": "sessionUpdate", "location": "locations"},
    {
        "kind": KINDS,
        "content": Items(Pair(_tool_content_inward, _tool_content_outward)),
        "locations": ValuePair(lambda value, t: [value] if isinstance(value, dict) else value, _locations_outward),
    },
    lost={"rawInput": "tool input and output", "rawOutput": "tool input and output", "name": "tool name"},
)
MODE = Fields({"type": "sessionUpdate", "modeId": "currentModeId"})
OTHER = Fields({"type": "sessionUpdate"})
SHAPES: dict[Json, Fields] = {"tool_call": TOOL_CALL, "tool_call_update": TOOL_CALL, "current_mode_update": MODE}
