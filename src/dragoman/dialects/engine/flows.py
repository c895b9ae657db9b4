"""Flows: what a table of methods and shapes cannot say, written as a story.

A flow is a generator that yields what it needs (`Ask` or `Tell` somebody, `Pause`, `StartFlow` for another) and
returns the answer to the call it stands for.  So a dialect that lacks a call, or turns one round, is written as the
story it is, and still waits for nothing.
"""

from collections.abc import Generator
from typing import NamedTuple, TypeAlias, TypeVar

from ...foundation.documents import Document, Json

Message: TypeAlias = Document
Value = TypeVar("Value")


class Ask(NamedTuple):
    """Ask somebody; the flow goes on with the response, or with None when it took too long."""

    method: str
    params: Json
    to_peer: bool = False  # us otherwise
    timeout: float | None = None


class Tell(NamedTuple):
    """Send somebody a message, as it is."""

    message: Message
    to_peer: bool = False


class Pause(NamedTuple):
    """Go on later."""

    seconds: float


class StartFlow(NamedTuple):
    """Have another flow run beside this one; its answer is nobody's."""

    flow: "Flow"


Step: TypeAlias = Ask | Tell | Pause | StartFlow
# A flow of steps; it is sent the response to what it asked, or None.
Steps: TypeAlias = Generator[Step, Message | None, Value]
Flow: TypeAlias = Steps[Json]


class Fault(Exception):
    """Raised in a flow or a shape: the call is answered with this error of version 1."""

    def __init__(self, code: int, message: str, data: Json = None) -> None:
        self.error: Message = {"code": code, "message": message}
        if data is not None:
            self.error["data"] = data
        super().__init__(message)

    @classmethod
    def of(cls, error: Json) -> "Fault":
        """An error that was answered, to be passed on."""
        fault = cls(-32603, "Internal error")
        if isinstance(error, dict):
            fault.error = error
        return fault


class RunningFlow:
    """A flow under way, and the call it will answer."""

    __slots__ = ("asked", "flow", "from_peer", "id", "is_call")  # two calls may have one and the same id

    def __init__(self, flow: Flow, from_peer: bool = False, id: Json = None, is_call: bool = False) -> None:
        self.flow, self.from_peer, self.id, self.is_call = flow, from_peer, id, is_call
        self.asked: tuple[bool, str] | None = None  # whom it waits for, and under which id
