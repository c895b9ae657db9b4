"""The error tree; each name says whose fault it was.

Error
├── ProtocolError                 the rules of the protocol were broken
│   ├── LocalProtocolError            by us: a bug in the calling code
│   │   └── NotOffered                    the peer did not advertise the capability
│   └── RemoteProtocolError           by the peer: it sent what it must not send
├── RpcError(code, message, data) the peer answered with an error; raise one to answer with it
│   ├── ParseError            -32700
│   ├── InvalidRequest        -32600
│   ├── MethodNotFound        -32601
│   ├── InvalidParams         -32602
│   ├── InternalError         -32603
│   ├── RequestCancelled      -32800
│   ├── AuthRequired          -32000
│   ├── Overloaded            -32001
│   ├── ResourceNotFound      -32002
│   ├── UnsupportedVersion    -32022
│   ├── McpLimitExceeded      -33000
│   ├── McpServerUnavailable  -33001
│   └── McpBackendFailed      -33002
├── MissingExtra                  a library is not installed; the message says how to get it
├── RequestTimeout                the peer did not answer in time
├── ConnectionClosed              the wire is gone
│   └── AgentExited                   because the agent's process ended
└── AgentStartError               the agent could not be started
"""

import json
from typing import Any, ClassVar, TypeVar

MAX_QUOTED = 1000  # characters of the peer's text that an error of ours quotes


class Error(Exception):
    """Everything this library raises on purpose."""


class ProtocolError(Error):
    """The rules of the protocol were broken."""


class LocalProtocolError(ProtocolError):
    """We were asked to send something the protocol forbids."""


class NotOffered(LocalProtocolError):
    """The peer never advertised the capability this call needs, so it must not be made."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something the protocol forbids."""


class RpcError(Error):
    """An error response: raise it to answer with it, catch it where you send requests."""

    code: int = -32603
    default_message: ClassVar[str] = "Internal error"
    method: str | None = None  # the call it answered, when it came from the peer

    def __init__(self, message: str = "", data: Any = None, *, code: int | None = None) -> None:
        self.message = str(message or self.default_message)  # authors pass an exception as well as its text
        self.data = data
        if code is not None:
            self.code = code
        super().__init__(self.message)

    def __str__(self) -> str:
        detail = "" if self.data is None else f" {_as_json(self.data)}"
        return f"{self.message} ({self.code}){detail}"

    def passed_on(self) -> "InternalError":
        """The answer of a handler whose own call failed with this error."""
        says_more = self.code != InternalError.code or self.data is not None
        return InternalError(f"{self.method} failed: {brief(self if says_more else self.message)}")

    @staticmethod
    def of(code: int, message: str = "", data: Any = None) -> "RpcError":
        """The named class for a code; a plain RpcError for any other code."""
        return _BY_CODE.get(code, RpcError)(message, data, code=code)


class ParseError(RpcError):
    """The peer received bytes that are not JSON."""

    code, default_message = -32700, "Parse error"


class InvalidRequest(RpcError):
    """The request is not allowed in this form or at this time."""

    code, default_message = -32600, "Invalid request"


class MethodNotFound(RpcError):
    """The peer has no such method."""

    code, default_message = -32601, "Method not found"


class InvalidParams(RpcError):
    """The params do not fit the method, or name something that does not exist."""

    code, default_message = -32602, "Invalid params"


class InternalError(RpcError):
    """The peer failed while it worked on the request."""

    code, default_message = -32603, "Internal error"


class RequestCancelled(RpcError):
    """The request was cancelled by its sender before it was done."""

    code, default_message = -32800, "Request cancelled"


class AuthRequired(RpcError):
    """The user has to log in first (`authenticate`)."""

    code, default_message = -32000, "Authentication required"


class Overloaded(RpcError):
    """The peer has too much to do, or a limit is reached; try again later."""

    code, default_message = -32001, "Too many requests in flight"


class ResourceNotFound(RpcError):
    """The session, file or other resource does not exist."""

    code, default_message = -32002, "Resource not found"


class UnsupportedVersion(RpcError):
    """The peers have no protocol version in common; `data` lists those the peer has."""

    code, default_message = -32022, "Unsupported protocol version"


class McpLimitExceeded(RpcError):
    """An MCP server in the client has too many open requests."""

    code, default_message = -33000, "MCP request limit exceeded"


class McpServerUnavailable(RpcError):
    """An MCP server in the client cannot be reached."""

    code, default_message = -33001, "MCP server unavailable"


class McpBackendFailed(RpcError):
    """An MCP server in the client failed during the request."""

    code, default_message = -33002, "MCP backend failed"


_BY_CODE: dict[int, type[RpcError]] = {cls.code: cls for cls in RpcError.__subclasses__()}


class MissingExtra(Error, ImportError):
    """A part of this package needs libraries that are not installed."""


class RequestTimeout(Error):
    """The peer did not answer in time; its late answer will be dropped."""


class ConnectionClosed(Error):
    """The wire is gone; everything pending on it fails with this."""

    @property
    def reason(self) -> str:
        """Why the connection was closed, without anything that the peer printed."""
        return str(self)


class AgentExited(ConnectionClosed):
    """The agent's process ended; `status` is its exit code (negative: a signal), `stderr` its last words."""

    def __init__(self, status: int | None, stderr: str = "") -> None:
        self.status, self.stderr = status, stderr
        super().__init__(f"the agent {describe_exit(status)}{_quoted(stderr)}")

    @property
    def reason(self) -> str:
        """How the agent ended, without its stderr."""
        return f"the agent {describe_exit(self.status)}"


class AgentStartError(Error):
    """The agent could not be started, or ended before it answered `initialize`."""

    def __init__(self, reason: str, status: int | None = None, stderr: str = "") -> None:
        self.status, self.stderr = status, stderr
        super().__init__(f"{reason}{_quoted(stderr)}")


class UnsupportedSystem(Error):
    """This system lacks what a part of the library needs; others work."""


AGENT_STOPPED = "agent_stopped"


def agent_stopped() -> InternalError:
    """The error that answers a prompt when its agent is told to stop; the client did not cancel the turn."""
    return InternalError("the agent stopped", {"kind": AGENT_STOPPED})


def _as_json(data: Any) -> str:
    """The data of an error as the peer wrote it, in one line, with invisible characters escaped."""
    try:
        text = json.dumps(data, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return repr(data)  # an author's own object, which has not gone over a wire
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def brief(said: object) -> str:
    """A text to quote: of a long one its beginning and its end, so that nested quotations stay short."""
    text = str(said)
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED // 2]} … {text[-MAX_QUOTED // 2 :]}"


E = TypeVar("E", bound=Exception)


def again(error: E) -> E:
    """A copy of an error: raising an error adds to its traceback, so each caller gets an object of its own."""
    copy = type(error).__new__(type(error), *error.args)
    copy.__dict__.update(error.__dict__)
    copy.args, copy.__cause__ = error.args, error.__cause__
    return copy


def describe_exit(status: int | None) -> str:
    if status is None:
        return "hung up"
    if status < 0:
        return f"was killed by signal {-status}"
    return f"exited with status {status}"


def _quoted(stderr: str) -> str:
    tail = stderr.strip()
    return f"; its stderr ended with:\n{tail}" if tail else ""
