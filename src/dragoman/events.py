"""Methods, and the events that they become: all that a peer can do to us, as values."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from .schema.base import RequestId


class Verbatim:
    """The params of a notification that is passed on as it came: what its handler gets is the frame, checked."""


class Method(Struct, frozen=True):
    """One method: what it is called, what it takes and gives, and what must hold before it may be called."""

    name: str
    params: Any
    result: Any = None
    is_request: bool = True
    opens: bool = False  # it is the one that opens a connection
    capability: str = ""  # the capability the receiver must have advertised
    timeout: float | None = None  # seconds after which no answer is a failure
    unstable: bool = False
    handler: Callable[[Any], Any] | None = None  # what answers it, on the side that does
    accept: "Callable[[Call], object] | None" = None  # what takes a request in its place, and sees to its answer


class Call(Struct, frozen=True, gc=False):
    """The peer asks; `Peer.reply` or `Peer.fail` with this key owes it exactly one answer."""

    key: int
    id: RequestId
    method: Method
    params: Any


class Note(Struct, frozen=True, gc=False):
    """The peer tells."""

    method: Method
    params: Any


class Reply(Struct, frozen=True, gc=False):
    """The peer answers a call of ours: a result, or the error to raise."""

    id: int
    result: Any = None
    error: Exception | None = None


class Cancel(Struct, frozen=True, gc=False):
    """The peer no longer wants the answer to its call with this key; it is still owed one."""

    key: int


class Noise(Struct, frozen=True, gc=False):
    """Something that is no message of ours to answer: `why` says what, `data` how it began."""

    why: str
    data: bytes
    error: Exception | None = None  # of ours, where it is no fault of the peer


class Batch(Struct, frozen=True, gc=False):
    """Messages in one frame, which the protocol does not have: each is refused, or fails its call."""

    events: "list[Event]"


Event = Call | Note | Reply | Cancel | Noise | Batch
