"""Reports to all viewers of a session who is there and which prompts wait."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable

from ...foundation.documents import Document
from .outcomes import HostedTurn
from .viewer import Viewer


def show_presence(viewers: Collection[Viewer]) -> None:
    """Tell all viewers who is there."""
    roles: dict[str, str] = {}
    for viewer in viewers:
        roles.setdefault(viewer.client.name, viewer.role)
    seats = Counter(viewer.client.name for viewer in viewers)
    people = [{"principal": name, "role": role, "seats": seats[name]} for name, role in roles.items()]
    for viewer in viewers:
        viewer.notify("_dragoman/presence", {"people": people})


def show_queue(viewers: Collection[Viewer], running: HostedTurn | None, waiting: Iterable[HostedTurn]) -> None:
    """Tell all viewers which prompt is being answered, and which wait."""
    shown: Document = {
        "running": _shown(running) if running else None,
        "waiting": [_shown(turn) for turn in waiting],
    }
    for viewer in viewers:
        viewer.notify("_dragoman/queue", shown)


def _shown(turn: HostedTurn) -> dict[str, str]:
    return {"prompt": turn.key, "principal": turn.principal}


async def tell_all(viewers: Collection[Viewer], number: int, seconds: float) -> None:
    """Wait until all viewers have got everything up to a record, for a limited time."""
    if viewers:
        telling = [asyncio.ensure_future(viewer.reached(number)) for viewer in viewers]
        _, late = await asyncio.wait(telling, timeout=seconds)
        for task in late:
            task.cancel()
