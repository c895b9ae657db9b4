"""Who the user is to the agent: `auth/login` and `auth/logout`, both there whenever a method is offered."""

from collections.abc import Sequence

from ..auth import AuthMethodId
from ..base import Model, Nullable, Raw
from ..terminals import EnvVariable


class AuthMethodAgent(Model, tag_field="type", tag="agent", kw_only=True):
    """The agent sees to the login itself when asked with `auth/login`."""

    method_id: AuthMethodId
    name: str
    description: str | None = None


class AuthMethodTerminal(Model, tag_field="type", tag="terminal", kw_only=True):
    """The client runs the agent's own program with these arguments in a terminal for the user to log in."""

    method_id: AuthMethodId
    name: str
    description: str | None = None
    args: Nullable[Sequence[str]] = []
    env: Nullable[Sequence[EnvVariable]] = []


AuthMethod = AuthMethodTerminal | AuthMethodAgent | Raw


class LoginAuthRequest(Model, kw_only=True):
    """Logs in with one of the methods the agent listed."""

    method_id: AuthMethodId


class LoginAuthResponse(Model):
    """An empty response: it is done."""


class LogoutAuthRequest(Model):
    """Ends the login."""


class LogoutAuthResponse(Model):
    """An empty response: it is done."""
