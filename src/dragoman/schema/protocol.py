"""What every conversation needs: ids, errors, and taking a request back."""

from typing import Any, Literal

from .base import UNSET, Bare, Int32, Model, RequestId

SessionId = str
MessageId = str

# -32700 parse error            -32600 invalid request       -32601 method not found
# -32602 invalid params         -32603 internal error        -32800 request cancelled
# -32000 authentication required                             -32002 resource not found
ErrorCode = Literal[-32700, -32600, -32601, -32602, -32603, -32800, -32000, -32002] | Int32


class Error(Bare, kw_only=True):
    """Why a request failed; `data` may be any JSON, null too, hence UNSET."""

    code: ErrorCode
    message: str
    data: Any = UNSET


class CancelRequestNotification(Model, kw_only=True):
    """Takes back a request its sender made; the request is still answered."""

    request_id: RequestId
