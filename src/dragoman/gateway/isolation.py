"""Agents in sandboxes: each sees and changes its principal's workspace, and nothing of anybody else's.

It is the sandbox commands run in (`host/terminals/sandbox.py`), with a network, as an agent has a model to talk to.
What an agent needs besides the system has to be made visible; its home is empty, and its user is whoever owns the
workspace.  Everything it started is gone with it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager

from ..errors import AgentStartError, RpcError
from ..host.terminals.bubblewrap import Wrapped
from ..host.terminals.children import Child, Keeper, StartError
from ..host.terminals.sandbox import Sandbox
from ..transports.process import ProcessTransport


class Isolation:
    """Where the processes of one agent run; `visible` is what they see besides the system and their workspace."""

    def __init__(self, visible: Sequence[str] = ()) -> None:
        self._sandbox = Sandbox(network=True, read_only=visible, protected=())
        self._keeper = Keeper()

    @asynccontextmanager
    async def reach(
        self, argv: Sequence[str], root: str, env: Mapping[str, str] | None
    ) -> AsyncIterator["IsolatedTransport"]:
        """Start an agent that may write below `root`; raises AgentStartError unless the sandbox holds."""
        try:
            await self._sandbox.check()
            environ = {**(os.environ if env is None else env), **self._sandbox.environ}
            wire = IsolatedTransport(self._sandbox.wrap(argv, environ, root, [root]))
            await wire.start(self._keeper, root)
        except (RpcError, StartError, OSError) as exc:
            raise AgentStartError(f"cannot start {argv[0]!r} in isolation: {exc}") from exc
        try:
            yield wire
        finally:
            await wire.close()

    async def close(self) -> None:
        await self._keeper.close()


class IsolatedTransport(ProcessTransport):
    """An agent's streams; its process is a child of the keeper, who knows when nothing of it is left."""

    def __init__(self, wrapped: Wrapped) -> None:
        self._wrapped = wrapped
        self._child: Child | None = None
        self._code: int | None = None
        super().__init__(None)  # type: ignore[arg-type] # no child of ours

    @property
    def status(self) -> int | None:
        return self._code

    async def start(self, keeper: Keeper, root: str) -> None:
        """Have the keeper run the agent on pipes to us."""
        with ExitStack() as theirs:
            theirs.callback(self._wrapped.close)
            directory = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            (stdin, writes), (reads, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
            for fd in (directory, stdin, stdout, stderr):
                theirs.callback(os.close, fd)
            await self.open(reads, writes)
            loop = asyncio.get_running_loop()
            self.stderr_reader, _ = await loop.connect_read_pipe(lambda: _Stderr(self), os.fdopen(errors, "rb", 0))
            fds = [stdin, stdout, stderr, directory, *self._wrapped.descriptors]
            try:
                self._child = await keeper.start(self._wrapped.order(limits={"CORE": 0}), fds, self)
            except BaseException:
                self._exited.set()  # it never was
                await self.close()
                raise

    async def close(self) -> None:
        await super().close()
        if self._child:
            self._child.end()
            await self._child.gone.wait()

    # What the keeper says of it

    def exited(self, code: int) -> None:
        self._code = code
        self._note_exit()

    def gone(self, left: Sequence[int]) -> None:
        self._wrapped.unwrap()
        self._exited.set()

    def _watch(self) -> None:
        """The keeper does."""

    def _signal(self, number: int) -> None:
        if self._child and not self._exited.is_set():
            self._child.signal(number)


class _Stderr(asyncio.Protocol):
    def __init__(self, wire: IsolatedTransport) -> None:
        self._wire = wire

    def data_received(self, data: bytes) -> None:
        self._wire.heard_stderr(data)
