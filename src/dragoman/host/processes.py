"""Which agent to start, and how: by command, by name, or from a launch configuration.

Names come from `agents.toml`: the known agents shipped as data, and the user's own file over them.  A launch
configuration is what other ACP documents write: `{"transport": "stdio", "command": …, "args": […], "env": {…}}`, or
`{"transport": "http"|"websocket"|"sse", "url": …, "headers": {…}}`.

An agent that dies is not started again by itself: what it was doing may be half done.  `Host.ended` says when that
is, and `start` starts it again, with the same host if that is wanted.
"""

import os
import shlex
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..directories import config_directory
from ..errors import AgentStartError
from ..schema.base import Bare

if TYPE_CHECKING:
    from ..client import Client

TransportName = Literal["stdio", "http", "websocket", "sse"]


class Launch(Bare, kw_only=True):
    """How to reach an agent: a program to start, or an address."""

    command: str = ""
    args: Sequence[str] = []
    env: Mapping[str, str] = {}
    url: str = ""
    headers: Mapping[str, str] = {}
    transport: TransportName | None = None
    name: str = ""
    title: str = ""
    install: str = ""

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("needs either a command or a url")
        remote = self.transport in ("http", "websocket", "sse")
        if self.transport and remote != bool(self.url):
            raise ValueError(f"transport {self.transport!r} needs a {'url' if remote else 'command'}")

    @property
    def argv(self) -> list[str]:
        """The program as it will be started."""
        if self.command == "dragoman":  # ours: this very installation, wherever it is
            return [sys.executable, "-m", "dragoman", *self.args]
        return [self.command, *self.args]

    @property
    def is_installed(self) -> bool:
        """Whether the program can be found; an address always counts."""
        return bool(self.url) or shutil.which(self.argv[0]) is not None

    @property
    def environment(self) -> dict[str, str]:
        """What the agent's process gets: ours, since it is the user's own program, and its own settings."""
        return {**os.environ, **self.env}

    def described(self) -> str:
        """Where it leads, in one line."""
        return self.url or shlex.join([self.command, *self.args])


def known_agents(user_file: Path | None = None) -> dict[str, Launch]:
    """All agents that have a name, the user's own winning over those shipped."""
    shipped = Path(__file__).with_name("agents.toml")
    own = user_file or config_directory() / "agents.toml"
    return {**_read(shipped), **(_read(own) if own.exists() else {})}


def find_agent(wanted: str, user_file: Path | None = None) -> Launch:
    """An agent by its name, its address, or the command that starts it."""
    agents = known_agents(user_file)
    if wanted in agents:
        return agents[wanted]
    if "://" in wanted.partition(" ")[0]:
        return Launch(url=wanted, title=wanted)
    try:
        argv = shlex.split(wanted)
    except ValueError as exc:
        raise AgentStartError(f"cannot read the command {wanted!r}: {exc}") from None
    if not argv or not argv[0]:
        raise AgentStartError("no agent was named; see dragoman agents list")
    return Launch(command=argv[0], args=argv[1:], title=wanted)


def start(
    agent: str | Launch | Mapping[str, Any],
    client: "Client | None" = None,
    *,
    cwd: str | os.PathLike[str] | None = None,
) -> "AbstractAsyncContextManager[Client]":
    """Reach an agent by its name, its command or its launch configuration, and shake hands, as `connect` does."""
    if isinstance(agent, Mapping):
        agent = launch_from(agent)
    launch = find_agent(agent) if isinstance(agent, str) else agent
    from ..connecting import connect  # which names of agents can do without

    if launch.url:
        return connect(launch.url, client, headers=launch.headers)
    return connect(launch.argv, client, cwd=cwd, env=launch.environment)


def launch_from(config: Mapping[str, Any], name: str = "") -> Launch:
    """A launch configuration as a Launch; raises AgentStartError naming what is wrong with it."""
    try:
        return msgspec.convert({"name": name, "title": name, **config}, Launch)
    except msgspec.ValidationError as exc:
        raise AgentStartError(f"agent {name!r}: {exc}" if name else f"not a launch configuration: {exc}") from None


def _read(file: Path) -> dict[str, Launch]:
    try:
        table = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise AgentStartError(f"cannot read {file}: {exc}") from None
    agents = {}
    for name, config in table.items():
        if not isinstance(config, dict):
            raise AgentStartError(f"{file}: {name} must be a table, like [{name}] with a command")
        try:
            agents[name] = launch_from(config, name)
        except AgentStartError as exc:
            raise AgentStartError(f"{file}: {exc}") from None
    return agents
