"""Fails the power at moments of a program's work, and looks at what is left each time."""

import asyncio
import random
from collections import Counter
from pathlib import Path

from .calls import Call, recorded
from .disk import Disk
from .programs import REPORTING, Part


async def fail_power(part: Part, directory: Path, count: int, seed: int) -> Counter[str]:
    """So many failures, at moments of chance; gives how many steps were done by then, and how often."""
    chance = random.Random(seed)
    root = directory / "root"
    root.mkdir(mode=0o700)
    part.prepare(root)
    disk = Disk(root)
    events = await recorded(["-c", REPORTING + part.program], root, directory)
    moments = Counter(chance.choices(range(len(events) + 1), k=count))
    done, counts = 0, Counter[str]()
    for number, event in enumerate([*events, None]):
        for _ in range(moments[number]):
            disk.leave(chance)
            try:
                await asyncio.to_thread(part.check, root, done)  # some begin a loop of their own
            except BaseException as exc:
                exc.add_note(f"seed {seed}, before call {number} of {len(events)}: {str(event)[:300]}")
                raise
            counts[f"step {done}"] += 1
        if isinstance(event, Call):
            disk.happen(event)
        elif event:
            done = event["done"]
    assert done == len(part.outcomes) - 1, "the program has not come to its end"
    return counts
