"""The stored facts of a session besides its log."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ...errors import InvalidParams
from ..access.introductions import BARE, Introduction
from ..access.principals import PrincipalName
from ..access.roles import Role
from .records import meta_value

MEMBER = "seat"  # the kind of fact that says who has a part in which session, as logs have it since the first
MAX_STATED = 192 * 1024  # bytes of what a session is opened with, and of the modes and options its agent names
DETACHED = "dragoman.detached"  # of session/new: what becomes of prompts while nobody is there


class Detached(Struct, frozen=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """What becomes of a session's prompts while nobody is at it: by default they go on."""

    cancel_after: float | None = None  # seconds
    unless_asking: bool = False  # not while a question waits for somebody to come

    def asked_for(self, found: dict[str, Raw]) -> "Detached":
        """This, or what the client that opens a session wants instead."""
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
    opening: Raw  # what it was opened with, to be opened again
    state: Raw = Raw(b"{}")  # what the agent answered: modes, options
    upstream: str = ""  # what the agent calls it
    created: float = 0.0
    updated: float = 0.0
    title: str | None = None
    roles: dict[str, Role] = {}  # of others than the owner
    detached: Detached = Detached()
    bytes: int = 0  # of its log
    introduction: Introduction = BARE  # what its agent was told of its clients
    archived: bool = False

    def role_of(self, principal: str) -> Role | None:
        return "admin" if principal == self.principal else self.roles.get(principal)


class ListedSession(Struct):
    """As much of the facts as a list of sessions shows."""

    agent: str
    principal: str
    cwd: str
    updated: float = 0.0
    title: str | None = None
    archived: bool = False
    opening: Raw = Raw(b"{}")
