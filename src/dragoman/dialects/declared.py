"""The modes, config options and tools that our agents declare in the answer to `initialize`.

Version 1 lists modes and options when a session is opened, and has no list of tools.  Some dialects list them
earlier, so our agents declare them in the `_meta` of their capabilities.  The list of tools is long, so a client
has to request it.
"""

from ..foundation.documents import Document, Json

OURS = "dragoman"  # the member of `_meta`


def declared(offers: Json) -> tuple[list[Document], list[str]]:
    """The member of `_meta` that declares the modes, in version 1's form, and the ids of the config options."""
    ours = _ours(offers)
    modes, options = ours.get("modes"), ours.get("configOptions")
    return (
        [mode for mode in modes if isinstance(mode, dict) and "id" in mode] if isinstance(modes, list) else [],
        [option for option in options if isinstance(option, str)] if isinstance(options, list) else [],
    )


def wants_tools(meta: Json) -> bool:
    """Whether a client requests the list of tools, in the `_meta` of its capabilities."""
    return _ours({"_meta": meta}).get("tools") is True


def wanting_tools(offers: Document) -> Document:
    """Client capabilities that request the list of tools."""
    meta = offers.get("_meta")
    return {**offers, "_meta": {**(meta if isinstance(meta, dict) else {}), OURS: {"tools": True}}}


def declared_tools(offers: Json) -> list[Json]:
    """The tools that an agent declares in its capabilities."""
    tools = _ours(offers).get("tools")
    return tools if isinstance(tools, list) else []


def _ours(offers: Json) -> Document:
    meta = offers.get("_meta") if isinstance(offers, dict) else None
    ours = meta.get(OURS) if isinstance(meta, dict) else None
    return ours if isinstance(ours, dict) else {}


def without_declared(offers: Document) -> Document:
    """Capabilities without the declarations, for dialects that have fields of their own for them."""
    meta = offers.get("_meta")
    if not isinstance(meta, dict) or OURS not in meta:
        return offers
    rest = {name: member for name, member in meta.items() if name != OURS}
    said = {name: member for name, member in offers.items() if name != "_meta"}
    return {**said, "_meta": rest} if rest else said
