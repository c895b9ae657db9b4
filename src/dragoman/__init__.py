"""Dragoman: the complete Agent Client Protocol for Python."""

from .agent import Agent, serve, serve_on
from .client import Client, connect
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
    MethodNotFound,
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
from .proxy import Proxy, compose
from .roles import AgentRole, ClientRole, extension
from .session import Prompt, Session
from .transcript import Transcript
from .turn import AgentSession, Permission, Turn

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
    "MethodNotFound",
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
    "Transcript",
    "Turn",
    "UnsupportedVersion",
    "compose",
    "connect",
    "extension",
    "serve",
    "serve_on",
]
