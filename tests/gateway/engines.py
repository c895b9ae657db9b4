"""The engines there are: each gives stores, and a store is opened as a gateway would open it, again and again."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman.gateway.log.engine import Engine
from dragoman.gateway.log.nats.engine import NatsEngine
from dragoman.gateway.log.sqlite import SqliteEngine

from .memory import MemoryEngine, Storage
from .nats_server import nats_server

OpenEngine = Callable[[], Awaitable[Engine]]
NewStore = Callable[[], OpenEngine]


@asynccontextmanager
async def sqlite_files(directory: Path) -> AsyncIterator[NewStore]:
    count = itertools.count(1)

    def store() -> OpenEngine:
        own = directory / str(next(count))

        async def opened() -> Engine:
            return SqliteEngine(own)

        return opened

    yield store


@asynccontextmanager
async def memory(directory: Path) -> AsyncIterator[NewStore]:
    def store() -> OpenEngine:
        storage = Storage()

        async def opened() -> Engine:
            return MemoryEngine(storage)

        return opened

    yield store


@asynccontextmanager
async def nats(directory: Path) -> AsyncIterator[NewStore]:
    count = itertools.count(1)
    async with nats_server(directory) as url:

        def store() -> OpenEngine:
            prefix = f"store{next(count)}"

            async def opened() -> Engine:
                return await NatsEngine.open(f"{url}?prefix={prefix}")

            return opened

        yield store


ENGINES = {"sqlite": sqlite_files, "memory": memory, "nats": nats}
