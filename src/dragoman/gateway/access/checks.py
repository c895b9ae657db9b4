"""Checks MCP servers that remote clients name: only allowed programs, and addresses on the public internet.

A client on another machine can name any command, so commands need permission.  `workspaces.py` checks directories.
"""

import asyncio
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from ...errors import InvalidParams
from ...foundation import destinations
from ...host.display import visible
from .limits import Limits, exceeded

RESOLVE = 10.0  # seconds to resolve a name


class _Variable(Struct, forbid_unknown_fields=True):
    name: str
    value: str
    meta: Raw | UnsetType = field(default=UNSET, name="_meta")


class _Server(Struct, forbid_unknown_fields=True):
    """An MCP server as it is passed on, with the checked members only."""

    name: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    command: str | UnsetType = UNSET
    args: Sequence[str] | UnsetType | None = UNSET
    env: Sequence[_Variable] | UnsetType | None = UNSET
    url: str | UnsetType = UNSET
    headers: Sequence[Raw] | UnsetType | None = UNSET
    server_id: str | UnsetType = field(default=UNSET, name="serverId")
    meta: Raw | UnsetType = field(default=UNSET, name="_meta")


class _Opening(Struct, rename="camel"):
    mcp_servers: Sequence[Raw] = ()


class Checks(Struct, frozen=True, kw_only=True):
    """The rules; `workspace` is the directory sessions have to be in (`workspaces.py`).

    `commands` holds the hashes (`command_hash`) of the only MCP servers that may be started, each with the
    arguments and the environment it may have; `networks` says whether MCP servers may be in private networks, and
    reached without encryption.
    """

    workspace: str | None = None
    commands: Collection[str] = ()
    networks: bool = False

    def opening(self, found: dict[str, Raw], limits: Limits) -> None:
        """Check the MCP servers of a new session; raises InvalidParams.

        The servers in `found` are encoded again, so that the agent cannot read them differently from the check,
        such as a duplicate member or one in another case.
        """
        if found.get("mcpServers") == Raw(b"null"):  # agents treat it as none
            found["mcpServers"] = Raw(b"[]")
        try:
            asked = msgspec.json.decode(msgspec.json.encode(found), type=_Opening)
            servers = [msgspec.json.decode(server, type=_Server) for server in asked.mcp_servers]
        except msgspec.DecodeError as exc:
            raise InvalidParams(str(exc)) from None
        if len(asked.mcp_servers) > limits.mcp_servers:
            raise exceeded("mcp_servers", limits.mcp_servers)
        for server in servers:
            self._check_server(server)
        if servers:
            found["mcpServers"] = Raw(msgspec.json.encode(servers))

    def _check_server(self, server: _Server) -> None:
        if server.type == "acp" or server.server_id is not UNSET:
            self._check_client_server(server)
            return
        if server.command is not UNSET and server.url is not UNSET:
            raise InvalidParams(f"the MCP server {_shown(server)} has a command and an address; it can have one")
        if server.command is not UNSET:
            if server.type not in (UNSET, "stdio"):
                raise InvalidParams(f"the MCP server {_shown(server)} has a command and a type other than stdio")
            variables = [(variable.name, variable.value) for variable in server.env or ()]
            known_by = command_hash(server.command, server.args or (), variables)
            if known_by not in self.commands:
                raise InvalidParams(
                    f"the MCP server {_shown(server)} is not allowed here with these arguments and this "
                    f"environment; the operator can allow it with --mcp-command {known_by}"
                )
        elif server.url is UNSET:
            raise InvalidParams(f"the MCP server {_shown(server)} has neither a command nor an address")

    def _check_client_server(self, server: _Server) -> None:
        """A server in the client itself, which only `mcp_servers.py` uses."""
        if server.command is not UNSET or server.url is not UNSET:
            raise InvalidParams(
                f"the MCP server {_shown(server)} is in the client and must not have a command or an address"
            )
        if server.type != "acp" or not server.server_id:
            raise InvalidParams(
                f"the MCP server {_shown(server)} is in the client if it has a serverId and type acp"
            )

    async def reach(self, found: Mapping[str, Raw]) -> None:
        """Check where the addresses of MCP servers lead; raises InvalidParams for a forbidden one.

        The servers have been checked and encoded again before.
        """
        for server in msgspec.json.decode(found.get("mcpServers", b"[]"), type=list[_Server]):
            if server.url is not UNSET and not self.networks:
                try:
                    async with asyncio.timeout(RESOLVE):
                        await asyncio.to_thread(destinations.find, server.url)
                except (destinations.DestinationRefused, TimeoutError) as exc:
                    why = str(exc) or "its name is not resolved in time"
                    raise InvalidParams(
                        f"the MCP server {_shown(server)} may not be reached from here: {why}"
                    ) from None


def command_hash(command: str, args: Sequence[str] = (), env: Iterable[tuple[str, str]] = ()) -> str:
    """The hash of a program with its arguments and its environment, for an allow-list."""
    exact = [command, list(args), sorted(map(list, env))]
    return hashlib.sha256(json.dumps(exact).encode()).hexdigest()


def _shown(server: _Server) -> str:
    return visible(server.name, limit=80) if server.name else "without a name"
