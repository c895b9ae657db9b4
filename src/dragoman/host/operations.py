"""The exact operations of a host for an agent; permissions are decided on these alone."""

import functools
import hashlib
from typing import Any

import msgspec

from ..schema.base import Bare


class _Operation(Bare, dict=True, gc=True):
    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return str(self.__struct_config__.tag)

    @property
    def subject(self) -> str:
        """The object of the operation, as rules and people name it."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """A fingerprint that only equal operations share; an approval holds for it alone."""
        return self._fingerprint

    @functools.cached_property
    def _fingerprint(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


class FileOperation(_Operation, kw_only=True):
    """An operation on one file; `path` is the real path of the opened descriptor."""

    path: str

    @property
    def subject(self) -> str:
        return self.path


class FileRead(FileOperation, tag_field="operation", tag="file_read"):
    """Read a file."""


class FileWrite(FileOperation, tag_field="operation", tag="file_write", kw_only=True):
    """Replace or create a file with exactly this content."""

    digest: str  # SHA-256 of the bytes that will be written
    creates: bool = False


class FileDelete(FileOperation, tag_field="operation", tag="file_delete"):
    """Remove a file."""


class Execute(_Operation, tag_field="operation", tag="terminal_execute", kw_only=True):
    """Run exactly this argv, with these variables set by the agent, in this directory."""

    argv: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...] = ()
    shell: bool = False  # argv is a shell and a text for it
    dangerous_env: tuple[str, ...] = ()  # names in env that can change what runs
    interactive: bool = False  # the agent types into it

    @property
    def subject(self) -> str:
        return self.argv[-1] if self.shell else self.argv[0]


class NetworkAccess(_Operation, tag_field="operation", tag="network_access", kw_only=True):
    url: str

    @property
    def subject(self) -> str:
        return self.url


class McpTool(_Operation, tag_field="operation", tag="mcp_tool", kw_only=True):
    """Call a tool of an MCP server with exactly these arguments."""

    server: str
    tool: str
    arguments: Any = None

    @property
    def subject(self) -> str:
        return f"{self.server}/{self.tool}"


KINDS = ("file_read", "file_write", "file_delete", "terminal_execute", "network_access", "mcp_tool")
Operation = FileRead | FileWrite | FileDelete | Execute | NetworkAccess | McpTool
