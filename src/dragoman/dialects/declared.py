"""The modes and config options that an agent of ours names when it greets.

Version 1 names them when a session is opened.  Some dialects name them before, so our agents say them in the
`_meta` of their capabilities as well.
"""

from typing import Any

OURS = "dragoman"  # the member of `_meta`


def declared(offers: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The modes, as version 1 has them, and the ids of the config options."""
    meta = offers.get("_meta") if isinstance(offers, dict) else None
    ours = meta.get(OURS) if isinstance(meta, dict) else None
    if not isinstance(ours, dict):
        return [], []
    modes, options = ours.get("modes"), ours.get("configOptions")
    return (
        [mode for mode in modes if isinstance(mode, dict) and "id" in mode] if isinstance(modes, list) else [],
        [option for option in options if isinstance(option, str)] if isinstance(options, list) else [],
    )


def without_declared(offers: dict[str, Any]) -> dict[str, Any]:
    """Capabilities without what a dialect has a place of its own for."""
    meta = offers.get("_meta")
    if not isinstance(meta, dict) or OURS not in meta:
        return offers
    rest = {name: member for name, member in meta.items() if name != OURS}
    said = {name: member for name, member in offers.items() if name != "_meta"}
    return {**said, "_meta": rest} if rest else said
