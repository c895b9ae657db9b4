"""Messages between a conductor and the proxies it strings together.  Unstable."""

from .handshake import InitializeRequest, InitializeResponse

InitializeProxyRequest = InitializeRequest
InitializeProxyResponse = InitializeResponse
