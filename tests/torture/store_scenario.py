"""What is done with a store while its disk fails, or the process dies: run as a program, one step after the other.

Every step says on the report what its client has seen, at once, by a call that never fails: `write`, which SQLite
does not use.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

from dragoman import Client, Session, connect
from dragoman import schema as s
from dragoman.errors import Error, RpcError
from dragoman.store import Store, durable
from dragoman.store.database import file, migrations

from .store_damage import Chronicler

KEPT, DOOMED = "kept", "doomed"  # prompts whose sessions every store of a scenario has
STEP = (
    "CREATE TABLE more (word TEXT); INSERT INTO more VALUES ('more'); ALTER TABLE sessions ADD COLUMN colour TEXT"
)
Say = Callable[..., None]


def migrate() -> None:
    """Be a later version, whose layout has one step more."""
    migrations.STEPS = (*migrations.STEPS[:1], STEP)


async def prepare(path: str) -> dict[str, str]:
    """A store for the scenarios; gives its sessions by name."""
    ids = {}
    async with connect(durable(Chronicler, Store(path))) as client:
        for name in (KEPT, DOOMED):
            session = await client.new_session("/")
            await session.prompt(f"{name} 40 100")
            ids[name] = session.id
    return ids


class Scenario:
    """A client that goes on after every refusal."""

    def __init__(self, client: Client, ids: dict[str, str], say: Say) -> None:
        self._client, self._ids, self._say = client, ids, say

    async def talk(self) -> None:
        """All that changes a store."""
        kept = await self.begin()
        new = await self._open("new", self._client.new_session("/"))
        await self._prompt(new, "two")
        await self._step("delete", self._delete())
        await self._prompt(new, "three")
        await self._step("title", self._title())
        fork = await self._open("fork", self._client.fork_session(self._ids[KEPT], "/"))
        await self._prompt(fork, "four")
        await self._prompt(kept, "five")

    async def begin(self) -> Session | None:
        """Go on with a session there is."""
        kept = await self._open("load", self._client.load_session(self._ids[KEPT], "/"))
        await self._prompt(kept, "one")
        return kept

    async def _step(self, name: str, work: Any) -> Any:
        try:
            done = await work
        except RpcError as exc:
            self._say(refused=name, why=str(exc))
            return None
        self._say(done=name)
        return done

    async def _open(self, name: str, work: Any) -> Session | None:
        session: Session | None = await self._step(name, work)
        return session

    async def _prompt(self, session: Session | None, name: str) -> None:
        if session is not None:
            await self._step(name, self._turn(session, name))

    async def _turn(self, session: Session, name: str) -> None:
        async for event in self._shown(session, f"{name} 10 500"):
            self._say(session=session.id, shown=event.rstrip("x"))

    async def _shown(self, session: Session, prompt: str) -> AsyncIterator[str]:
        async for event in session.prompt(prompt):
            if isinstance(event, s.AgentMessageChunk) and event.content.text.startswith("<"):  # type: ignore[union-attr]
                yield event.content.text  # type: ignore[union-attr]

    async def _delete(self) -> None:
        await self._client.agent.delete_session(s.DeleteSessionRequest(session_id=self._ids[DOOMED]))

    async def _title(self) -> None:
        await self._client.agent.set_title(s.SetSessionTitleRequest(session_id=self._ids[KEPT], title="My title"))


async def _main(what: str, ids: str, path: str, report: str) -> None:
    fd = os.open(report, os.O_WRONLY | os.O_APPEND)

    def say(**said: str) -> None:
        os.write(fd, json.dumps(said).encode() + b"\n")

    if what == "migrating":
        migrate()
    file.CHECKPOINT = 50_000  # so that there are some
    try:
        async with asyncio.timeout(60), connect(durable(Chronicler, Store(path, level="power"))) as client:
            scenario = Scenario(client, json.loads(ids), say)
            await (scenario.talk() if what == "talking" else scenario.begin())
    except Error as exc:
        say(ended=str(exc))
    else:
        say(ended="")


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
