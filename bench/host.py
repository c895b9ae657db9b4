"""What large questions cost: `python bench/host.py`, seconds of a processor, and how long the event loop was held.

The diffs are those that need the most time for their length: every line changed, and no line rare.
"""

import asyncio
import importlib
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from dragoman import schema as s
from dragoman.host.permissions import Permissions, Question

SAMPLES = 5
holds = importlib.import_module("loop_holds").holds
CHANGED = "".join(f"old {n}\n" for n in range(10_000)), "".join(f"new {n}\n" for n in range(10_000))
COMMON = "a\nb\n" * 5_000, "b\nb\na\n" * 3_333
ESCAPES = "\x1b'x\u0301" * 250_000


async def refuse(question: Question) -> str:
    return next(option.id for option in question.options if not option.allows)


async def ask(old: str, new: str, count: int = 1) -> None:
    """Put so many questions of different sessions about one change."""
    permissions = Permissions(asker=refuse)
    options = [s.PermissionOption(option_id="n", name="No", kind="reject_once")]
    call = s.ToolCallUpdate(tool_call_id="call", content=[s.Diff(path="/a", old_text=old, new_text=new)])
    params = [
        s.RequestPermissionRequest(session_id=f"session {n}", tool_call=call, options=options) for n in range(count)
    ]
    await asyncio.gather(*map(permissions.answer, params))


async def measured(name: str, work: Callable[[], Awaitable[None]]) -> None:
    costs, held = list[float](), list[float]()
    for _ in range(SAMPLES):
        with holds() as found:
            before = time.process_time()
            await work()
            costs.append(time.process_time() - before)
        held.append(found.longest)
    middle = SAMPLES // 2
    print(f"| {name} | {sorted(costs)[middle] * 1000:.0f} ms | {sorted(held)[middle] * 1000:.1f} ms |")


async def main() -> None:
    print("| question | of a processor | loop held |\n| --- | ---: | ---: |")
    await measured("a diff of 10,000 changed lines", lambda: ask(*CHANGED))
    await measured("a diff of 10,000 lines of two kinds", lambda: ask(*COMMON))
    await measured("eight of them at once", lambda: ask(*COMMON, count=8))
    await measured("1 MB of what has to be escaped", lambda: ask("", ESCAPES))


asyncio.run(main())
