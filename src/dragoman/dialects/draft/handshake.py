"""Capabilities of D3.  They are carried whole, since version 1 has no fields for much of them."""

from typing import TYPE_CHECKING

from ...foundation.documents import Document, Json, document, elements, members
from ..declared import declared, without_declared
from ..engine.flows import Fault
from ..engine.shapes import Pair, carried, carry
from ..engine.translator import Translator
from .lending import lent_methods
from .sessions import APPROVAL, DEFAULT

if TYPE_CHECKING:
    from .translator import Draft


def _greeting_inward(params: Document, t: "Draft") -> Json:
    # a client that does not know its agent's dialect yet sends the `initialize` of version 1
    if "capabilities" not in params:
        return params
    offers = document(params["capabilities"])
    most = document(offers.get("terminal") or {}).get("maxConcurrent")
    t.most_terminals = most if isinstance(most, int) else None
    rest = {name: member for name, member in params.items() if name != "capabilities"}
    said = {**rest, "clientCapabilities": _client_offers(offers)}
    return carry(said, {"capabilities": offers}, t)


def _client_offers(offers: Document) -> Document:
    files, terminal = document(offers.get("fs") or {}), document(offers.get("terminal") or {})
    return {
        "fs": {"readTextFile": files.get("read") is True, "writeTextFile": files.get("write") is True},
        "terminal": terminal.get("create") is True,
        **_custom_inward(offers),
    }


def _custom_inward(offers: Document) -> Document:
    """Capabilities of a peer that no specification names."""
    return {"_meta": offers["_custom"]} if isinstance(offers.get("_custom"), dict) else {}


def _custom_outward(offers: Document) -> Document:
    return {"_custom": offers["_meta"]} if offers.get("_meta") else {}


def _greeting_outward(params: Document, t: "Draft") -> Json:
    params, kept = carried(params, t)
    offers = document(params.get("clientCapabilities") or {})
    files = document(offers.get("fs") or {})
    said = {name: member for name, member in params.items() if name != "clientCapabilities"}
    if "capabilities" not in kept:
        if _others(offers, "fs", "terminal", "_meta") or _others(files, "readTextFile", "writeTextFile"):
            t.lose("client capabilities")
        kept["capabilities"] = {
            "fs": {
                "read": files.get("readTextFile") is True,
                "write": files.get("writeTextFile") is True,
                "watch": "_dragoman/fs/watch" in lent_methods(offers),
            },
            "terminal": {"create": offers.get("terminal") is True, "interactive": False},
            "ui": {"permissionDialogs": True, "diffViewer": True, "codeNavigation": True},
            **_custom_outward(offers),
        }
    t.offered = members(kept["capabilities"])
    return {"clientInfo": {"name": "unknown", "version": "0"}, **said, **kept}


def _others(offers: Document, *known: str) -> bool:
    """Whether a peer offers more than the known capabilities."""
    return any(offer for name, offer in offers.items() if name not in known)


def _welcome_inward(result: Document, t: "Draft") -> Json:
    if "capabilities" not in result:
        return result
    _must_offer(t.offered, members(result.get("requiredClientCapabilities")))
    offers = document(result["capabilities"])
    servers, prompts = (
        document(offers.get("mcpCapabilities") or {}),
        document(offers.get("promptCapabilities") or {}),
    )
    transports, attachments = elements(servers.get("transport") or []), prompts.get("attachments") is True
    modes = document(offers.get("sessionCapabilities") or {}).get("modes")
    t.modes = [str(mode) for mode in elements(modes or [])]
    kept: Document = {
        name: result[name] for name in ("capabilities", "requiredClientCapabilities") if name in result
    }
    said = {name: member for name, member in result.items() if name not in kept}
    said["agentCapabilities"] = {
        "loadSession": offers.get("loadSession") is True,
        "mcpCapabilities": {name: name in transports for name in ("http", "sse", "acp")},
        "promptCapabilities": {"image": attachments, "audio": attachments, "embeddedContext": attachments},
        **_custom_inward(offers),
    }
    return carry(said, kept, t)


def _welcome_outward(result: Document, t: Translator) -> Json:
    result, kept = carried(result, t)
    offers = document(result.get("agentCapabilities") or {})
    said = {name: member for name, member in result.items() if name not in ("agentCapabilities", "authMethods")}
    if result.get("authMethods"):
        t.lose("auth methods")
    if "capabilities" not in kept:
        kept["capabilities"] = _agent_offers(offers, t)
    return {"agentInfo": {"name": "unknown", "version": "0"}, **said, **kept}


def _agent_offers(offers: Document, t: Translator) -> Document:
    modes, options = declared(offers)
    offers = without_declared(offers)
    prompts, servers = (
        document(offers.get("promptCapabilities") or {}),
        document(offers.get("mcpCapabilities") or {}),
    )
    kinds = [prompts.get(name) is True for name in ("image", "audio", "embeddedContext")]
    if any(kinds) and not all(kinds):
        t.lose("content types")
    known = ("loadSession", "promptCapabilities", "mcpCapabilities", "_meta")
    inner = (_others(prompts, "image", "audio", "embeddedContext"), _others(servers, "http", "sse", "acp"))
    if _others(offers, *known) or any(inner):
        t.lose("agent capabilities")
    transports: list[Json] = ["stdio", *(name for name in ("http", "sse", "acp") if servers.get(name))]
    loads = offers.get("loadSession") is True
    return {
        "loadSession": loads,
        "mcpCapabilities": {"servers": True, "transport": transports},
        "promptCapabilities": {"streaming": True, "cancellation": True, "attachments": any(kinds)},
        "sessionCapabilities": {
            "modes": [mode["id"] for mode in modes] or [DEFAULT],
            "configOptions": [*options, APPROVAL],
            "persistence": loads,
        },
        **_custom_outward(offers),
    }


def _must_offer(offered: Document, required: Document) -> None:
    """Refuse an agent that requires client capabilities that this client does not offer."""
    lacking = [name for name, wanted in _flags(required) if wanted and not dict(_flags(offered)).get(name)]
    if lacking:
        raise Fault(
            -32601,
            f"the agent requires capabilities that the client does not offer: {', '.join(lacking)}",
            {"kind": "capability_not_supported"},
        )


def _flags(offers: Json, above: str = "") -> list[tuple[str, Json]]:
    found: list[tuple[str, Json]] = []
    for name, member in offers.items() if isinstance(offers, dict) else ():
        found += _flags(member, f"{above}{name}.") if isinstance(member, dict) else [(above + name, member)]
    return found


GREETING = Pair(_greeting_inward, _greeting_outward)
WELCOME = Pair(_welcome_inward, _welcome_outward)
