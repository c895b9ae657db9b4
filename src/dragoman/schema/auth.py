"""Who the user is to the agent: login, logout, status."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from .base import Model, Nullable, Shape

AuthMethodId = str
AuthState = Literal["authenticated", "unauthenticated", "not_required", "unknown"] | str


class AuthMethodAgent(Model, kw_only=True):
    """The agent sees to the login itself when asked to `authenticate`."""

    id: AuthMethodId
    name: str
    description: str | None = None


class AuthMethodTerminal(Model, tag_field="type", tag="terminal", kw_only=True):
    """The client runs the agent's own program with these arguments in a terminal for the user to log in."""

    id: AuthMethodId
    name: str
    description: str | None = None
    args: Nullable[Sequence[str]] = []
    env: Nullable[Mapping[str, str]] = {}


if TYPE_CHECKING:
    AuthMethod = AuthMethodTerminal | AuthMethodAgent
else:

    class AuthMethod(Shape, tag="type", tagged=(AuthMethodTerminal,), bare=AuthMethodAgent):
        """The agent's way has no tag, and a tag nobody knows means it too."""


class AuthenticateRequest(Model, kw_only=True):
    """Logs in with one of the methods the agent listed."""

    method_id: AuthMethodId


class AuthenticateResponse(Model):
    """An empty response: it is done."""


class LogoutRequest(Model):
    """Ends the login."""


class LogoutResponse(Model):
    """An empty response: it is done."""


class AuthAccount(Model, kw_only=True):
    """An account to show to the user; never one to log."""

    label: str
    active: bool | None = None
    name: str | None = None
    email: str | None = None
    organization: str | None = None


class AuthStatusRequest(Model):
    """Asks whether the user is logged in."""


class AuthStatusResponse(Model, kw_only=True):
    """Whether the user is logged in, and the accounts."""

    state: AuthState
    accounts: Sequence[AuthAccount] = []


class AuthStatusUpdateNotification(Model, kw_only=True):
    """The status changed; carries all of it."""

    state: AuthState
    accounts: Sequence[AuthAccount] = []
