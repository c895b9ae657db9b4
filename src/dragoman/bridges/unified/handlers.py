"""The services that a user of the adapter offers an agent: files, terminals, or any methods."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from ... import schema as s
from ...events import Method
from ...roles import ClientRole, methods

FILES = ("read_text_file", "write_text_file")
TERMINALS = (
    "create_terminal",
    "terminal_output",
    "wait_for_terminal_exit",
    "kill_terminal",
    "release_terminal",
)
METHODS = methods(ClientRole)
BY_NAME = {METHODS[name].name: METHODS[name] for name in (*FILES, *TERMINALS)}


class FileSystemHandler(Protocol):
    """Answers `fs/*`."""

    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        """Read a text file."""

    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        """Write a text file."""


class TerminalHandler(Protocol):
    """Answers `terminal/*`."""

    async def create_terminal(self, params: s.CreateTerminalRequest) -> s.CreateTerminalResponse:
        """Start a command."""

    async def terminal_output(self, params: s.TerminalOutputRequest) -> s.TerminalOutputResponse:
        """Give the output so far."""

    async def wait_for_terminal_exit(self, params: s.WaitForTerminalExitRequest) -> s.WaitForTerminalExitResponse:
        """Wait until the command ends."""

    async def kill_terminal(self, params: s.KillTerminalRequest) -> s.KillTerminalResponse:
        """End the command."""

    async def release_terminal(self, params: s.ReleaseTerminalRequest) -> s.ReleaseTerminalResponse:
        """End the command and forget it."""


class AgentRequestHandler(Protocol):
    """Answers requests of the agent by method name: `fs/*`, `terminal/*` and extensions of the protocol."""

    @property
    def methods(self) -> Collection[str]:
        """The names of the methods that it answers."""

    async def handle(self, method: str, params: Mapping[str, object]) -> Mapping[str, object]:
        """Answer a request; params and result are JSON values.  Raise an `RpcError` to answer with an error."""


@dataclass(frozen=True, kw_only=True)
class AdapterOptions:
    """How the agent is started, and the services it is offered; other services are not advertised.

    `cwd` is the directory of the session and of the agent's process.
    """

    cwd: str = "."
    env: Mapping[str, str] | None = None
    file_system_handler: FileSystemHandler | None = None
    terminal_handler: TerminalHandler | None = None
    request_handler: AgentRequestHandler | None = None
    on_stderr: Callable[[bytes], None] | None = None

    def answered(self) -> dict[str, Method]:
        """The handlers by the names of the methods that they answer."""
        found: dict[str, Method] = {}
        if self.request_handler:
            found |= {name: _asked(self.request_handler, name) for name in self.request_handler.methods}
        for handler, names in ((self.file_system_handler, FILES), (self.terminal_handler, TERMINALS)):
            if handler:
                bound = [msgspec.structs.replace(METHODS[name], handler=getattr(handler, name)) for name in names]
                found |= {method.name: method for method in bound}
        return found


def _asked(handler: AgentRequestHandler, name: str) -> Method:
    """The handler of a method, by its name."""
    known = BY_NAME.get(name)
    if known is None and not name.startswith("_"):
        raise ValueError(f"a handler answers fs/*, terminal/* and extensions (_name), and not {name!r}")

    async def answer(params: Any) -> Any:
        plain = msgspec.to_builtins(params)
        result = await handler.handle(name, plain)
        return result if known is None else msgspec.convert(result, known.result)

    return msgspec.structs.replace(known or Method(name, Any, Any), handler=answer)
