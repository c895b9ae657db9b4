"""Finds the agent to start: by command, by name, or from a launch configuration.

Names come from `agents.toml`: the known agents, shipped as data, and the user's own file, which overrides them.  A
launch configuration has the form of other ACP documents: `{"transport": "stdio", "command": …, "args": […],
"env": {…}}`, or `{"transport": "http"|"websocket"|"sse", "url": …, "headers": {…}}`.

An agent that dies is not restarted by itself, because its work may be half done.  `Host.ended` returns when it has
ended, and `start` starts it again, with the same host if you like.
"""

import functools
import importlib.util
import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from ..errors import AgentStartError
from ..foundation.directories import config_directory, home_directory
from ..foundation.places import open_place
from ..foundation.programs import find_program, installation, is_inside, own_command, own_environment
from ..foundation.suggesting import choices
from ..schema.base import Bare
from .disk import plain_content

if TYPE_CHECKING:
    from ..client.client import Client
    from .isolation.isolation import Isolation

RUNNERS = ("npx", "pnpx", "bunx", "uvx", "pipx")
MAX_FILE = 1024 * 1024  # bytes of agents.toml
START_TIMEOUT = 300.0  # seconds; a package runner may have to download the agent first
MissingFiles = Literal["error", "empty"]
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
    needs: str = ""
    install: str = ""
    login: str = ""  # the command to log in, if the agent does not advertise one
    missing: MissingFiles = "error"  # how reads of missing files are answered

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("needs either a command or a url")
        remote = self.transport in ("http", "websocket", "sse")
        if self.transport and remote != bool(self.url):
            raise ValueError(f"transport {self.transport!r} needs a {'url' if remote else 'command'}")

    @property
    def argv(self) -> list[str]:
        """The argv of the program to start."""
        if self._is_ours:
            return own_command("dragoman", *self.args)
        return [(self.name and _outside(self.command)) or self.command, *self.args]

    @property
    def is_installed(self) -> bool:
        """Whether the program and its libraries can be found; always true for an address."""
        if self.lacks_extra:
            return False
        if self.url or self._is_ours or not self.name:
            return bool(self.url) or _is_program(self.argv[0])
        return _outside(self.command) is not None

    @property
    def lacks_extra(self) -> bool:
        """Whether it is one of our agents whose libraries are not installed."""
        return self._is_ours and bool(self.needs) and importlib.util.find_spec(self.needs) is None

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the agent's process: ours, since it is the user's own program, and its settings."""
        return {**(own_environment() if self._is_ours else os.environ), **self.env}

    @property
    def directory(self) -> str | None:
        """The directory in which to start the program; None for the current directory.

        Package runners search the current directory first, which may be a repository with planted packages.
        """
        runs_packages = self.name and os.path.basename(self.command) in RUNNERS
        return str(home_directory()) if runs_packages else None

    @property
    def places(self) -> Sequence[str]:
        """The files of the program, if known: one of our agents needs its installation."""
        return installation() if self._is_ours else []

    @property
    def _is_ours(self) -> bool:
        return self.command == "dragoman"

    def check(self) -> None:
        """Raise AgentStartError for a named agent whose program is only in the current directory."""
        if self.name and not self.is_installed and _is_program(self.command):
            told = "only the current directory has it, and a name leads to no program there. Give its path instead"
            raise AgentStartError(f"cannot start {self.command!r}: {told}")

    def described(self) -> str:
        """The command or the address, in one line."""
        return self.url or shlex.join([self.command, *self.args])


def known_agents(user_file: Path | None = None) -> dict[str, Launch]:
    """All named agents, without `broken_agents`; the user's own override the shipped ones."""
    return {name: agent for name, agent in _named(user_file).items() if isinstance(agent, Launch)}


def broken_agents(user_file: Path | None = None) -> dict[str, AgentStartError]:
    """The names in the user's file whose tables are not valid agents, and why."""
    return {name: wrong for name, wrong in _named(user_file).items() if isinstance(wrong, AgentStartError)}


def _named(user_file: Path | None) -> "dict[str, Launch | AgentStartError]":
    shipped = Path(__file__).with_name("agents.toml")
    own = user_file or config_directory() / "agents.toml"
    return {**_read(shipped), **(_read(own) if os.path.lexists(own) else {})}


def find_agent(wanted: str, user_file: Path | None = None) -> Launch:
    """An agent by its name, its address, or the command that starts it."""
    named = _named(user_file).get(wanted)
    if isinstance(named, AgentStartError):
        raise named
    if named:
        return named
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
    agent: str | Launch | Mapping[str, object],
    client: "Client | None" = None,
    *,
    cwd: str | os.PathLike[str] | None = None,
    dialect: str | None = None,
    start_timeout: float | None = START_TIMEOUT,
    isolation: "Isolation | None" = None,
) -> "AbstractAsyncContextManager[Client]":
    """Reach an agent by its name, command or launch configuration, and do the handshake, as `connect` does.

    With an `isolation`, it runs in a sandbox around `cwd`.  It has `start_timeout` seconds to start, which includes
    a download by `npx` or `uvx`.
    """
    if isinstance(agent, Mapping):
        agent = launch_from(agent)
    launch = find_agent(agent) if isinstance(agent, str) else agent
    from ..client.connecting import connect, connect_over  # agent names do not need it

    launch.check()
    if isolation:
        if launch.url:
            raise AgentStartError(f"{launch.described()} runs elsewhere, so it cannot be put into a sandbox here")
        open_root = functools.partial(open_place, cwd or ".", os.O_DIRECTORY)
        at_home = launch.directory is not None
        way = isolation.reach(launch.argv, open_root, launch.environment, at_home=at_home)
        return connect_over(way, client, dialect=dialect, start_timeout=start_timeout)
    if launch.url:
        return connect(launch.url, client, headers=launch.headers, dialect=dialect, start_timeout=start_timeout)
    return connect(
        launch.argv,
        client,
        cwd=launch.directory or cwd,
        env=launch.environment,
        inherit_env=False,
        dialect=dialect,
        start_timeout=start_timeout,
    )


def launch_from(config: Mapping[str, object], name: str = "") -> Launch:
    """A launch configuration as a Launch; raises AgentStartError, which names its fault."""
    try:
        return msgspec.convert({"name": name, "title": name, **config}, Launch)
    except msgspec.ValidationError as exc:
        raise AgentStartError(f"agent {name!r}: {exc}" if name else f"not a launch configuration: {exc}") from None


def _outside(command: str) -> str | None:
    """The path of the program behind a name of ours; a repository that is on the PATH is not searched."""
    if "/" in command:
        return command if os.access(command, os.X_OK) else None
    try:
        here = os.getcwd()
    except FileNotFoundError:
        return find_program(command)
    return find_program(command, *([] if is_inside(str(home_directory()), here) else [here]))


def _is_program(name: str) -> bool:
    return os.access(name, os.X_OK) if "/" in name else find_program(name) is not None


def _read(file: Path) -> "dict[str, Launch | AgentStartError]":
    """The entries of a file by name; a broken table does not affect the others."""
    try:
        tables = tomllib.loads(plain_content(file, MAX_FILE).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise AgentStartError(f"cannot read {file}: {exc}") from None
    agents: dict[str, Launch | AgentStartError] = {}
    for name, config in tables.items():
        try:
            agents[name] = _checked(name, config)
        except AgentStartError as exc:
            agents[name] = AgentStartError(f"{file}: {exc}")
    return agents


def _checked(name: str, config: object) -> Launch:
    if not isinstance(config, dict):
        raise AgentStartError(f"{name} must be a table, like [{name}] with a command")
    keys = [key for key in Launch.__struct_fields__ if key != "name"]
    if unknown := sorted(config.keys() - set(keys)):
        raise AgentStartError(f"agent {name!r} has the unknown key {unknown[0]!r}; {choices(unknown[0], keys)}")
    return launch_from(config, name)
