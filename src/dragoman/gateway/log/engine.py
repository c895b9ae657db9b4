"""The interface between a gateway and its durable storage: logs, leases, facts and blobs.

A gateway holds no state that must survive it.  The history of a session is a log of numbered records; a lease is
the right to write to it; an engine stores both.  An engine may be one file on one machine (`sqlite`) or spread over
many machines; no module above this one knows which.

Rule 1: when `append` has returned, its records are durable, in the order of their numbers.
Rule 2: only the holder of a session's lease writes to it: an epoch that is not the newest is refused (`Fenced`).
Rule 3: a record is read byte for byte as it was written, or marked as damaged; no number is ever left out.
Rule 4: a write that failed with EngineFailure may have happened; repeating it has the effect of one write.
Rule 5: an engine raises only EngineFailure, DamagedLog, Fenced, Conflict and Unanswered, unless it is used wrongly.
Rule 6: every listener of a session is called after each `append` that returned, including the writer's own.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from ...errors import Error
from ..metrics import Metric

Origin = Literal["agent", "client", "gateway"]
CallHandler = Callable[[str, bytes], Awaitable[bytes]]  # of the holder of a session's lease, to a request about it
Key = tuple[str, ...]  # the name of a fact within its kind, from general to particular

log = logging.getLogger("dragoman")

MAX_FACT = 768 * 1024  # bytes of a fact's value, which any engine writes at once
MAX_KEY = 1024  # bytes of a whole key
CALL_SECONDS = 10.0  # that the holder of a lease has to answer a request


class EngineFailure(Error):
    """The engine cannot write or read now; nothing was acknowledged."""


class DamagedLog(EngineFailure):
    """A stored record is damaged."""


class Fenced(Error):
    """Another process holds the session by now: the receiver of this error stops at once."""


class Conflict(Error):
    """A fact has changed since it was read."""


class Unanswered(Error):
    """No holder answers for a session; whether it carried out the request is unknown."""


class LogEntry(Struct, frozen=True, gc=False):
    """A record to write: its origin, its principal and the message."""

    origin: Origin
    frame: bytes
    principal: str = ""
    client: str = ""  # the client it came from, which does not need a copy


class StoredRecord(Struct, frozen=True, gc=False):
    """What was written."""

    number: int
    epoch: int
    time: float
    entry: LogEntry
    is_whole: bool = True  # if false, it is damaged and `entry` is meaningless


class Lease(Struct, frozen=True):
    """The right to write, until another process gets a newer one."""

    name: str
    owner: str
    epoch: int


class Upkeep(Struct, frozen=True):
    """A lease to renew, and facts to set while it is held, by their kinds; their key is the lease's name."""

    lease: Lease
    facts: Mapping[str, bytes] = {}


class Fact(Struct, frozen=True):
    """A small value and its revision."""

    value: bytes
    revision: int


class LogReader(Protocol):
    """The reading side of a gateway's storage."""

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """The next records after a number, in order; few enough to hold in memory."""

    async def last(self, session: str) -> int:
        """The number of a session's last record; 0 for none."""

    async def marked_for_deletion(self) -> Sequence[str]:
        """The sessions whose deletion is in progress or was interrupted."""

    async def fact(self, kind: str, *key: str) -> Fact | None:
        """A fact; None if there is none.  Raises DamagedLog if it is damaged."""

    def facts(self, kind: str, *prefix: str) -> AsyncIterator[tuple[Key, Fact]]:
        """The facts of a kind whose keys begin with these parts, in any order.

        Damaged ones are left out and logged.  Every fact that exists the whole time is included; one that changes
        meanwhile may come twice.
        """

    async def facts_of(self, kind: str, keys: Sequence[Key]) -> Mapping[Key, Fact]:
        """The existing facts of a kind with these keys; damaged ones are treated as in `facts`."""

    def blob(self, session: str, name: str) -> AsyncIterator[bytes]:
        """A blob, in pieces."""

    async def close(self) -> None:
        """Finish running operations and close."""


class Engine(LogReader, Protocol):
    """The interface of a gateway's storage."""

    async def append(self, lease: Lease, entries: Sequence[LogEntry], after: int) -> None:
        """Write records numbered from `after` + 1; durable when it returns.

        Records that this lease has already written there are not written again.  Raises Fenced if the lease is not
        the newest one, or if other records have these numbers.
        """

    def listen(self, session: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call a function soon after a session's log has grown, and perhaps otherwise; returns how to end it.

        An `append` of this process has returned before the function is called for it.
        """

    async def answer(self, owner: str, answer: CallHandler) -> Callable[[], Awaitable[None]]:
        """Answer requests about the sessions whose leases an owner holds; returns how to end it."""

    async def call(self, session: str, request: bytes) -> bytes:
        """Send a request to the holder of a session's lease, wherever it is; returns the answer.

        Raises Unanswered when nobody holds it, or its holder fails or takes longer than `CALL_SECONDS`.
        """

    async def forget(self, session: str) -> None:
        """Delete a session's log and its blobs, in small steps, so that others do not wait."""

    async def mark_for_deletion(self, session: str) -> None:
        """Record that a session will be deleted; `marked_for_deletion` names it until it is."""

    async def adopt(self, lease: Lease, records: Sequence[StoredRecord], after: int) -> None:
        """Write another engine's records unchanged, numbered from `after` + 1, like `append`."""

    async def identity(self, *, is_new: bool = False) -> str:
        """The owner name for leases: the same after a restart, if no other process can have used it.

        With `is_new`, another process may still hold leases.
        """

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take a free lease, with a new epoch; None while another process holds it."""

    async def keep_up(self, held: Sequence[Upkeep], seconds: float) -> Collection[Lease]:
        """Renew leases and set their facts, in one write; returns the lost leases.

        Nothing is written for a lease that another process holds.
        """

    async def release(self, lease: Lease) -> None:
        """Release a lease."""

    async def put_fact(self, kind: str, *key: str, value: bytes, revision: int | None = None) -> int:
        """Set a fact, if a given revision (0: none yet) is still current; returns the new revision.

        Raises Conflict if it has changed, even if an earlier attempt of this call changed it.
        """

    async def drop_fact(self, kind: str, *key: str) -> None:
        """Remove a fact."""

    async def check(self) -> None:
        """Raise EngineFailure unless it can write now and has enough space."""

    def metrics(self) -> Mapping[str, Metric]:
        """Its metrics, by their shown names."""

    async def put_blob(self, lease: Lease, data: bytes) -> str:
        """Store a blob beside a session's log, until the session is deleted; returns its name, the SHA-256.

        Raises Fenced if the lease is not the newest one.
        """


def check_fact(kind: str, key: Key, value: bytes = b"") -> None:
    """Raise ValueError for a fact that no engine can store."""
    if not key or sum(len(part.encode()) for part in key) > MAX_KEY:
        raise ValueError(f"the key of a {kind} has 1 to {MAX_KEY} bytes")
    if len(value) > MAX_FACT:
        raise ValueError(f"the value of a {kind} has {MAX_FACT} bytes at most, not {len(value)}")


def check_call(request: bytes) -> None:
    """Raise ValueError for a request that no engine can carry to the holder of a lease."""
    if len(request) > MAX_FACT:
        raise ValueError(f"a request has {MAX_FACT} bytes at most, not {len(request)}")


async def answered(answer: CallHandler, session: str, request: bytes) -> bytes:
    """The answer of the holder of a session's lease; raises Unanswered for one that fails."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            return await answer(session, request)
    except Exception as exc:
        log.warning("a request about session %s failed: %s", session, exc or type(exc).__name__)
        raise Unanswered(f"the holder of {session} failed") from None


def nobody_answers(session: str) -> Unanswered:
    return Unanswered(f"nobody answers for {session}")
