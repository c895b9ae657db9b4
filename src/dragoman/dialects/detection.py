"""Which dialect a peer speaks, told from its `initialize` message alone."""

from ..foundation.documents import Document, Json
from .engine.flows import Message
from .engine.translator import Peer
from .pharo.handshake import TERMINAL_METHODS
from .v2.handshake import is_version_2_answer

# An agent that speaks only version 2 answers an `initialize` of version 1 with one of these: unsupported protocol
# version, invalid request, invalid params.
REFUSED = (-32022, -32600, -32602)
MARKS = 2  # features of a dialect that a client must show: a single one may be a mistake of a client of version 1


def detect(message: Message, peer: Peer) -> str | None:
    """The dialect of a client's `initialize` request, or of an agent's answer to one; None for version 1."""
    if peer == "client":
        return _of_client(_object(message.get("params")))
    if _object(message.get("error")).get("code") in REFUSED:
        return "v2"
    return _of_agent(_object(message.get("result")))


def _of_client(params: Document) -> str | None:
    if _is_later(params) and not {"clientCapabilities", "clientInfo"} & set(params):
        return "v2"
    if "capabilities" in params and "clientCapabilities" not in params and params.get("protocolVersion") == 1:
        return "draft"
    terminal = _object(_object(params.get("clientCapabilities")).get("terminal"))
    if sum(isinstance(terminal.get(name), bool) for name in TERMINAL_METHODS) >= MARKS:
        return "pharo"
    return "pharo" if _is_pharo_itself(params) else None


def _is_pharo_itself(params: Document) -> bool:
    """Whether this is the client that the Pharo specification describes; without terminals only its name tells."""
    info, offers = _object(params.get("clientInfo")), params.get("clientCapabilities")
    is_named = str(info.get("name", "")).startswith("Pharo") and set(info) == {"name", "version"}
    return is_named and isinstance(offers, dict) and set(offers) <= {"fs"}


def _of_agent(result: Document) -> str | None:
    if is_version_2_answer(result):
        return "v2"
    offers = _object(result.get("agentCapabilities"))
    if (
        "authenticationMethods" in result
        or "sessionModes" in offers
        or "supportedTransports" in _object(offers.get("mcpCapabilities"))
    ):
        return "pharo"
    if "serverInfo" in result or "tools" in _object(result.get("capabilities")):
        return "jetbrains"
    if "capabilities" in result and "info" not in result:
        return "draft"
    return None


def _is_later(message: Document) -> bool:
    version = message.get("protocolVersion")
    return isinstance(version, int | float) and version >= 2


def _object(value: Json) -> Document:
    return value if isinstance(value, dict) else {}
