"""D2, the dialect of Cursor and claude-code-acp: version 1 of early 2026, with fewer fields in content."""

from ..foundation.documents import Document, Json, document, documents, elements, string
from .engine.shapes import (
    MADE_UP,
    Fields,
    Items,
    Pair,
    Shape,
    ValuePair,
    Variants,
    basename,
    carried,
    carry,
    text_of,
)
from .engine.translator import MethodRow, Translator
from .legacy import OPENED, OPENING, QUESTION, Legacy, update_inward, update_outward

SIGNATURES = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}


# Content


def _image_inward(block: Document, t: Translator) -> Json:
    if "data" not in block:
        link = {"type": "resource_link", "uri": block["uri"], "name": basename(block["uri"])}
        return carry(link, {"block": block}, t)
    return IMAGE.inward(block, t)


def _sniffed(block: Document, t: Translator) -> str:
    """The media type of an image that does not name one, from its first bytes."""
    data = string(block["data"])
    found = (kind for start, kind in SIGNATURES.items() if data.startswith(start))
    return next(found, "image/png")


def _resource_inward(block: Document, t: Translator) -> Json:
    resource = document(block["resource"])
    if "text" in resource or "blob" in resource:
        return block
    link = {"type": "resource_link", "uri": resource["uri"], "name": basename(resource["uri"])}
    if "mimeType" in resource:
        link["mimeType"] = resource["mimeType"]
    return carry(link, {"block": block}, t)


def _link_outward(block: Document, t: Translator) -> Json:
    _, kept = carried(block, t)
    return kept["block"] if "block" in kept else LINK.outward(block, t)


IMAGE = Fields(given={"mimeType": _sniffed})
LINK = Fields(given={"name": lambda block, t: basename(block["uri"])})
BLOCK: Shape = Variants(
    "type",
    {
        "image": Pair(_image_inward, IMAGE.outward),
        "resource": Pair(_resource_inward, lambda block, t: block),
        "resource_link": Pair(LINK.inward, _link_outward),
    },
)


def _tool_content_inward(content: Document, t: Translator) -> Json:
    if content.get("type") != "content":
        return content
    inner = document(content["content"])
    if "type" not in inner and "text" in inner:
        inner = carry({**inner, "type": "text"}, {MADE_UP: ["type"]}, t)
    return {**content, "content": BLOCK.inward(inner, t)}


def _tool_content_outward(content: Document, t: Translator) -> Json:
    if content.get("type") != "content":
        return content
    return {**content, "content": BARE.outward(BLOCK.outward(content["content"], t), t)}


BARE = Fields()
CONTENTS = Items(Pair(_tool_content_inward, _tool_content_outward))
TOOL_CALL = Fields(shapes={"content": CONTENTS})
CHUNK = Fields(shapes={"content": BLOCK})
SAID: Shape = Variants(
    "sessionUpdate",
    {
        "agent_message_chunk": CHUNK,
        "agent_thought_chunk": CHUNK,
        "user_message_chunk": CHUNK,
        "tool_call": TOOL_CALL,
        "tool_call_update": TOOL_CALL,
    },
)


# Sessions


def _opening_inward(params: Document, t: Translator) -> Json:
    said = OPENING.inward(params, t)
    prompt = document(params.get("_meta") or {}).get("systemPrompt")
    offers = document(t.agent_offers.get("sessionCapabilities") or {}).get("systemPrompt")
    if prompt is None or offers is None or "systemPrompt" in params:
        return said
    mode, text = ("append", prompt["append"]) if isinstance(prompt, dict) else ("override", prompt)
    said, kept = carried(said, t)
    kept[MADE_UP] = [*elements(kept.get(MADE_UP, [])), "systemPrompt"]
    return carry({**said, "systemPrompt": {"mode": mode, "content": [{"type": "text", "text": text}]}}, kept, t)


def _opening_outward(params: Document, t: Translator) -> Json:
    said = OPENING.outward(params, t)
    prompt = said.pop("systemPrompt", None)
    if not isinstance(prompt, dict):
        return said
    if any(block.get("type") != "text" for block in documents(prompt["content"])):
        t.lose("system prompt")
    text = text_of(prompt["content"])
    meta = {
        **document(said.get("_meta") or {}),
        "systemPrompt": {"append": text} if prompt["mode"] == "append" else text,
    }
    return {**said, "_meta": meta}


ASKED = Fields(shapes={"toolCall": TOOL_CALL})
INFO = Fields(said={"title": lambda info, t: info["name"]})


class Cursor(Legacy):
    name = "cursor"
    losses = {"system prompt": "the parts of a system prompt that are not text"}
    to_agent = {
        **Legacy.to_agent,
        "initialize": MethodRow(Legacy.to_agent["initialize"].params, Fields(shapes={"agentInfo": INFO})),
        "session/new": MethodRow(Pair(_opening_inward, _opening_outward), OPENED),
        "session/prompt": MethodRow(Fields(shapes={"prompt": Items(BLOCK)})),
    }
    to_client = {
        **Legacy.to_client,
        "session/update": MethodRow(
            Fields(
                shapes={
                    "update": Pair(
                        lambda update, t: SAID.inward(update_inward(update, t), t),
                        lambda update, t: update_outward(document(SAID.outward(update, t)), t),
                    )
                }
            )
        ),
        "session/request_permission": MethodRow(
            ValuePair(
                lambda params, t: ASKED.inward(QUESTION.inward(params, t), t),
                lambda params, t: QUESTION.outward(ASKED.outward(params, t), t),
            )
        ),
    }
