"""The client of a run: a host whose user sits at a plain terminal, or is not there."""

import asyncio
from collections.abc import Mapping

import msgspec

from ... import schema as s
from ...agent.turn import OPTIONAL
from ...client.session import Session
from ...host import Host
from ...host.display import shown_command
from ...host.isolation.isolation import Isolation
from ...host.permissions import Question
from ...host.terminals import Terminal
from .keys import KeyPrompt
from .terminal_lock import TerminalLock
from .terms import RunOptions, View
from .unasked import Unasked

LAST_OUTPUT = 1.0  # seconds to wait for what a command has printed last


class Reception(Host):
    """A host that shows what it is asked, what it decides and what its commands print."""

    def __init__(self, options: RunOptions, view: View, key_prompt: KeyPrompt | None) -> None:
        name = options.agent.name or options.agent.described()
        isolation = None
        if options.sandbox == "agent":
            isolation = Isolation([*options.agent.places, *options.visible], options.network, user=True)
        super().__init__(
            preset=options.preset,
            asker=self.ask,
            sandbox=options.sandbox is not None,
            isolation=isolation,
            agent_name=name,
        )
        self.missing_files = options.agent.missing
        self.denied = 0
        self.unasked = False  # whether somebody should have been asked and nobody was there
        self.unasked_acts = Unasked()
        self.shown: Session | None = None
        self.terminal_lock = TerminalLock(view.show)
        self._view, self._key_prompt = view, key_prompt
        self._optional: set[str] = set()  # tool calls that the agent asks about and can do without
        self._cancelled: set[str] = set()  # sessions whose only turn was cancelled: nothing more is asked
        self._following: set[asyncio.Task[None]] = set()

    def capabilities(self) -> s.ClientCapabilities:
        """What a host offers, and a login at the user's terminal: the run says which command begins it."""
        return msgspec.structs.replace(super().capabilities(), auth=s.AuthCapabilities(terminal=True))

    async def ask(self, question: Question) -> str | None:
        """Put a question to the user, behind everything that came before it."""
        async with self.terminal_lock.taken():
            if question.session_id in self._cancelled:
                return None
            self._catch_up()
            self._view.asked(question)
            if self._key_prompt:
                return await self._key_prompt.ask(question)
            self.unasked = True
            return None

    def withdraw_questions(self, session_id: str) -> None:
        self._cancelled.add(session_id)
        super().withdraw_questions(session_id)

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        await self.terminal_lock.free()
        if params.session_id in self._cancelled:
            return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())
        self._catch_up()
        self.unasked_acts.asked()
        self._view.asked_about(params)
        if not _is_optional(params):
            return await super().request_permission(params)
        self._optional.add(params.tool_call.tool_call_id)
        try:
            return await super().request_permission(params)
        finally:
            self._optional.discard(params.tool_call.tool_call_id)

    def update(self, params: s.SessionNotification) -> None:
        if self.shown is not None:  # not what an earlier turn did, which is told when a session is loaded
            self.unasked_acts.hear(params.update)
        super().update(params)

    def _catch_up(self) -> None:
        """Show what has arrived and was not shown yet."""
        for update in self.shown.backlog() if self.shown else ():
            self._view.show(update)

    def decided(self, event: Mapping[str, object]) -> None:
        self.unasked_acts.asked()
        is_missed = event["operation"] != "claim" or event["tool_call"] not in self._optional
        self.denied += event.get("decision") == "deny" and is_missed
        self._view.decided(event)

    def terminal_started(self, terminal: Terminal) -> None:
        super().terminal_started(terminal)
        task = asyncio.create_task(self._follow(terminal), name="follow")
        self._following.add(task)
        task.add_done_callback(self._followed)

    def _followed(self, task: asyncio.Task[None]) -> None:
        self._following.discard(task)
        if not task.cancelled():
            task.exception()  # nobody reads what is shown any more, which the turn finds out by itself

    async def _follow(self, terminal: Terminal) -> None:
        operation = terminal.operation
        await self.terminal_lock.free()
        self._view.terminal(terminal.id, operation.argv[-1] if operation.shell else shown_command(operation.argv))
        try:
            async for chunk in terminal.follow():
                await self.terminal_lock.free()
                self._view.output(terminal.id, chunk.text, chunk.stream)
        finally:
            self._view.terminal_ended(terminal.id, terminal.status)

    async def let_go(self) -> None:
        """End what was there for the agent, once it is gone."""
        if self.isolation:
            await self.isolation.close()

    async def follow_up(self) -> None:
        """Show what commands have printed last; those that still run are followed no longer."""
        if self._following:
            _, running = await asyncio.wait(self._following, timeout=LAST_OUTPUT)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def _is_optional(params: s.RequestPermissionRequest) -> bool:
    """Whether the agent says of its own question that a no leaves nothing undone."""
    return (params.meta or {}).get("dragoman") == OPTIONAL["dragoman"]
