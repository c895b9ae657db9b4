"""The agent's process that a connection has: told what its client said, and asked what is about no session."""

from typing import Any

from msgspec import Raw

from .. import __version__
from .. import schema as s
from ..connection import Connection
from ..errors import RpcError
from .gateway import Gateway
from .introductions import BARE, Introduction
from .logins import MAX_FAILURES
from .principals import PrincipalName
from .records import changed, optional
from .upstream import Upstream

OURS: dict[str, Any] = {"list": {}, "resume": {}, "close": {}, "delete": {}}
NOT_THROUGH_US = ("nes",)  # which has sessions of its own


class OwnAgent:
    """Whichever process that is at the moment; `leave` it when the client is gone."""

    def __init__(self, gateway: Gateway, agent: str, principal: PrincipalName, connection: Connection) -> None:
        self._gateway, self._agent, self._principal = gateway, agent, principal
        self._connection = connection
        self._introduction: Introduction = BARE
        self._upstream: Upstream | None = None
        self._failures = 0  # to log in

    @property
    def offers(self) -> s.AgentCapabilities:
        return self._upstream.offers if self._upstream else s.AgentCapabilities()

    async def greet(self, introduction: Introduction) -> Raw:
        """The agent's answer to `initialize`, with what the gateway adds to its capabilities."""
        self._introduction = introduction
        upstream = await self._gateway.processes.any(self._agent, self._principal, introduction)
        self._listen_to(upstream)
        capabilities = _ours_too(optional(upstream.greeting, "agentCapabilities"))
        return changed(upstream.greeting, agentCapabilities=capabilities)

    async def ask(self, name: str, params: Raw) -> Raw:
        """Pass on a request that is about no session."""
        upstream = await self._gateway.processes.get(self._agent, self._principal, self._introduction)
        self._listen_to(upstream)
        return await upstream.call(name, params)

    def tell(self, name: str, params: Raw) -> None:
        """Pass on a notification that is about no session, if the agent runs."""
        if self._upstream and self._upstream.is_alive:
            self._upstream.note(name, params)

    async def log_in(self, params: Raw) -> Raw:
        """Pass a login on; who fails too often is sent away."""
        try:
            result = await self.ask("authenticate", params)
        except RpcError:
            self._failures += 1
            if self._failures >= MAX_FAILURES:
                self._connection.after_answer(self._connection.hang_up)
            raise
        self._gateway.logins.note(self._agent, self._principal, result)
        self._failures = 0
        return result

    async def log_out(self, params: Raw) -> Raw:
        result = await self.ask("logout", params)
        self._gateway.logins.forget(self._agent, self._principal)
        return result

    def leave(self) -> None:
        """Hear no more of it."""
        if self._upstream:
            self._upstream.audience.leave(self._connection)

    def _listen_to(self, upstream: Upstream) -> None:
        if self._upstream is not upstream:
            self.leave()
            self._upstream = upstream
            upstream.audience.join(self._connection)


def _ours_too(found: dict[str, Raw]) -> Raw:
    """An agent's capabilities as a client sees them: with what the gateway adds, without what it keeps back."""
    servers = {name: value for name, value in optional(found, "mcpCapabilities").items() if name != "acp"}
    kept = {name: value for name, value in found.items() if name not in NOT_THROUGH_US}
    return changed(
        kept,
        {"dragoman": {"gateway": __version__, "attach": {}}},
        loadSession=True,
        mcpCapabilities=servers,
        sessionCapabilities={**optional(found, "sessionCapabilities"), **OURS},
    )
