"""The engine on NATS JetStream: any number of gateways write to it, each to the sessions whose leases it holds.

A log is the messages under one subject, each with several records.  A writer names the last message it knows, and
the server refuses a write that names another one.  A process that takes a lease first writes an empty message; from
then on, the previous writer names the wrong message.  A lease is a message that expires unless it is renewed.
"""

import asyncio
import contextlib
import functools
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import msgspec
from msgspec import Struct

from ...metrics import Metric
from ...workers import owned
from ..engine import (
    CallHandler,
    Conflict,
    Fenced,
    Lease,
    LogEntry,
    StoredRecord,
    Unanswered,
    Upkeep,
    answered,
    check_call,
    check_fact,
    nobody_answers,
)
from .batches import packed, portions
from .jetstream import EPOCH, LAST, JetStream, StoredMessage, WrongSequence
from .reading import DOOMED, NatsReader

PIECE = 512 * 1024  # bytes of a blob in one message
AT_ONCE = 32  # leases renewed concurrently


class _Tail(Struct):
    """The end of a log: its last message, its last record, and the epoch of its lease."""

    sequence: int = 0
    number: int = 0
    epoch: int = 0


class _Holder(Struct):
    owner: str
    epoch: int


class NatsEngine(NatsReader):
    """Stores everything on NATS."""

    @staticmethod
    async def open(url: str) -> "NatsEngine":
        """Connect; raises EngineFailure with the reason."""
        return NatsEngine(await JetStream.connect(url))

    def __init__(self, stream: JetStream) -> None:
        super().__init__(stream)
        self._owner = secrets.token_hex(8)
        self._tails: dict[str, _Tail] = {}  # the ends of the logs that we write
        self._renewed: dict[str, int] = {}  # the message of each lease of ours
        self._listeners: dict[str, set[Callable[[], None]]] = {}
        self._following: dict[str, asyncio.Task[object]] = {}

    async def identity(self, *, is_new: bool = False) -> str:
        """A new owner for every process, because others may hold leases."""
        return self._owner

    async def check(self) -> None:
        await self.put_fact("gateway", "checked", self._owner, value=b"")

    def metrics(self) -> Mapping[str, Metric]:
        return {}

    async def close(self) -> None:
        for task in list(self._following.values()):
            task.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
        await super().close()

    # Logs

    async def append(self, lease: Lease, entries: Sequence[LogEntry], after: int) -> None:
        now = time.time()
        records = [StoredRecord(after + place, lease.epoch, now, entry) for place, entry in enumerate(entries, 1)]
        await self._write(lease, records, after)
        for wake in tuple(self._listeners.get(lease.name, ())):
            asyncio.get_running_loop().call_soon(wake)

    async def adopt(self, lease: Lease, records: Sequence[StoredRecord], after: int) -> None:
        await self._write(lease, records, after)

    async def _write(self, lease: Lease, records: Sequence[StoredRecord], after: int) -> None:
        tail = await self._tail(lease)
        if tail.number != after:
            records = await self._unwritten(lease.name, records, after, tail.number)
        for portion in portions(records):
            number = portion[-1].number
            headers = {LAST: str(number), EPOCH: str(lease.epoch)}
            subject = self._subjects.log(lease.name)
            data = packed(portion)
            try:
                sequence = await self._stream.publish(subject, data, expected=tail.sequence, headers=headers)
            except WrongSequence:
                self._tails.pop(lease.name, None)
                raise Fenced(f"the log of {lease.name} has another writer by now") from None
            except BaseException:  # the next operation first checks whether it was written
                self._tails.pop(lease.name, None)
                raise
            first, tail = tail.number + 1, _Tail(sequence, number, lease.epoch)
            self._tails[lease.name] = tail
            self._places_of(lease.name).add(first, StoredMessage(subject, sequence, b"", headers))

    async def _tail(self, lease: Lease) -> _Tail:
        """The end of a log that we write; raises Fenced if another process writes it."""
        tail = self._tails.get(lease.name)
        if tail is None or tail.epoch != lease.epoch:
            tail = await self._end_of(lease.name)
            if tail.epoch == lease.epoch:
                self._tails[lease.name] = tail
        if tail.epoch != lease.epoch:
            raise Fenced(f"{lease.name} has another owner by now")
        return tail

    async def _end_of(self, session: str) -> _Tail:
        message = await self._stream.last("log", self._subjects.log(session))
        self._places_of(session).saw(message)
        return _Tail(message.sequence, message.last, message.epoch) if message else _Tail()

    async def _unwritten(
        self, session: str, records: Sequence[StoredRecord], after: int, last: int
    ) -> Sequence[StoredRecord]:
        """Those of some records that an unacknowledged attempt has not written."""
        there: list[StoredRecord] = []
        while after + len(there) < last and (page := await self.read(session, after + len(there), len(records))):
            there += page
        said = [(one.epoch, one.entry) for one in records]
        if not there or [(one.epoch, one.entry) for one in there] != said[: len(there)]:
            raise Fenced(f"the log of {session} was written by another process")
        return records[len(there) :]

    def listen(self, session: str, wake: Callable[[], None]) -> Callable[[], None]:
        listeners = self._listeners.setdefault(session, set())
        listeners.add(wake)
        if session not in self._following:
            died = functools.partial(self._followed_no_longer, session)
            self._following[session] = owned(self._follow(session), "log tail", died)

        def end() -> None:
            listeners.discard(wake)
            if not listeners and self._listeners.get(session) is listeners:
                del self._listeners[session]
                if following := self._following.pop(session, None):
                    following.cancel()

        return end

    def _followed_no_longer(self, session: str, why: Exception) -> None:
        """Follow again with the next listener; records written here are reported anyway."""
        self._following.pop(session, None)

    async def _follow(self, session: str) -> None:
        def heard() -> None:
            for wake in tuple(self._listeners.get(session, ())):
                wake()

        end = await self._stream.follow(self._subjects.tail(session), heard)
        try:
            heard()  # for records that came before the subscription was active
            await asyncio.Event().wait()
        finally:
            await end()

    async def answer(self, owner: str, answer: CallHandler) -> Callable[[], Awaitable[None]]:
        async def give(session: str, request: bytes) -> bytes | None:
            try:
                return await answered(answer, session, request)
            except Unanswered:
                return None

        return await self._stream.answer(self._subjects.calls(owner), give)

    async def call(self, session: str, request: bytes) -> bytes:
        check_call(request)
        holder = _holder(await self._stream.last("lease", self._subjects.lease(session)))
        said = await self._stream.ask(self._subjects.calls(holder.owner), session, request) if holder else None
        if said is None:
            raise nobody_answers(session)
        return said

    async def forget(self, session: str) -> None:
        await self.mark_for_deletion(session)
        await self._stream.purge("log", self._subjects.log(session))
        await self._stream.purge("blob", self._subjects.blobs(session))
        await self._stream.purge("lease", self._subjects.lease(session))
        for known in (self._tails, self._renewed, self._places):
            known.pop(session, None)
        await self.drop_fact(DOOMED, session)

    async def mark_for_deletion(self, session: str) -> None:
        await self.put_fact(DOOMED, session, value=b"")

    # Leases

    async def acquire(self, name: str, owner: str, seconds: float) -> Lease | None:
        held = await self._stream.last("lease", self._subjects.lease(name))
        holder = _holder(held)
        if holder and holder.owner != owner:
            return None
        tail = await self._end_of(name)
        lease = Lease(name, owner, max(holder.epoch if holder else 0, tail.epoch) + 1)
        try:
            await self._hold(lease, held.sequence if held else 0, seconds)
        except WrongSequence:
            return None
        return lease if await self._fence(lease, tail) else None

    async def _hold(self, lease: Lease, expected: int, seconds: float) -> None:
        data = msgspec.json.encode(_Holder(lease.owner, lease.epoch))
        subject = self._subjects.lease(lease.name)
        self._renewed[lease.name] = await self._stream.publish(subject, data, expected=expected, seconds=seconds)

    async def _fence(self, lease: Lease, tail: _Tail) -> bool:
        """Write an announcement to the log; the previous writer is refused from then on."""
        subject = self._subjects.log(lease.name)
        while tail.epoch < lease.epoch:
            headers = {LAST: str(tail.number), EPOCH: str(lease.epoch)}
            try:
                sequence = await self._stream.publish(subject, packed(()), expected=tail.sequence, headers=headers)
            except WrongSequence:
                tail = await self._end_of(lease.name)
            else:
                self._tails[lease.name] = _Tail(sequence, tail.number, lease.epoch)
                return True
        return False

    async def keep_up(self, held: Sequence[Upkeep], seconds: float) -> Collection[Lease]:
        room = asyncio.Semaphore(AT_ONCE)

        async def keep(one: Upkeep) -> Lease | None:
            async with room:
                if not await self._renew(one.lease, seconds):
                    return one.lease
                for kind, value in one.facts.items():
                    await self.put_fact(kind, one.lease.name, value=value)
                return None

        async with asyncio.TaskGroup() as group:
            kept = [group.create_task(keep(one)) for one in held]
        return [lost for one in kept if (lost := one.result())]

    async def _renew(self, lease: Lease, seconds: float) -> bool:
        """Renew a lease; false if another process holds it."""
        expected = self._renewed.get(lease.name, 0)
        for _ in range(2):
            if (await self._tail_or_none(lease)) is None:
                return False
            try:
                await self._hold(lease, expected, seconds)
            except WrongSequence:
                found = await self._stream.last("lease", self._subjects.lease(lease.name))
                holder = _holder(found)
                if holder and holder != _Holder(lease.owner, lease.epoch):
                    return False
                expected = found.sequence if found else 0
            else:
                return True
        return False

    async def _tail_or_none(self, lease: Lease) -> _Tail | None:
        try:
            return await self._tail(lease)
        except Fenced:
            return None

    async def release(self, lease: Lease) -> None:
        self._renewed.pop(lease.name, None)
        self._tails.pop(lease.name, None)
        subject = self._subjects.lease(lease.name)
        held = await self._stream.last("lease", subject)
        if held is None or _holder(held) != _Holder(lease.owner, lease.epoch):
            return  # another process holds it by now, or it has expired
        with contextlib.suppress(WrongSequence):
            await self._stream.publish(subject, b"", expected=held.sequence, seconds=1)

    # Facts

    async def put_fact(self, kind: str, *key: str, value: bytes, revision: int | None = None) -> int:
        check_fact(kind, key, value)
        try:
            return await self._stream.publish(self._subjects.fact(kind, *key), value, expected=revision)
        except WrongSequence:
            raise Conflict(f"the {kind} {key} has changed since it was read") from None

    async def drop_fact(self, kind: str, *key: str) -> None:
        check_fact(kind, key)
        await self._stream.purge("fact", self._subjects.fact(kind, *key))

    # Blobs

    async def put_blob(self, lease: Lease, data: bytes) -> str:
        if (await self._end_of(lease.name)).epoch != lease.epoch:
            raise Fenced(f"{lease.name} has another owner by now")
        name = hashlib.sha256(data).hexdigest()
        pieces = [data[start : start + PIECE] for start in range(0, len(data), PIECE)] or [b""]
        for at, piece in enumerate(pieces):
            subject = self._subjects.blob(lease.name, name, at)
            await self._stream.publish(subject, piece, headers={LAST: str(len(pieces))})
        return name


def _holder(message: StoredMessage | None) -> _Holder | None:
    """The holder of a lease; an empty message means that it was released."""
    return msgspec.json.decode(message.data, type=_Holder) if message and message.data else None
