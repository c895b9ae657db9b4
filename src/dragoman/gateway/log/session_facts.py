"""The stored facts of a session besides its log."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ...errors import InvalidParams
from ..access.introductions import BARE, Introduction
from ..access.principals import PrincipalName
from ..access.roles import Role
from .records import meta_value

MEMBER = "seat"  # the kind of fact for roles in sessions; the name is fixed by existing logs
MAX_STATED = 192 * 1024  # bytes of the params that open a session, and of its agent's modes and options
DETACHED = "dragoman.detached"  # of session/new: what happens to prompts while no client is connected


class Detached(Struct, frozen=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """The fate of a session's prompts while no client is connected: by default they continue."""

    cancel_after: float | None = None  # seconds
    unless_asking: bool = False  # but not while a question waits for a client

    def asked_for(self, found: dict[str, Raw]) -> "Detached":
        """This policy, changed by the params of the client that opens a session."""
        asked: Any = meta_value(found, DETACHED)
        if asked is None:
            return self
        try:
            return msgspec.convert(asked, Detached)
        except msgspec.ValidationError as exc:
            raise InvalidParams(f"{DETACHED}: {exc}") from None


class SessionFacts(Struct, omit_defaults=True):
    """Stored facts about a session: owner, directory, agent, last known state."""

    agent: str
    principal: PrincipalName
    cwd: str
    opening: Raw  # the params for opening it again
    state: Raw = Raw(b"{}")  # the agent's answer: modes, options
    upstream: str = ""  # the agent's id of the session
    created: float = 0.0
    updated: float = 0.0
    title: str | None = None
    roles: dict[str, Role] = {}  # roles of principals other than the owner
    detached: Detached = Detached()
    bytes: int = 0  # of its log
    introduction: Introduction = BARE  # the introduction that its agent got
    archived: bool = False

    def role_of(self, principal: str) -> Role | None:
        return "admin" if principal == self.principal else self.roles.get(principal)


class ListedSession(Struct):
    """The part of the facts that a list of sessions shows."""

    agent: str
    principal: str
    cwd: str
    updated: float = 0.0
    title: str | None = None
    archived: bool = False
    opening: Raw = Raw(b"{}")
