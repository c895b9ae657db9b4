"""All composers, stored by the gateway's engine across restarts, and the open ones."""

import asyncio
import contextlib
import functools
import itertools
import re
import time
from contextlib import AsyncExitStack

import msgspec
from msgspec import Struct

from ...agent.apps import App
from ...client.client import Client
from ...client.connecting import connect
from ...errors import Error
from ...gateway.access.principals import PerPrincipal, PrincipalName
from ...gateway.clients.client_connection import serve_client
from ...gateway.gateway import Gateway
from ...gateway.log.records import OWN_WORDS
from ...gateway.workers import DetachedWork, Locks
from ...schema import RequestPermissionRequest, RequestPermissionResponse
from ...transports.remote.server.answers import RequestRefused
from .bubbles import Bubble, bubbles
from .composer import Composer

KIND = "composer"  # bytes of facts
TOLD = {OWN_WORDS: True}  # seconds; a message becomes a bubble once the log has it
MAX_COMPOSERS = 1000  # open composers of one principal
MAX_OPEN = 64  # open composers of everybody, beyond those with a running turn
ID = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class KeptComposer(Struct, frozen=True, rename="camel"):
    """The stored facts of a composer: its session."""

    composer_id: str
    agent: str
    session_id: str
    cwd: str
    created: float


class Composers:
    """The composers of all principals; one of another principal is indistinguishable from a missing one."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._open: PerPrincipal[str, tuple[Composer, AsyncExitStack]] = PerPrincipal()
        self._locks = Locks()
        self._work = DetachedWork()
        self._uses = itertools.count(1)

    async def close(self) -> None:
        """Close all open composers."""
        await self._work.ended()
        for principal, id, _ in list(self._open.entries()):
            await self._close(principal, id)

    async def kept(self, principal: PrincipalName) -> list[KeptComposer]:
        """A principal's composers, the newest first."""
        facts = self._gateway.engine.facts(KIND, principal)
        found = [msgspec.json.decode(fact.value, type=KeptComposer) async for _, fact in facts]
        return sorted(found, key=lambda composer: composer.created, reverse=True)

    async def find(self, principal: PrincipalName, id: str) -> KeptComposer:
        """The stored facts of a composer; raises RequestRefused if there is none."""
        if (kept := await self._kept(principal, id)) is None:
            raise RequestRefused(404, "there is no such composer")
        return kept

    def opened(self, principal: PrincipalName, id: str) -> Composer | None:
        """An open composer."""
        found = self._open.find(principal, id)
        return found[0] if found else None

    async def open(self, principal: PrincipalName, id: str, agent: str, cwd: str) -> Composer:
        """Open a stored composer or a new one; a caller that is cancelled leaves it open."""
        return await self._work.finish(self._opened(principal, id, agent, cwd))

    async def attach(self, principal: PrincipalName, id: str) -> Composer:
        """Open a stored composer."""
        kept = await self.find(principal, id)
        return await self.open(principal, id, kept.agent, kept.cwd)

    async def bubbles(self, kept: KeptComposer, principal: PrincipalName) -> list[Bubble]:
        """The whole conversation, read from the gateway's log."""
        async with connect(self._app(kept.agent, principal), _Reader()) as reader:
            session = await reader.load_session(kept.session_id, kept.cwd)
            return bubbles(kept.composer_id, session.backlog())

    async def delete(self, principal: PrincipalName, id: str) -> None:
        """Delete a composer and its session."""
        kept = await self.find(principal, id)
        async with self._locks.hold((principal, id)):
            await self._close(principal, id)
            async with connect(self._app(kept.agent, principal), _Reader()) as client:
                await client.delete_session(kept.session_id)
            await self._gateway.engine.drop_fact(KIND, principal, id)

    async def _opened(self, principal: PrincipalName, id: str, agent: str, cwd: str) -> Composer:
        async with self._locks.hold((principal, id)):
            kept = await self._kept(principal, id)
            if kept and kept.agent != agent:
                told = f"this composer uses acp:{kept.agent}; start another one for acp:{agent}"
                raise RequestRefused(409, told)
            composer = self.opened(principal, id)
            if composer is None or composer.client.closed:
                await self._close(principal, id)
                composer = await self._connected(principal, id, agent, cwd, kept)
            composer.used = next(self._uses)
            await self._close_unused()
            return composer

    async def _connected(
        self, principal: PrincipalName, id: str, agent: str, cwd: str, kept: KeptComposer | None
    ) -> Composer:
        if kept is None and len(await self.kept(principal)) >= MAX_COMPOSERS:
            raise RequestRefused(429, f"no more than {MAX_COMPOSERS} composers are kept; delete some")
        composer = Composer(id)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(connect(self._app(agent, principal), composer.client))
            if kept:
                turns = len(await self.bubbles(kept, principal)) // 2
                composer.begin(await client.resume_session(kept.session_id, kept.cwd, meta=TOLD), turns)
            else:
                session = await client.new_session(cwd, meta=TOLD)
                composer.begin(session, 0)
                made = KeptComposer(id, agent, session.id, cwd, time.time())
                await self._gateway.engine.put_fact(KIND, principal, id, value=msgspec.json.encode(made))
            self._open.put(principal, id, (composer, stack.pop_all()))
        return composer

    async def _kept(self, principal: PrincipalName, id: str) -> KeptComposer | None:
        if not ID.fullmatch(id):
            raise RequestRefused(
                400, "a composerId consists of letters, digits, '_', '.' and '-', at most 128 of them"
            )
        fact = await self._gateway.engine.fact(KIND, principal, id)
        return msgspec.json.decode(fact.value, type=KeptComposer) if fact else None

    async def _close(self, principal: PrincipalName, id: str) -> None:
        if found := self._open.drop(principal, id):
            composer, stack = found
            await composer.close()
            with contextlib.suppress(Error):
                await stack.aclose()

    async def _close_unused(self) -> None:
        """Close composers without a running turn, the least recently used first."""
        idle = [
            (composer.used, principal, id)
            for principal, id, (composer, _) in self._open.entries()
            if not composer.is_in_use
        ]
        for _, principal, id in sorted(idle)[: max(0, len(self._open) - MAX_OPEN)]:
            await self._close(principal, id)

    def _app(self, agent: str, principal: PrincipalName) -> App:
        return functools.partial(serve_client, self._gateway, agent, principal, _ignore)


class _Reader(Client):
    """Reads a conversation without answering questions, which are for the composer's user."""

    async def request_permission(self, params: RequestPermissionRequest) -> RequestPermissionResponse:
        await asyncio.Event().wait()
        raise AssertionError


def _ignore() -> None: ...
