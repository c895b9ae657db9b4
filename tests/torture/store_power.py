"""T62: what may be left of a store when the power fails, at any moment; all that was shown by then is in it."""

import asyncio
import contextlib
import json
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from power.calls import Call, recorded
from power.disk import Disk

from dragoman.store.database.database import Database
from dragoman.store.interruption import update_of

from .store_damage import MEMORY
from .store_scenario import prepare


def fail_power(count: int, seed: int) -> Counter[str]:
    """Cut the power so often and look at what is left."""
    print(f"store: {count} power failures, seed {seed}")
    return asyncio.run(_fail_power(count, random.Random(seed)))


async def _fail_power(count: int, chance: random.Random) -> Counter[str]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        store = Path(directory) / "store"
        ids = await prepare(str(store))
        disk = Disk(store)
        program = ["-m", "torture.store_scenario", "talking", json.dumps(ids)]
        events = await recorded(program, store, Path(directory))
        moments = Counter(chance.choices(range(len(events) + 1), k=count))
        shown = defaultdict[str, list[str]](list)
        deleted: set[str] = set()
        counts: Counter[str] = Counter()
        for number, event in enumerate([*events, None]):
            for _ in range(moments[number]):
                disk.leave(chance)
                counts += _looked_at(store, shown, deleted)
            if isinstance(event, Call):
                disk.happen(event)
            elif event and "shown" in event:
                shown[event["session"]].append(event["shown"])
            elif event == {"done": "delete"}:
                deleted.add(ids["doomed"])
        assert sum(map(len, shown.values())) > 50
        return counts


def _looked_at(store: Path, shown: dict[str, list[str]], deleted: set[str]) -> Counter[str]:
    """What a store says after the power came back."""
    with contextlib.closing(Database(store)) as db:
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
