"""An engine in memory that fails as told, for histories that have to go the same way twice.

What is stored is shared by all ports to it, so that a gateway can be stopped or killed and another go on.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from dragoman.gateway.log.engine import (
    CallHandler,
    Conflict,
    DamagedLog,
    EngineFailure,
    Fact,
    Fenced,
    Key,
    Lease,
    LogEntry,
    StoredRecord,
    Upkeep,
    answered,
    check_call,
    nobody_answers,
)


class Storage:
    """What outlives gateways, and how it behaves: `full`, `losing` acknowledgements, or held while not `open`."""

    def __init__(self) -> None:
        self.logs: dict[str, list[StoredRecord]] = {}
        self.leases: dict[str, tuple[str, int]] = {}
        self.facts: dict[tuple[str, Key], Fact] = {}
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.marked_for_deletion: set[str] = set()
        self.listeners: dict[str, set[Callable[[], None]]] = {}
        self.answers: dict[str, CallHandler] = {}
        self.is_full = self.is_losing = False
        self.is_open = asyncio.Event()
        self.is_open.set()


class MemoryEngine:
    """One gateway's port to a storage; after `kill` nothing it writes is kept."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._is_dead = False

    def kill(self) -> None:
        self._is_dead = True

    async def _write(self) -> None:
        await asyncio.sleep(0)
        await self._storage.is_open.wait()
        await asyncio.sleep(0)
        if self._is_dead or self._storage.is_full:
            raise EngineFailure("the disk is full")

    def _lose(self) -> None:
        if self._storage.is_losing:
            raise EngineFailure("the acknowledgement was lost")

    def _holds(self, lease: Lease) -> bool:
        return self._storage.leases.get(lease.name) == (lease.owner, lease.epoch)

    def _must_hold(self, lease: Lease) -> None:
        if not self._holds(lease):
            raise Fenced(f"{lease.name} has another owner by now")

    async def append(self, lease: Lease, entries: Sequence[LogEntry], after: int) -> None:
        await self._write()
        self._must_hold(lease)
        log = self._storage.logs.setdefault(lease.name, [])
        new = [StoredRecord(after + place, lease.epoch, 0.0, entry) for place, entry in enumerate(entries, 1)]
        if log[after:] != new[: len(log) - after] or len(log) < after:
            raise Fenced("the log has grown")
        log += new[len(log) - after :]
        self._lose()
        for wake in tuple(self._storage.listeners.get(lease.name, ())):
            asyncio.get_running_loop().call_soon(wake)

    async def adopt(self, lease: Lease, records: Sequence[StoredRecord], after: int) -> None:
        await self._write()
        self._must_hold(lease)
        self._storage.logs.setdefault(lease.name, []).extend(records)

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        await asyncio.sleep(0)
        return self._storage.logs.get(session, [])[after : after + limit]

    async def last(self, session: str) -> int:
        await asyncio.sleep(0)
        return len(self._storage.logs.get(session, []))

    def listen(self, session: str, wake: Callable[[], None]) -> Callable[[], None]:
        listeners = self._storage.listeners.setdefault(session, set())
        listeners.add(wake)
        return lambda: listeners.discard(wake)

    async def answer(self, owner: str, answer: CallHandler) -> Callable[[], Awaitable[None]]:
        self._storage.answers[owner] = answer

        async def end() -> None:
            self._storage.answers.pop(owner, None)

        return end

    async def call(self, session: str, request: bytes) -> bytes:
        check_call(request)
        await asyncio.sleep(0)
        owner, _ = self._storage.leases.get(session, ("", 0))
        if (answer := self._storage.answers.get(owner)) is None:
            raise nobody_answers(session)
        return await answered(answer, session, request)

    async def forget(self, session: str) -> None:
        await self._write()
        self._storage.logs.pop(session, None)
        for key in [key for key in self._storage.blobs if key[0] == session]:
            del self._storage.blobs[key]
        self._storage.marked_for_deletion.discard(session)

    async def mark_for_deletion(self, session: str) -> None:
        await self._write()
        self._storage.marked_for_deletion.add(session)

    async def marked_for_deletion(self) -> Sequence[str]:
        await asyncio.sleep(0)
        return sorted(self._storage.marked_for_deletion)

    async def identity(self, *, is_new: bool = False) -> str:
        return "us"

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        await self._write()
        _, epoch = self._storage.leases.get(name, ("", 0))
        self._storage.leases[name] = owner, epoch + 1
        return Lease(name, owner, epoch + 1)

    async def keep_up(self, held: Sequence[Upkeep], seconds: float) -> Collection[Lease]:
        await self._write()
        lost = {one.lease for one in held if not self._holds(one.lease)}
        for one in held:
            for kind, value in one.facts.items() if one.lease not in lost else ():
                self._put_fact(kind, (one.lease.name,), value)
        self._lose()
        return lost

    async def release(self, lease: Lease) -> None:
        await self._write()
        if self._holds(lease):
            self._storage.leases[lease.name] = "", lease.epoch

    async def fact(self, kind: str, *key: str) -> Fact | None:
        await asyncio.sleep(0)
        return self._storage.facts.get((kind, key))

    async def facts(self, kind: str, *prefix: str) -> AsyncIterator[tuple[Key, Fact]]:
        for (of, key), fact in sorted(self._storage.facts.items()):
            await asyncio.sleep(0)
            if of == kind and key[: len(prefix)] == prefix:
                yield key, fact

    async def facts_of(self, kind: str, keys: Sequence[Key]) -> Mapping[Key, Fact]:
        await asyncio.sleep(0)
        return {key: self._storage.facts[kind, key] for key in keys if (kind, key) in self._storage.facts}

    async def put_fact(self, kind: str, *key: str, value: bytes, revision: int | None = None) -> int:
        await self._write()
        number = self._put_fact(kind, key, value, revision)
        self._lose()
        return number

    def _put_fact(self, kind: str, key: Key, value: bytes, revision: int | None = None) -> int:
        before = self._storage.facts.get((kind, key))
        found = before.revision if before else 0
        if revision is not None and revision != found:
            raise Conflict(f"{kind} {key} has changed")
        self._storage.facts[kind, key] = Fact(value, found + 1)
        return found + 1

    async def drop_fact(self, kind: str, *key: str) -> None:
        await self._write()
        self._storage.facts.pop((kind, key), None)

    async def put_blob(self, lease: Lease, data: bytes) -> str:
        await self._write()
        self._must_hold(lease)
        name = hashlib.sha256(data).hexdigest()
        self._storage.blobs[lease.name, name] = data
        return name

    async def blob(self, session: str, name: str) -> AsyncIterator[bytes]:
        if (session, name) not in self._storage.blobs:
            raise DamagedLog(f"there is no blob {name}")
        yield self._storage.blobs[session, name]

    async def check(self) -> None:
        await self._write()

    def metrics(self) -> Mapping[str, Any]:
        return {}

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the engine in memory lacks {name}, which the port has by now")

    async def close(self) -> None:
        pass
