"""Apps give every client an agent of its own: an agent class, or a function that takes the client."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from ..connection.remotes import RemoteClient
from ..definitions import check_makes
from ..errors import brief
from ..roles import AgentRole, ClientRole

App = Callable[[RemoteClient], AbstractAsyncContextManager[AgentRole]]


def check_app(app: object, caller: str, takes: str = "an agent class") -> None:
    """Raise TypeError unless something may be an agent's class, or a function that makes an agent."""
    if isinstance(app, AgentRole):
        name = type(app).__name__
        raise TypeError(f"{caller} takes {takes}, and not an agent object: write {caller}({name})")
    if isinstance(app, type) and issubclass(app, ClientRole):
        name = app.__name__
        if issubclass(app, AgentRole):
            raise TypeError(f"{caller} takes {takes}, and not the proxy class {name} alone: compose({name}, agent)")
        raise TypeError(f"{caller} takes {takes}, and not the client class {name}")
    if not callable(app):
        raise TypeError(f"{caller} takes {takes}, and not {brief(repr(app))}")


def made_by(app: App, client: RemoteClient) -> AbstractAsyncContextManager[AgentRole]:
    """The agent that an app gives a client; raises TypeError where the app returns something else."""
    check_makes(app, client)
    made = app(client)
    if not hasattr(made, "__aenter__"):
        raise TypeError(f"{getattr(app, '__qualname__', app)} must give an agent, and not {brief(repr(made))}")
    return made


def entered(agent: AgentRole) -> AgentRole:
    """The agent that `__aenter__` returns; raises TypeError where it returns something else."""
    if not isinstance(agent, AgentRole):
        raise TypeError(f"__aenter__ must return the agent (`return self`), and not {brief(repr(agent))}")
    return agent
