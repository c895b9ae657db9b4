"""The port between a gateway and what keeps its word: logs, leases, small facts and large ones.

A gateway holds nothing that may not be lost with it.  What has happened in a session is a log of numbered records;
who may write to it is a lease; both are an engine's.  An engine may be one file on one machine (`sqlite`) or spread
over many: nothing above this file knows.

Rule 1: what `append` has returned from is durable, and in the order of its numbers.
Rule 2: only the holder of the session's lease writes to it: an epoch that is not the newest is refused (`Fenced`).
Rule 3: a record is read as it was written, byte for byte, or it says that it is not; a number is never left out.
Rule 4: a write that failed with EngineFailure may have happened; doing it again has the effect of doing it once.
Rule 5: an engine raises EngineFailure, DamagedLog, Fenced, Conflict, Unanswered and nothing else, unless it is used
wrongly.
Rule 6: whoever listens to a session is called after each `append` that returned, its writer included.
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
Key = tuple[str, ...]  # names a fact among those of its kind, from the general to the particular

log = logging.getLogger("dragoman")

MAX_FACT = 768 * 1024  # bytes of a fact's value, which any engine writes in one go
MAX_KEY = 1024  # bytes of a key in all
CALL_SECONDS = 10.0  # that the holder of a lease has to answer a request


class EngineFailure(Error):
    """The engine cannot keep its word just now; nothing was acknowledged."""


class DamagedLog(EngineFailure):
    """A stored record is damaged."""


class Fenced(Error):
    """Another holder has the session by now: the receiver of this error stops at once."""


class Conflict(Error):
    """A fact has changed since it was read."""


class Unanswered(Error):
    """Nobody answers for a session; whether its holder did what it was asked for is unknown."""


class LogEntry(Struct, frozen=True, gc=False):
    """What is to be written: who says it, on whose behalf, and the message."""

    origin: Origin
    frame: bytes
    principal: str = ""
    client: str = ""  # the client it came from, which need not be told its own words


class StoredRecord(Struct, frozen=True, gc=False):
    """What was written."""

    number: int
    epoch: int
    time: float
    entry: LogEntry
    is_whole: bool = True  # otherwise it is not what was written, and `entry` says nothing


class Lease(Struct, frozen=True):
    """The right to write, until somebody else has a newer one."""

    name: str
    owner: str
    epoch: int


class Upkeep(Struct, frozen=True):
    """A lease to be renewed, and small values to be set while it is held: their kinds; their key is its name."""

    lease: Lease
    facts: Mapping[str, bytes] = {}


class Fact(Struct, frozen=True):
    """A small value and the revision it is of."""

    value: bytes
    revision: int


class LogReader(Protocol):
    """The reading side of a gateway's storage."""

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """The records after a number, in order; few enough to hold in memory."""

    async def last(self, session: str) -> int:
        """The number of a session's last record; 0 for none."""

    async def marked_for_deletion(self) -> Sequence[str]:
        """The sessions whose deletion is under way, or was cut short."""

    async def fact(self, kind: str, *key: str) -> Fact | None:
        """A small value; None when there is none.  Raises DamagedLog when it is not what was put."""

    def facts(self, kind: str, *prefix: str) -> AsyncIterator[tuple[Key, Fact]]:
        """The small values of a kind whose key begins with these parts, in any order.

        Damaged ones are left out, and logged.  Every value that is there all the time is told; one that
        changes meanwhile may be told again.
        """

    async def facts_of(self, kind: str, keys: Sequence[Key]) -> Mapping[Key, Fact]:
        """The small values of a kind that have these keys, as far as there are any; damaged ones as in `facts`."""

    def blob(self, session: str, name: str) -> AsyncIterator[bytes]:
        """Something large, in pieces."""

    async def close(self) -> None:
        """Finish what is under way."""


class Engine(LogReader, Protocol):
    """The interface of a gateway's storage."""

    async def append(self, lease: Lease, entries: Sequence[LogEntry], after: int) -> None:
        """Write records numbered from `after` + 1; durable when it returns.

        Those of them that this lease wrote there already are not written again.  Raises Fenced when the lease is
        not the newest one, or when other records stand there.
        """

    def listen(self, session: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Have something called soon after a session's log has grown, and maybe otherwise; gives what ends that.

        An `append` here has returned before it is called for that.
        """

    async def answer(self, owner: str, answer: CallHandler) -> Callable[[], Awaitable[None]]:
        """Have requests about the sessions whose leases an owner holds answered; gives what ends that."""

    async def call(self, session: str, request: bytes) -> bytes:
        """Ask whoever holds a session's lease, wherever that is; gives the answer.

        Raises Unanswered when nobody holds it, or its holder fails or takes longer than `CALL_SECONDS`.
        """

    async def forget(self, session: str) -> None:
        """Delete a session's log, and what is beside it, for good: in small steps, so that nobody waits for it."""

    async def mark_for_deletion(self, session: str) -> None:
        """Write down that a session is to be forgotten; `marked_for_deletion` names it until it is."""

    async def adopt(self, lease: Lease, records: Sequence[StoredRecord], after: int) -> None:
        """Write records of another engine as they are, numbered from `after` + 1, as `append` does."""

    async def identity(self, *, is_new: bool = False) -> str:
        """The owner in whose name to take leases: after a restart the same, where nobody else can have been it.

        One that `is_new` takes over beside a process that has leases still.
        """

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take a lease nobody else holds, with a new epoch; None while somebody does."""

    async def keep_up(self, held: Sequence[Upkeep], seconds: float) -> Collection[Lease]:
        """Hold leases for longer and set the facts beside them, in one write; gives the leases that are lost.

        Of a lease that is somebody else's nothing is written.
        """

    async def release(self, lease: Lease) -> None:
        """Give a lease up."""

    async def put_fact(self, kind: str, *key: str, value: bytes, revision: int | None = None) -> int:
        """Set a small value, if it is still of this revision if one is given (0: none yet); gives the new one.

        Raises Conflict when it has changed, also if it was this call, tried before, that changed it.
        """

    async def drop_fact(self, kind: str, *key: str) -> None:
        """Remove a small value."""

    async def check(self) -> None:
        """Raise EngineFailure unless it can write just now and has room for what comes."""

    def metrics(self) -> Mapping[str, Metric]:
        """Figures about itself, by the names that are shown."""

    async def put_blob(self, lease: Lease, data: bytes) -> str:
        """Keep something large beside a session's log, until that is forgotten; gives its name, its SHA-256.

        Raises Fenced when the lease is not the newest one.
        """


def check_fact(kind: str, key: Key, value: bytes = b"") -> None:
    """Raise ValueError for what no engine keeps as a fact."""
    if not key or sum(len(part.encode()) for part in key) > MAX_KEY:
        raise ValueError(f"the key of a {kind} has 1 to {MAX_KEY} bytes")
    if len(value) > MAX_FACT:
        raise ValueError(f"the value of a {kind} has {MAX_FACT} bytes at most, not {len(value)}")


def check_call(request: bytes) -> None:
    """Raise ValueError for what no engine carries to the holder of a lease."""
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
