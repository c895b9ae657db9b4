"""The loan of one session: its files, and the permission to use them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..errors import InvalidParams, RequestCancelled
from ..foundation.owning import Work
from ..schema import Diff, RequestPermissionRequest, RequestPermissionResponse
from .calls import OpenToolCalls
from .files.workspace import Workspace
from .operations import Operation
from .permissions.engine import Permissions
from .permissions.rules.rules import Rules

AT_ONCE = 48  # operations of one session: more than may wait for the user, so that others can proceed


class Loan:
    """A session's workspace and its background tasks; operations under way when it ends are finished."""

    session_id = ""  # the session's id, once it is known

    def __init__(self, workspace: Workspace, rules: Rules, permissions: Permissions) -> None:
        self.workspace, self.rules = workspace, rules
        self._permissions = permissions
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._users = 0
        self._ended = self._closed = False
        self.calls = OpenToolCalls()
        self.watches = Chores()
        self.pushes = Chores()

    async def permit(self, operation: Operation, diff: Diff | None = None) -> None:
        """Return when exactly this operation is permitted; otherwise raise the agent's answer."""
        cwd, *further = self.workspace.directories
        decision = await self._permissions.decide(
            self.session_id,
            operation,
            workspace=cwd,
            directories=further,
            detail=diff or "",
        )
        if decision.cancelled:
            raise RequestCancelled("the turn was cancelled", {"kind": "cancelled"})
        if not decision:  # the agent does not learn the reason, because the rules are the user's
            raise InvalidParams(
                "this is not permitted; ask the user, or do something else", {"kind": "not_permitted"}
            )

    async def answer(self, params: RequestPermissionRequest) -> RequestPermissionResponse:
        """The answer to the agent's own question."""
        cwd, *further = self.workspace.directories
        return await self._permissions.answer(params, workspace=cwd, directories=further)

    async def answered(
        self, params: RequestPermissionRequest, response: RequestPermissionResponse
    ) -> RequestPermissionResponse:
        """Record the answer that people gave to the agent's own question elsewhere."""
        return await self._permissions.answered(params, response, workspace=self.workspace.directories[0])

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Workspace]:
        """The workspace, which stays open until the block ends."""
        self._users += 1
        try:
            async with self._turn:
                yield self.workspace
        finally:
            self._users -= 1
            self._close_unused()

    async def close(self) -> None:
        """End the background tasks and release the files."""
        await self.watches.end()
        await self.pushes.end()
        self.end()

    def end(self) -> None:
        """Release the files as soon as nobody uses them."""
        self._ended = True
        self._close_unused()

    def _close_unused(self) -> None:
        if self._ended and not self._users and not self._closed:
            self._closed = True
            self.workspace.close()


class Chores(dict[str, "asyncio.Task[None]"]):
    """The background tasks of a session, by name; each is removed when it ends."""

    def begin(self, name: str, work: Work[None]) -> None:
        self[name] = task = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self.pop(name, None))

    async def end(self, *names: str) -> bool:
        """End some tasks or all; false if there was none."""
        tasks = [task for name, task in self.items() if name in names or not names]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        return bool(tasks)
