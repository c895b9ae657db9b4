"""What a remote client may ask for when it opens a session: directories of its tenant's workspace, known programs.

A client on another machine can name any path and any command; what it names is not to be taken for granted.
"""

import hashlib
import ipaddress
import json
import os
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from ..errors import InvalidParams
from .limits import Limits, exceeded

FORBIDDEN = ("/", "\\", "\0")  # in the name of a tenant, where it becomes a directory


class _Server(Struct):
    command: str | None = None
    args: Sequence[str] = ()
    url: str | None = None
    type: str | None = None
    name: str = ""


class _Opening(Struct, rename="camel"):
    cwd: str
    additional_directories: Sequence[str] = ()
    mcp_servers: Sequence[_Server] = ()


class Checks(Struct, frozen=True, kw_only=True):
    """The rules; `workspace` is the directory sessions have to be in, `{principal}` in it is whose they are.

    `commands` holds the hashes (`command_hash`) of the only MCP servers that may be started; `networks` says
    whether MCP servers may be in private networks.
    """

    workspace: str | None = None
    commands: Collection[str] = ()
    networks: bool = False

    def opening(self, found: dict[str, Raw], principal: str, limits: Limits) -> str:
        """Look at what a session is to be opened with; gives its directory, raises InvalidParams."""
        try:
            asked = msgspec.json.decode(msgspec.json.encode(found), type=_Opening)
        except msgspec.DecodeError as exc:
            raise InvalidParams(str(exc)) from None
        if len(asked.mcp_servers) > limits.mcp_servers:
            raise exceeded("mcp_servers", limits.mcp_servers)
        root = self.root(principal)
        for path in (asked.cwd, *asked.additional_directories):
            _check_directory(path, root)
        for server in asked.mcp_servers:
            self._check_server(server)
        return asked.cwd

    def root(self, principal: str) -> str | None:
        """A tenant's own directory, which is made if need be."""
        if self.workspace is None:
            return None
        if "{principal}" not in self.workspace:
            return os.path.realpath(self.workspace)
        if not principal or principal.startswith(".") or any(sign in principal for sign in FORBIDDEN):
            raise InvalidParams("this principal can have no workspace")
        root = self.workspace.replace("{principal}", principal)
        os.makedirs(root, mode=0o700, exist_ok=True)
        return os.path.realpath(root)

    def _check_server(self, server: _Server) -> None:
        if server.type == "acp":
            raise InvalidParams("MCP servers in the client cannot be used through a gateway")
        if server.command is not None:
            if command_hash(server.command, server.args) not in self.commands:
                raise InvalidParams(f"the MCP server {server.name!r} is none that may be started here")
        elif server.url is None or not self._is_reachable(server.url):
            raise InvalidParams(f"the MCP server {server.name!r} may not be reached from here")

    def _is_reachable(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError:
            return False
        if parts.scheme not in ("https", "http") or not host or not host.isascii() or host.strip() != host:
            return False
        if self.networks:
            return True
        try:
            return ipaddress.ip_address(host).is_global
        except ValueError:  # a name; one without a dot is local, and so is a number in disguise
            last = host.rstrip(".").rpartition(".")[2]
            local = last in ("localhost", "local", "internal", "home", "lan")
            return "." in host.rstrip(".") and not local and not last.isdigit() and not last.startswith("0x")


def command_hash(command: str, args: Sequence[str]) -> str:
    """What a program and its arguments are known by in an allow-list."""
    return hashlib.sha256(json.dumps([command, *args]).encode()).hexdigest()


def _check_directory(path: str, root: str | None) -> None:
    if "\0" in path or not os.path.isabs(path):
        raise InvalidParams(f"not an absolute path: {path!r}")
    if root is None:
        return
    real = os.path.realpath(path)
    if real != root and not real.startswith(root.rstrip("/") + "/"):
        raise InvalidParams(f"{path!r} is not in your workspace on this server, which is {root!r}")
    if not os.path.isdir(real):
        raise InvalidParams(f"there is no directory {path!r}")
