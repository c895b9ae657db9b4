"""T62: what may be left on a disk when the power fails, at any moment; all that was shown by then is in it.

The calls of a scenario are recorded, with their bytes, and its disk is made again up to any of them.  What was
written and not yet synced may be there or not, in any order, and the last of it in part.
"""

import asyncio
import contextlib
import json
import random
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dragoman.store.database.database import Database
from dragoman.store.interruption import update_of

from .store_damage import MEMORY
from .store_faults import Fault, Site

CALLS = "pwrite64,fsync,fdatasync,ftruncate,unlink,write"
SECTOR = 512  # bytes a disk writes at once
_CALL = re.compile(r'\d+ +(\w+)\((?:\d+<([^>]*)>|"([^"]*)")(?:, "([^"]*)", (\d+)(?:, (\d+))?|, (\d+))?')


class Change(NamedTuple):
    """Bytes written, or a new length."""

    place: int
    data: bytes | None


class Event(NamedTuple):
    """A call that was made: to which file, and what it did; a sync has no change, the end of a file none either."""

    call: str
    name: str
    change: Change | None = None


class Disk:
    """Files, and what was done to them since they were last synced."""

    def __init__(self, store: Path) -> None:
        self._files = {path.name: path.read_bytes() for path in store.iterdir() if path.is_file()}
        self._pending: dict[str, list[Change]] = defaultdict(list)

    def happen(self, event: Event) -> None:
        if event.change is not None:
            self._pending[event.name].append(event.change)
        elif event.call == "unlink":
            self._files.pop(event.name, None)
            self._pending.pop(event.name, None)
        elif changes := self._pending.pop(event.name, None):
            self._files[event.name] = _changed(self._files.get(event.name, b""), changes)

    def image(self, chance: random.Random, directory: Path) -> None:
        """Write down what may be left."""
        keep = chance.choice((0.0, 0.5, 0.9, 1.0))
        for name in self._files.keys() | self._pending.keys():
            changes = [change for change in self._pending[name] if chance.random() < keep]
            if chance.random() < 0.3:
                chance.shuffle(changes)
            if changes and changes[-1].data and chance.random() < 0.5:
                place, data = changes[-1]
                changes[-1] = Change(place, data[: chance.randrange(len(data) // SECTOR + 1) * SECTOR])
            (directory / name).write_bytes(_changed(self._files.get(name, b""), changes))


def _changed(content: bytes, changes: list[Change]) -> bytes:
    now = bytearray(content)
    for place, data in changes:
        if data is None:
            del now[place:]
        else:
            now.extend(bytes(max(0, place - len(now))))
            now[place : place + len(data)] = data
    return bytes(now)


def fail_power(count: int, seed: int) -> Counter[str]:
    """Cut the power so often and look at what is left."""
    print(f"store: {count} power failures, seed {seed}")
    return asyncio.run(_fail_power(count, random.Random(seed)))


async def _fail_power(count: int, chance: random.Random) -> Counter[str]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        site = await Site(Path(directory)).prepared()
        events = await _recorded(site)
        moments = Counter(chance.choices(range(len(events) + 1), k=count))
        disk, shown = Disk(site.whole), defaultdict[str, list[str]](list)
        deleted: set[str] = set()
        counts: Counter[str] = Counter()
        for number, event in enumerate([*events, None]):
            for _ in range(moments[number]):
                counts += _looked_at(disk, chance, shown, deleted)
            if isinstance(event, Event):
                disk.happen(event)
            elif event and "shown" in event:
                shown[event["session"]].append(event["shown"])
            elif event == {"done": "delete"}:
                deleted.add(site.ids["doomed"])
        assert sum(map(len, shown.values())) > 50
        return counts


async def _recorded(site: Site) -> list[Event | dict[str, str]]:
    """The calls of the disk in a scenario, and between them what its client says it has seen."""
    tracing = ("-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}")
    async with site.ran(Fault("talking", "", "", 0), tracing) as (store, log, _):
        return list(_read(log.read_text(), store))


def _read(log: str, store: Path) -> Iterator[Event | dict[str, str]]:
    for found in map(_CALL.match, log.splitlines()):
        if found is None:
            continue
        call, *_ = found.groups()
        path = Path(_bytes(found[2] or found[3]).decode())
        if path.parent == store and call != "write":
            change = None
            if call == "pwrite64":
                change = Change(int(found[6]), _bytes(found[4]))
            elif call == "ftruncate":
                change = Change(int(found[7]), None)
            yield Event(call, path.name, change)
        elif path.name == "report" and call == "write":
            yield json.loads(_bytes(found[4]))


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _looked_at(disk: Disk, chance: random.Random, shown: dict[str, list[str]], deleted: set[str]) -> Counter[str]:
    """What a store says after the power came back."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        disk.image(chance, Path(directory))
        with contextlib.closing(Database(Path(directory))) as db:
            assert not list(db.verify())
            listed = {summary.id: summary.head.last for summary in db.summaries()}
            assert not deleted & listed.keys(), "what was deleted is back"
            for id, texts in shown.items():
                told = [text for text in _texts(db, id, listed[id]) if text in set(texts)]
                assert told == texts, "something shown is gone, told twice or out of order"
    return Counter({"images": 1, "updates": sum(map(len, shown.values()))})


def _texts(db: Database, id: str, last: int) -> Iterator[str]:
    for part in db.lines(id, last):
        assert isinstance(part, list), part
        for update in map(update_of, part):
            if text := getattr(getattr(update, "content", None), "text", ""):
                yield text.rstrip("x")
