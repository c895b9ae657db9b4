"""Which dialect a peer speaks, told from its `initialize` message alone."""

from typing import Any

from .translator import Message, Peer


def detect(message: Message, peer: Peer) -> str | None:
    """The dialect of a client's `initialize` request, or of an agent's answer to one; None for version 1."""
    if peer == "client":
        return _of_client(_object(message.get("params")))
    return _of_agent(_object(message.get("result")))


def _of_client(params: dict[str, Any]) -> str | None:
    if "capabilities" in params and "clientCapabilities" not in params and params.get("protocolVersion") == 1:
        return "draft"
    if isinstance(_object(params.get("clientCapabilities")).get("terminal"), dict):
        return "pharo"
    return None


def _of_agent(result: dict[str, Any]) -> str | None:
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


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
