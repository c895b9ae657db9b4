"""The modes, config options and tools that an agent of ours names when it greets.

Version 1 names modes and options when a session is opened, and tools never.  Some dialects name them before, so our
agents say them in the `_meta` of their capabilities as well.  Tools are a long list: a client has to ask for it.
"""

from ..foundation.documents import Document, Json

OURS = "dragoman"  # the member of `_meta`


def declared(offers: Json) -> tuple[list[Document], list[str]]:
    """The modes, as version 1 has them, and the ids of the config options."""
    ours = _ours(offers)
    modes, options = ours.get("modes"), ours.get("configOptions")
    return (
        [mode for mode in modes if isinstance(mode, dict) and "id" in mode] if isinstance(modes, list) else [],
        [option for option in options if isinstance(option, str)] if isinstance(options, list) else [],
    )


def wants_tools(meta: Json) -> bool:
    """Whether a client asks for the tools, in the `_meta` of its capabilities."""
    return _ours({"_meta": meta}).get("tools") is True


def wanting_tools(offers: Document) -> Document:
    """Capabilities of a client that asks for the tools."""
    meta = offers.get("_meta")
    return {**offers, "_meta": {**(meta if isinstance(meta, dict) else {}), OURS: {"tools": True}}}


def declared_tools(offers: Json) -> list[Json]:
    """The tools that an agent names in its capabilities."""
    tools = _ours(offers).get("tools")
    return tools if isinstance(tools, list) else []


def _ours(offers: Json) -> Document:
    meta = offers.get("_meta") if isinstance(offers, dict) else None
    ours = meta.get(OURS) if isinstance(meta, dict) else None
    return ours if isinstance(ours, dict) else {}


def without_declared(offers: Document) -> Document:
    """Capabilities without what a dialect has a place of its own for."""
    meta = offers.get("_meta")
    if not isinstance(meta, dict) or OURS not in meta:
        return offers
    rest = {name: member for name, member in meta.items() if name != OURS}
    said = {name: member for name, member in offers.items() if name != "_meta"}
    return {**said, "_meta": rest} if rest else said
