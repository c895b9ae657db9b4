"""Many clients that use the same ids and the same words for different things; nobody hears what is another's."""

import asyncio
import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from dragoman.gateway.access.limits import Limits

from .house import hosting


async def crowd(directory: Path, *, clients: int, requests: int, tenants: int = 10) -> dict[str, int]:
    """Each client counts its ids from 0 and watermarks what it says; every answer and update is looked through."""
    people = tuple(f"tenant{number}" for number in range(tenants))
    limits = Limits(sessions_each=clients, connections=clients + 10, connections_each=clients)
    figures = {"clients": clients, "requests": 0, "crossed": 0}
    each = max(1, requests // clients)
    async with hosting(directory, people=people, limits=limits) as house, AsyncExitStack() as stack:
        visits = [
            await stack.enter_async_context(house.bare(people[number % tenants])) for number in range(clients)
        ]
        marks = [secrets.token_hex(8) for _ in visits]
        outcomes = await asyncio.gather(
            *(_talk(bare, mark, each, directory) for bare, mark in zip(visits, marks, strict=True))
        )
    figures["requests"] = sum(count for count, _ in outcomes)
    figures["crossed"] = sum(crossed for _, crossed in outcomes)
    return figures


async def _talk(bare: Any, mark: str, count: int, directory: Path) -> tuple[int, int]:
    """Ask again and again; gives how often, and how much of what came was somebody else's."""
    bare.frames.clear()
    opened = await bare.ask("session/new", {"cwd": str(directory), "mcpServers": []}, id=0)
    session = opened["result"]["sessionId"]
    crossed = asked = 0
    for id in range(1, count + 1):
        blocks = [{"type": "text", "text": f"echo {mark}-{id}"}]
        answer = await bare.ask("session/prompt", {"sessionId": session, "prompt": blocks}, id=id)
        asked += 1
        crossed += "result" not in answer
        said = [f for f in bare.frames if f.get("method") == "session/update"]
        chunks = [f for f in said if f["params"]["update"]["sessionUpdate"] == "agent_message_chunk"]
        crossed += any(f["params"]["sessionId"] != session for f in said)
        crossed += [f["params"]["update"]["content"]["text"] for f in chunks] != [f"{mark}-{id}"]
        bare.frames.clear()
    return asked, crossed
