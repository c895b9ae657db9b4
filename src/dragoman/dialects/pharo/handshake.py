"""Capabilities of D0: terminals by the method, transports and modes as lists."""

from typing import Any

from ..declared import declared, without_declared
from ..engine.shapes import Fields, Items, Pair, carried, carry

TERMINAL_METHODS = ("create", "output", "waitForExit", "kill", "release")


def _offers_inward(offers: Any, t: Any) -> Any:
    flags = offers.get("terminal") if isinstance(offers, dict) else None
    if not isinstance(flags, dict):
        return offers
    said = {**offers, "terminal": all(flags.get(name) is True for name in TERMINAL_METHODS)}
    return said if flags == _flags(said["terminal"]) else carry(said, {"terminal": flags}, t)


def _offers_outward(offers: Any, t: Any) -> Any:
    offers, kept = carried(offers, t)
    if "terminal" not in offers:
        return offers
    return {**offers, "terminal": kept.get("terminal") or _flags(offers["terminal"] is True)}


def _flags(value: bool) -> dict[str, bool]:
    return dict.fromkeys(TERMINAL_METHODS, value)


def _transports_inward(value: Any, t: Any) -> Any:
    names = value.get("supportedTransports") if isinstance(value, dict) else None
    if not isinstance(names, list):
        return value
    said = {**value, **{name: name in names for name in ("http", "sse")}}
    if "acp" in names:
        said["acp"] = True
    del said["supportedTransports"]
    return said if names == _transports(said) else carry(said, {"supportedTransports": names}, t)


def _transports_outward(value: Any, t: Any) -> Any:
    value, kept = carried(value, t)
    rest = {name: member for name, member in value.items() if name not in ("http", "sse", "acp")}
    return {**rest, "supportedTransports": kept.get("supportedTransports") or _transports(value)}


def _transports(value: dict[str, Any]) -> list[str]:
    return ["stdio", *(name for name in ("http", "sse", "acp") if value.get(name))]


def _session_modes_inward(offers: Any, t: Any) -> Any:
    if isinstance(offers, dict) and isinstance(offers.get("sessionModes"), list):
        t.modes = MODES.inward(offers["sessionModes"], t)
    return AGENT_OFFERS.inward(offers, t)


MODES = Items(Fields({"modeId": "id", "title": "name"}))
AGENT_OFFERS = Fields(
    shapes={"mcpCapabilities": Pair(_transports_inward, _transports_outward)},
    carried=["sessionModes"],
    said={"sessionModes": lambda offers, t: MODES.outward(declared(offers)[0], t)},
)


def _session_modes_outward(offers: Any, t: Any) -> Any:
    said = AGENT_OFFERS.outward(offers, t)
    return without_declared(said) if isinstance(said, dict) else said


INFO = Fields(lost={"title": "implementation title"})
GREETING = Fields(shapes={"clientCapabilities": Pair(_offers_inward, _offers_outward), "clientInfo": INFO})
WELCOME = Fields(
    {"authenticationMethods": "authMethods"},
    {
        "agentCapabilities": Pair(_session_modes_inward, _session_modes_outward),
        "agentInfo": INFO,
        "authMethods": Items(
            Fields(
                {"methodId": "id", "title": "name"},
                lost={"type": "auth method type", "args": "auth method type", "env": "auth method type"},
            )
        ),
    },
    said={"authenticationMethods": lambda result, t: []},
)
