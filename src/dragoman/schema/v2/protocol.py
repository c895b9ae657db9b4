"""What every conversation needs: errors, and taking a request back."""

from collections.abc import Sequence
from typing import Any, Literal

from ..base import Bare, Int32, Model
from ..handshake import ProtocolVersion
from ..protocol import SessionId
from .base import RequestId

# -32700 parse error            -32600 invalid request       -32601 method not found
# -32602 invalid params         -32603 internal error        -32800 request cancelled
# -32000 authentication required                             -32002 resource not found
# -32022 unsupported protocol version
ErrorCode = Literal[-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002, -32022] | Int32


class UnsupportedProtocolVersionErrorData(Model, kw_only=True):
    """What goes with -32022."""

    requested: ProtocolVersion
    supported: Sequence[ProtocolVersion]


class SessionNotFoundErrorData(Model, kw_only=True):
    """What goes with -32002 where a session was not found."""

    session_id: SessionId


# The code tells which, and no code is a promise: it is read as any JSON.
ErrorData = UnsupportedProtocolVersionErrorData | SessionNotFoundErrorData | Any


class Error(Bare, kw_only=True):
    """Why a request failed."""

    code: ErrorCode
    message: str
    data: ErrorData | None = None


class CancelRequestNotification(Model, kw_only=True):
    """Takes back a request its sender made; the request is still answered."""

    request_id: RequestId
