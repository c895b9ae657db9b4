"""A client's `initialize`, and the part of it that an agent gets.

An agent gets one client's params, with the host's files and terminals in place of the client's if the host lends
them.  Clients with the same params share an agent's process.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from ... import codec
from ... import schema as s
from ...agent.agent import PROTOCOL_VERSION
from ...foundation.documents import Document
from ..log.records import raw

OURS = "dragoman"
METHODS = "methods"  # the prefix of our own extensions, which the lender of a workspace may answer

_sorted = msgspec.json.Encoder(order="sorted").encode


class Introduction(Struct, frozen=True):
    """The introduction of clients with equal `params` of `initialize`, in a normalised form."""

    params: str

    @property
    def offers(self) -> s.ClientCapabilities:
        asked: s.InitializeRequest = codec.decode(self.params.encode(), s.InitializeRequest)
        return asked.client_capabilities

    def told(self, lent: s.ClientCapabilities | None) -> Raw:
        """The `initialize` for an agent; `lent` is the host's offer, None if the client lends."""
        if lent is None:
            return Raw(self.params.encode())
        said = msgspec.json.decode(self.params)
        capabilities = said.setdefault("clientCapabilities", {})
        host = msgspec.to_builtins(lent)
        for name in ("fs", "terminal"):
            capabilities.pop(name, None)
            capabilities |= {name: host[name]} if name in host else {}
        if ours := (lent.meta or {}).get(OURS):
            capabilities["_meta"] = {**(capabilities.get("_meta") or {}), OURS: ours}
        return raw(said)


# For sessions that are older than introductions.
BARE = Introduction(_sorted({"protocolVersion": PROTOCOL_VERSION}).decode())


def introduced(params: Raw) -> tuple[Introduction, s.ClientCapabilities]:
    """Read `initialize`: the introduction for agents, and the client's capabilities."""
    asked = codec.decode(params, s.InitializeRequest)
    said = msgspec.json.decode(params)
    said["protocolVersion"] = PROTOCOL_VERSION
    said.pop("_meta", None)  # it concerns one request
    if isinstance(capabilities := said.get("clientCapabilities"), dict):
        _without_ours(capabilities)
    return Introduction(_sorted(said).decode()), asked.client_capabilities


def _without_ours(capabilities: Document) -> None:
    """Remove members that are for the gateway only, such as the client's name."""
    meta = capabilities.get("_meta")
    if not isinstance(meta, dict) or OURS not in meta:
        return
    methods = _methods(meta.pop(OURS))
    if methods:
        meta[OURS] = {METHODS: methods}
    if not meta:
        del capabilities["_meta"]


def _methods(ours: object) -> list[object]:
    named = ours.get(METHODS) if isinstance(ours, Mapping) else None
    return named if isinstance(named, list) else []


def lends(offers: s.ClientCapabilities, method: str) -> bool:
    """Whether a client with these capabilities answers a request for its files or terminals."""
    if method.startswith("_"):
        return method in _methods((offers.meta or {}).get(OURS))
    if method.startswith("terminal/"):
        return offers.terminal
    return offers.fs.read_text_file if method == "fs/read_text_file" else offers.fs.write_text_file
