"""Capabilities of D0: one for each terminal method; transports and modes are lists."""

from typing import TYPE_CHECKING

from ...foundation.documents import Document, Json, document, documents
from ..declared import declared, without_declared
from ..engine.shapes import Fields, Items, ValuePair, carried, carry
from ..engine.translator import Translator

if TYPE_CHECKING:
    from .translator import Pharo

TERMINAL_METHODS = ("create", "output", "waitForExit", "kill", "release")


def _offers_inward(offers: Json, t: Translator) -> Json:
    if not isinstance(offers, dict) or not isinstance(flags := offers.get("terminal"), dict):
        return offers
    is_able = all(flags.get(name) is True for name in TERMINAL_METHODS)
    said = {**offers, "terminal": is_able}
    return said if flags == _flags(is_able) else carry(said, {"terminal": flags}, t)


def _offers_outward(said: Json, t: Translator) -> Json:
    offers, kept = carried(document(said), t)
    if "terminal" not in offers:
        return offers
    return {**offers, "terminal": kept.get("terminal") or _flags(offers["terminal"] is True)}


def _flags(value: bool) -> dict[str, bool]:
    return dict.fromkeys(TERMINAL_METHODS, value)


def _transports_inward(value: Json, t: Translator) -> Json:
    if not isinstance(value, dict) or not isinstance(names := value.get("supportedTransports"), list):
        return value
    said = {**value, **{name: name in names for name in ("http", "sse")}}
    if "acp" in names:
        said["acp"] = True
    del said["supportedTransports"]
    return said if names == _transports(said) else carry(said, {"supportedTransports": names}, t)


def _transports_outward(offers: Json, t: Translator) -> Json:
    value, kept = carried(document(offers), t)
    rest = {name: member for name, member in value.items() if name not in ("http", "sse", "acp")}
    return {**rest, "supportedTransports": kept.get("supportedTransports") or _transports(value)}


def _transports(value: Document) -> list[str]:
    return ["stdio", *(name for name in ("http", "sse", "acp") if value.get(name))]


def _session_modes_inward(offers: Json, t: "Pharo") -> Json:
    if isinstance(offers, dict) and isinstance(modes := offers.get("sessionModes"), list):
        t.modes = documents(MODES.inward(modes, t))
    return AGENT_OFFERS.inward(offers, t)


MODES = Items(Fields({"modeId": "id", "title": "name"}))
AGENT_OFFERS = Fields(
    shapes={"mcpCapabilities": ValuePair(_transports_inward, _transports_outward)},
    carried=["sessionModes"],
    said={"sessionModes": lambda offers, t: MODES.outward(declared(offers)[0], t)},
)


def _session_modes_outward(offers: Json, t: Translator) -> Json:
    said = AGENT_OFFERS.outward(offers, t)
    return without_declared(said) if isinstance(said, dict) else said


INFO = Fields(lost={"title": "implementation title"})
GREETING = Fields(shapes={"clientCapabilities": ValuePair(_offers_inward, _offers_outward), "clientInfo": INFO})
WELCOME = Fields(
    {"authenticationMethods": "authMethods"},
    {
        "agentCapabilities": ValuePair(_session_modes_inward, _session_modes_outward),
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
