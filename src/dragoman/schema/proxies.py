"""Messages between a conductor and the proxies it strings together.  Unstable."""

from typing import Any

from .base import UNSET, Model
from .handshake import InitializeRequest, InitializeResponse

InitializeProxyRequest = InitializeRequest
InitializeProxyResponse = InitializeResponse


class ProxySuccessorRequest(Model, kw_only=True):
    """A request to a proxy's successor, or from it: the direction of the envelope tells which."""

    method: str
    params: Any = UNSET


class ProxySuccessorNotification(Model, kw_only=True):
    """A notification to a proxy's successor, or from it."""

    method: str
    params: Any = UNSET


ProxySuccessorResponse = Any  # the answer to the inner request, as it is
