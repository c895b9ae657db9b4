"""The client of a run: a host with a user at a plain terminal, or without one."""

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

LAST_OUTPUT = 1.0  # seconds to wait for a command's last output


class Reception(Host):
    """A host that shows its questions, its decisions and the output of its commands."""

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
        self.unasked = False  # whether a question could not be asked
        self.unasked_acts = Unasked()
        self.shown: Session | None = None
        self.terminal_lock = TerminalLock(view.show)
        self._view, self._key_prompt = view, key_prompt
        self._optional: set[str] = set()  # tool calls that the agent asks about and does not need
        self._cancelled: set[str] = set()  # sessions whose only turn was cancelled: no further questions
        self._following: set[asyncio.Task[None]] = set()

    def capabilities(self) -> s.ClientCapabilities:
        """The capabilities of a host, and a login at the user's terminal: the run names its command."""
        return msgspec.structs.replace(super().capabilities(), auth=s.AuthCapabilities(terminal=True))

    async def ask(self, question: Question) -> str | None:
        """Ask the user, after showing everything that came before the question."""
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
        if self.shown is not None:  # not the earlier turns, which the agent replays when a session is loaded
            self.unasked_acts.hear(params.update)
        super().update(params)

    def _catch_up(self) -> None:
        """Show the updates that have arrived and were not shown yet."""
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
            task.exception()  # the output cannot be written any more, which the turn notices by itself

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
        """End what was lent to the agent, after it has ended."""
        if self.isolation:
            await self.isolation.close()

    async def follow_up(self) -> None:
        """Show the last output of commands, and stop following those that still run."""
        if self._following:
            _, running = await asyncio.wait(self._following, timeout=LAST_OUTPUT)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def _is_optional(params: s.RequestPermissionRequest) -> bool:
    """Whether the agent marks its question as optional: after a no, it does the work without the call."""
    return (params.meta or {}).get("dragoman") == OPTIONAL["dragoman"]
