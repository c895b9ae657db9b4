"""Reads logs, by the numbers of their records, facts and blobs on NATS."""

import bisect
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence

from ..engine import DamagedLog, Fact, Key, StoredRecord, check_fact
from .batches import lost, unpacked
from .jetstream import JetStream, StoredMessage

READ_BYTES = 1024 * 1024  # bytes of records returned at once
KNOWN_SESSIONS = 4096  # sessions whose messages are remembered by the numbers of their records
KNOWN_MESSAGES = 4096  # remembered messages of one session
TOGETHER = 500  # facts read in one request
DOOMED = "doomed"  # the kind of fact that names a session whose deletion has begun


class NatsReader:
    """Reads the data of gateways on NATS, also beside running ones."""

    def __init__(self, stream: JetStream) -> None:
        self._stream, self._subjects = stream, stream.subjects
        self._places: OrderedDict[str, _Places] = OrderedDict()

    async def close(self) -> None:
        await self._stream.close()

    # Logs

    async def read(self, session: str, after: int = 0, limit: int = 1000) -> Sequence[StoredRecord]:
        places, subject = self._places_of(session), self._subjects.log(session)
        if after >= places.last:
            places.saw(await self._stream.last("log", subject))
        found: list[StoredRecord] = []
        at, size = after, 0
        sequence, before = await self._begin(session, after + 1)
        while at < places.last and len(found) < limit and size < READ_BYTES:
            messages, _ = await self._stream.page("log", subject, sequence)
            if not messages and (late := await self._stream.behind("log", subject, sequence)):
                messages = [late]  # the first server did not have it yet
            if not messages:
                break
            for message in messages:
                places.add(before + 1, message)
                for record in unpacked(message.data, before + 1, message.last):
                    if record.number > after and len(found) < limit and size < READ_BYTES:
                        found += [record]
                        size += len(record.entry.frame)
                before, sequence = message.last, message.sequence + 1
            at = before
        if not found and after < places.last:
            return [lost(number) for number in range(after + 1, min(places.last, after + limit) + 1)]
        return found

    async def last(self, session: str) -> int:
        message = await self._stream.last("log", self._subjects.log(session))
        return message.last if message else 0

    def _places_of(self, session: str) -> "_Places":
        places = self._places.setdefault(session, _Places())
        self._places.move_to_end(session)
        while len(self._places) > KNOWN_SESSIONS:
            self._places.popitem(last=False)
        return places

    async def _begin(self, session: str, number: int) -> tuple[int, int]:
        """The message from which to read a record, and the number of the last record before it."""
        places, subject = self._places_of(session), self._subjects.log(session)
        below, above = places.around(number)
        while above and above[0] - below[0] > 64:  # binary search between known messages
            middle = await self._stream.behind("log", subject, (below[0] + above[0]) // 2)
            if middle is None or middle.sequence >= above[0]:
                above = ((below[0] + above[0]) // 2, above[1])
            elif middle.last < number:
                below = (middle.sequence + 1, middle.last)
            else:
                above = (middle.sequence, middle.last)
        return below

    # Facts

    async def fact(self, kind: str, *key: str) -> Fact | None:
        check_fact(kind, key)
        return _fact(await self._stream.last("fact", self._subjects.fact(kind, *key)))

    async def facts(self, kind: str, *prefix: str) -> AsyncIterator[tuple[Key, Fact]]:
        subjects = await self._stream.subjects_of("fact", f"{self._subjects.fact(kind, *prefix)}.>")
        for start in range(0, len(subjects), TOGETHER):
            for found in (await self._values(subjects[start : start + TOGETHER])).items():
                yield found

    async def facts_of(self, kind: str, keys: Sequence[Key]) -> Mapping[Key, Fact]:
        found: dict[Key, Fact] = {}
        for start in range(0, len(keys), TOGETHER):
            found |= await self._values([self._subjects.fact(kind, *key) for key in keys[start : start + TOGETHER]])
        return found

    async def _values(self, subjects: Sequence[str]) -> dict[Key, Fact]:
        messages = {message.subject: message for message in await self._stream.values("fact", subjects)}
        for subject in set(subjects) - messages.keys():  # it does not exist, or is not at this server yet
            if late := await self._stream.last("fact", subject):
                messages[subject] = late
        return {self._subjects.key(subject): Fact(one.data, one.sequence) for subject, one in messages.items()}

    async def marked_for_deletion(self) -> Sequence[str]:
        return [session async for (session,), _ in self.facts(DOOMED)]

    # Blobs

    async def blob(self, session: str, name: str) -> AsyncIterator[bytes]:
        pieces = at = 0
        while at == 0 or at < pieces:
            piece = await self._stream.last("blob", self._subjects.blob(session, name, at))
            if piece is None:
                raise DamagedLog(f"there is no blob {name}")
            pieces, at = piece.last, at + 1
            yield piece.data


class _Places:
    """The known messages of a log, with the numbers of the records before them."""

    def __init__(self) -> None:
        self.last = 0  # the last known record
        self._sequences: list[int] = []
        self._before: list[int] = []  # the number of the last record before each message
        self._end: tuple[int, int] | None = None  # the last known message and its last record

    def saw(self, message: StoredMessage | None) -> None:
        """Note the last message of the log."""
        if message and message.last >= self.last:
            self.last, self._end = message.last, (message.sequence, message.last)

    def add(self, first: int, message: StoredMessage) -> None:
        """Note a message that was read or written."""
        self.saw(message)
        if message.last < first or (self._sequences and message.sequence <= self._sequences[-1]):
            return
        self._sequences.append(message.sequence)
        self._before.append(first - 1)
        if len(self._sequences) > KNOWN_MESSAGES:  # every second one is enough
            del self._sequences[::2], self._before[::2]

    def around(self, number: int) -> tuple[tuple[int, int], tuple[int, int] | None]:
        """The nearest known messages at or below a record and above it."""
        place = bisect.bisect_left(self._before, number)
        below = (self._sequences[place - 1], self._before[place - 1]) if place else (1, 0)
        above = (self._sequences[place], self._before[place]) if place < len(self._sequences) else self._end
        return below, above


def _fact(message: StoredMessage | None) -> Fact | None:
    return Fact(message.data, message.sequence) if message else None
