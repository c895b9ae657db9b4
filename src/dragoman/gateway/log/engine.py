"""The port between a gateway and what keeps its word: logs, leases, small facts and large ones.

A gateway holds nothing that may not be lost with it.  What has happened in a session is a log of numbered records;
who may write to it is a lease; both are an engine's.  An engine may be one file on one machine (`sqlite`) or spread
over many: nothing above this file knows.

Rule 1: what `append` has returned from is durable, and in the order of its numbers.
Rule 2: only the holder of the session's lease appends: an epoch that is not the newest is refused (`Fenced`).
Rule 3: a record is read as it was written, byte for byte, or it says that it is not; a number is never left out.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from ...errors import Error

Origin = Literal["agent", "client", "gateway"]


class EngineFailure(Error):
    """The engine cannot keep its word just now; nothing was acknowledged."""


class DamagedLog(EngineFailure):
    """What was kept is not what was written."""


class Fenced(Error):
    """Somebody else has the session by now: whoever gets this is to stop at once."""


class Conflict(Error):
    """A fact has changed since it was read."""


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


class Fact(Struct, frozen=True):
    """A small value and the revision it is of."""

    value: bytes
    revision: int


class LogReader(Protocol):
    """What can be read of whatever keeps a gateway's sessions."""

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        """The records after a number, in order; few enough to hold in memory."""

    async def last(self, session: str) -> int:
        """The number of a session's last record; 0 for none."""

    async def doomed(self) -> Sequence[str]:
        """The sessions whose deletion is under way, or was cut short."""

    async def fact(self, kind: str, key: str) -> Fact | None:
        """A small value; None when there is none.  Raises Damaged when it is not what was put."""

    async def facts(
        self, kind: str, prefix: str = "", *, after: str = "", limit: int | None = None
    ) -> Mapping[str, Fact]:
        """The small values of a kind whose key begins like this, in the order of their keys, after one of them.

        The damaged ones are left out, and logged.
        """

    async def facts_of(self, kind: str, keys: Sequence[str]) -> Mapping[str, Fact]:
        """The small values of a kind that have these keys, as far as there are any; damaged ones as in `facts`."""

    def blob(self, session: str, name: str) -> AsyncIterator[bytes]:
        """Something large, in pieces."""

    async def close(self) -> None:
        """Finish what is under way."""


class Engine(LogReader, Protocol):
    """What a gateway needs of whatever keeps its sessions."""

    async def append(self, lease: Lease, entries: Sequence[LogEntry], after: int) -> None:
        """Write records numbered from `after` + 1; durable when it returns.

        Raises Fenced when the lease is not the newest one or `after` is not the last number.
        """

    def listen(self, session: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Have something called whenever a session's log has grown; gives what ends that."""

    async def forget(self, session: str) -> None:
        """Delete a session's log, and what is beside it, for good: in small steps, so that nobody waits for it."""

    async def doom(self, session: str) -> None:
        """Write down that a session is to be forgotten; `doomed` names it until it is."""

    async def adopt(self, session: str, records: Sequence[StoredRecord], after: int) -> None:
        """Write records of another engine as they are, numbered from `after` + 1; nobody holds the session."""

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        """Take a lease nobody holds, with a new epoch; None while somebody does."""

    async def renew(self, lease: Lease, seconds: float) -> None:
        """Hold a lease for longer; raises Fenced when it is somebody else's."""

    async def release(self, lease: Lease) -> None:
        """Give a lease up."""

    async def put_fact(self, kind: str, key: str, value: bytes, revision: int | None = None) -> int:
        """Set a small value, if it is still of this revision if one is given (0: none yet); gives the new one."""

    async def drop_fact(self, kind: str, key: str) -> None:
        """Remove a small value."""

    async def put_blob(self, session: str, data: bytes) -> str:
        """Keep something large beside a session's log, until that is forgotten; gives its name, its SHA-256."""
