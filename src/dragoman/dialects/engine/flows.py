"""Flows: translations in several steps, which a table of methods and shapes cannot express.

A flow is a generator that yields its steps (`Ask` or `Tell` a peer, `Pause`, `StartFlow` for another flow) and
returns the answer to the call that it handles.  So a call that a dialect lacks, or that goes in the other
direction, is written as a sequence of steps, and the translator still never blocks.
"""

from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

from ...foundation.documents import Document, Json

Message: TypeAlias = Document
Value = TypeVar("Value")


class Ask(NamedTuple):
    """Send a request; the flow continues with the response, or with None after the timeout."""

    method: str
    params: Json
    to_peer: bool = False  # us otherwise
    timeout: float | None = None


class Tell(NamedTuple):
    """Send a message unchanged."""

    message: Message
    to_peer: bool = False


class Pause(NamedTuple):
    """Continue the flow later."""

    seconds: float


class StartFlow(NamedTuple):
    """Run another flow beside this one; its result is not used."""

    flow: "Flow"


Step: TypeAlias = Ask | Tell | Pause | StartFlow
# A generator of steps; it is sent the response to its request, or None.
Steps: TypeAlias = Generator[Step, Message | None, Value]
Flow: TypeAlias = Steps[Json]


class Fault(Exception):
    """Raised in a flow or a shape to answer the call with this error of version 1."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        self.error: Message = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data
        super().__init__(message)

    @classmethod
    def of(cls, error: Json) -> "Fault":
        """Make a fault of an error response, to pass it on."""
        fault = cls(-32603, "Internal error")
        if isinstance(error, dict):
            fault.error = error
        return fault


class RunningFlow:
    """A flow in progress, and the call that it will answer."""

    __slots__ = ("asked", "flow", "from_peer", "id", "is_call")  # two calls may have the same id

    def __init__(self, flow: Flow, from_peer: bool = False, id: Json = None, is_call: bool = False) -> None:
        self.flow, self.from_peer, self.id, self.is_call = flow, from_peer, id, is_call
        self.asked: tuple[bool, str] | None = None  # the side that it waits for, and the id of its request there
