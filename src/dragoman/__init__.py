"""Dragoman: the complete Agent Client Protocol for Python.

Every name is loaded when it is first used: `import dragoman` alone costs nothing, and the command line answers
`--help` without having loaded an event loop.
"""

from .foundation.names import loading as _loading

TYPE_CHECKING = False  # as type checkers read it; `typing` takes longer to load than all of this
if TYPE_CHECKING:
    from .agent.agent import Agent
    from .agent.runs import Permission, TerminalRun, ToolRun
    from .agent.serving import serve, serve_on
    from .agent.turn import AgentSession, Turn
    from .client.client import Client
    from .client.connecting import connect
    from .client.session import Prompt, Session
    from .errors import (
        AgentExited,
        AgentStartError,
        AuthRequired,
        ConnectionClosed,
        Error,
        InternalError,
        InvalidParams,
        InvalidRequest,
        LocalProtocolError,
        McpBackendFailed,
        McpLimitExceeded,
        McpServerUnavailable,
        MethodNotFound,
        MissingExtra,
        NotOffered,
        Overloaded,
        ParseError,
        ProtocolError,
        RemoteProtocolError,
        RequestCancelled,
        RequestTimeout,
        ResourceNotFound,
        RpcError,
        UnsupportedVersion,
    )
    from .proxy.proxy import Proxy, compose
    from .roles import AgentRole, ClientRole, extension
    from .transcript import Transcript
    from .transports.streams import streams

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentExited",
    "AgentRole",
    "AgentSession",
    "AgentStartError",
    "AuthRequired",
    "Client",
    "ClientRole",
    "ConnectionClosed",
    "Error",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "LocalProtocolError",
    "McpBackendFailed",
    "McpLimitExceeded",
    "McpServerUnavailable",
    "MethodNotFound",
    "MissingExtra",
    "NotOffered",
    "Overloaded",
    "ParseError",
    "Permission",
    "Prompt",
    "ProtocolError",
    "Proxy",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestTimeout",
    "ResourceNotFound",
    "RpcError",
    "Session",
    "TerminalRun",
    "ToolRun",
    "Transcript",
    "Turn",
    "UnsupportedVersion",
    "compose",
    "connect",
    "extension",
    "serve",
    "serve_on",
    "streams",
]

_HOMES = {
    "agent.agent": ("Agent",),
    "agent.serving": ("serve", "serve_on"),
    "client.client": ("Client",),
    "client.connecting": ("connect",),
    "proxy.proxy": ("Proxy", "compose"),
    "roles": ("AgentRole", "ClientRole", "extension"),
    "agent.runs": ("Permission", "TerminalRun", "ToolRun"),
    "client.session": ("Prompt", "Session"),
    "transcript": ("Transcript",),
    "transports.streams": ("streams",),
    "agent.turn": ("AgentSession", "Turn"),
}
_HOMES["errors"] = tuple(set(__all__).difference(*_HOMES.values()))  # all others
__getattr__ = _loading(__name__, _HOMES)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
