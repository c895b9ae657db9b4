"""What all viewers of a session are shown of each other: who is there, and which prompts wait."""

import asyncio
from collections.abc import Collection, Iterable
from typing import Any

from .outcomes import HostedTurn
from .viewer import Viewer


def show_presence(viewers: Collection[Viewer]) -> None:
    """Tell everybody who is there."""
    people: dict[str, dict[str, Any]] = {}
    for viewer in viewers:
        name = viewer.visitor.name
        person = people.setdefault(name, {"principal": name, "role": viewer.role, "seats": 0})
        person["seats"] += 1
    for viewer in viewers:
        viewer.notify("_dragoman/presence", {"people": list(people.values())})


def show_queue(viewers: Collection[Viewer], running: HostedTurn | None, waiting: Iterable[HostedTurn]) -> None:
    """Tell everybody which prompt is being answered, and which wait."""
    shown = {"running": running and _shown(running), "waiting": [_shown(turn) for turn in waiting]}
    for viewer in viewers:
        viewer.notify("_dragoman/queue", shown)


def _shown(turn: HostedTurn) -> dict[str, str]:
    return {"prompt": turn.key, "principal": turn.principal}


async def tell_all(viewers: Collection[Viewer], number: int, seconds: float) -> None:
    """Have everybody told everything up to a record, as far as they take it in that time."""
    if viewers:
        telling = [asyncio.ensure_future(viewer.reached(number)) for viewer in viewers]
        _, late = await asyncio.wait(telling, timeout=seconds)
        for task in late:
            task.cancel()
