"""Counts the modules that a prompt and its echo pass through: in one process, and through a gateway over WebSocket.

A module counts when one of its functions is called with a value that holds the prompt's text.
"""

import asyncio
import importlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec import Raw, Struct

from dragoman import connect
from dragoman.testing import Testy

ROOT = Path(__file__).parent.parent
SOURCE = f"{ROOT / 'src' / 'dragoman'}/"
MARK = "a-text-that-nothing-else-has"


def holds(value: Any, depth: int = 3) -> bool:
    """Whether a value has the mark in it."""
    match value:
        case str():
            return MARK in value
        case bytes() | bytearray() | memoryview() | Raw():
            return MARK.encode() in bytes(value)
        case list() | tuple() if depth:
            return any(holds(item, depth - 1) for item in value)
        case dict() if depth:
            return any(holds(item, depth - 1) for item in value.values())
        case Struct() if depth:
            return any(holds(getattr(value, name), depth - 1) for name in value.__struct_fields__)
    return False


@contextmanager
def watched() -> Iterator[set[str]]:
    """Collects the modules whose functions are called with the mark, in every thread."""
    seen: set[str] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(SOURCE) or file in seen:
            return
        if any(holds(value) for name, value in frame.f_locals.items() if name != "self"):
            seen.add(file)

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def passed(target: Any, cwd: str) -> list[str]:
    async with connect(target) as client:
        session = await client.new_session(cwd)
        await session.prompt("echo something else")  # what is done once is not counted
        with watched() as seen:
            await session.prompt(f"echo {MARK}")
    return sorted(file.removeprefix(SOURCE) for file in seen)


async def through_gateway() -> list[str]:
    sys.path.insert(0, str(ROOT / "tests"))
    hosting = importlib.import_module("gateway.house").hosting

    from dragoman.transports.remote import dial_websocket

    with tempfile.TemporaryDirectory() as directory:
        async with hosting(Path(directory)) as house:
            headers = {"Authorization": f"Bearer {house.tokens['ann']}"}
            url = f"ws://127.0.0.1:{house.server.port}/acp"
            return await passed(await dial_websocket(url, headers=headers), directory)


def main() -> None:
    for name, modules in (
        ("in one process", asyncio.run(passed(Testy, "/"))),
        ("through a gateway", asyncio.run(through_gateway())),
    ):
        own = [module for module in modules if module.startswith("gateway/")]
        print(f"{name}: {len(modules)} modules, {len(own)} of them the gateway's own")
        print(*(f"  {module}" for module in modules), sep="\n")


if __name__ == "__main__":
    main()
