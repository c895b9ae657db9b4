"""Agents in sandboxes: each sees and changes its own workspace only.

An agent runs in the same sandbox as commands (`terminals/sandbox.py`), with a network of its own, in which a proxy
reaches the listed hosts (`network_proxy.py`).  Files outside the system have to be made visible to it.  Its home is
empty, and it runs as the owner of the workspace.  When it ends, everything that it started ends too.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

from ...errors import AgentStartError, RpcError
from ...foundation.places import Place, open_place
from ...transports.process import ProcessTransport
from ..permissions.rules.rules import workspace_file
from ..terminals.children import Child, Keeper, StartError
from ..terminals.sandbox.bubblewrap import HOME, Wrapped
from ..terminals.sandbox.covers import MOST_ENTRIES
from ..terminals.sandbox.sandbox import Sandbox
from .hiding import PROCESSES, CannotHide, Hiding
from .network_proxy import NetworkProxy, allowed_places, interpreter

RULES = workspace_file("").parent.name
ELSEWHERE = "XDG_"  # variables that name directories outside
MOST_RULES = 100  # directories of rules, each of which costs descriptors


class Isolation:
    """The sandboxes of one agent's processes.

    They see `visible` besides the system and their workspace, and can connect to the hosts in `network`.  In a
    workspace in which a `user` works too, they cannot change the paths that are protected from commands
    (`covers.py`).
    """

    def __init__(self, visible: Sequence[str] = (), network: Sequence[str] = (), *, user: bool = False) -> None:
        self._network = allowed_places(network)
        seen = [*visible, *(interpreter() if network else ())]
        self._sandbox = Sandbox(read_only=seen, protected=None if user else ())
        self._keeper = Keeper()
        self._wires: set[IsolatedTransport] = set()

    @asynccontextmanager
    async def reach(
        self,
        argv: Sequence[str],
        open_root: Callable[[], Place],
        env: Mapping[str, str] | None,
        *,
        at_home: bool = False,
    ) -> AsyncIterator["IsolatedTransport"]:
        """Start an agent that may write only below a root; raises AgentStartError unless the sandbox holds.

        It starts in the root or in its empty home.
        """
        async with AsyncExitStack() as held:
            root = held.enter_context(open_root())
            try:
                wire = await self._start(argv, root, os.environ if env is None else env, at_home, held)
            except (RpcError, StartError, OSError) as exc:
                why = exc.message if isinstance(exc, RpcError) else exc
                raise AgentStartError(f"cannot start {argv[0]!r} in isolation: {why}") from exc
            held.callback(self._wires.discard, wire)
            self._wires.add(wire)
            yield wire

    async def _start(
        self, argv: Sequence[str], root: Place, env: Mapping[str, str], at_home: bool, held: AsyncExitStack
    ) -> "IsolatedTransport":
        await self._sandbox.check([root])
        await self._sandbox.separate([root])
        environ = {name: value for name, value in env.items() if not name.startswith(ELSEWHERE)}
        environ |= self._sandbox.environ
        shown = list[Place]()
        if self._network:
            network_proxy = NetworkProxy(self._network)
            held.push_async_callback(network_proxy.close)
            await network_proxy.open()
            argv, environ = network_proxy.through(argv), {**environ, **network_proxy.environ}
            shown.append(held.enter_context(open_place(network_proxy.directory, os.O_DIRECTORY)))
        rules = await asyncio.to_thread(_rules_below, root)
        surveyed = (await self._sandbox.survey([root])).get(root, ())
        found, cwd = {root: [*rules, *surveyed]}, HOME if at_home else root.now()
        wire = IsolatedTransport(self._sandbox.wrap(argv, environ, cwd, [root], found=found, shown=shown))
        await wire.start(self._keeper, root)
        held.push_async_callback(wire.close)
        return wire

    def protects(self, path: str) -> bool:
        """Whether a change of this path by anybody would end a running agent."""
        return any(wire.wrapped.protects(path) for wire in self._wires)

    def kill(self) -> None:
        """Kill every agent."""
        for wire in self._wires:
            wire.kill()

    async def close(self) -> None:
        await self._keeper.close()


@asynccontextmanager
async def reach_hiding(
    keeper: Keeper, hiding: Hiding, argv: Sequence[str], cwd: str, env: Mapping[str, str] | None
) -> AsyncIterator["IsolatedTransport"]:
    """Start an agent that does not see some files; raises AgentStartError if they cannot be hidden."""
    try:
        with open_place(cwd, os.O_DIRECTORY) as directory:
            command = hiding.command(argv)
            wire = IsolatedTransport(Wrapped(command, os.environ if env is None else env, PROCESSES))
            await wire.start(keeper, directory)
    except (CannotHide, StartError, OSError) as exc:
        raise AgentStartError(f"cannot start {argv[0]!r}: {exc}") from exc
    try:
        yield wire
    finally:
        await wire.close()


def _rules_below(root: Place) -> list[str]:
    """The directories of rules in a workspace, because an agent must not change its host's rules."""
    top, found, looked_at = root.working_directory, list[str](), 0
    for directory, names, files in os.walk(top):
        looked_at += len(names) + len(files)
        if RULES in names:
            names.remove(RULES)
            found.append(os.path.relpath(os.path.join(directory, RULES), top))
        if looked_at > MOST_ENTRIES or len(found) > MOST_RULES:  # rules that are not found could be changed
            raise OSError(f"{root.path} has too many files to find the rules in it that need protection")
    return found


class IsolatedTransport(ProcessTransport):
    """An agent's streams; its process is a child of the keeper, which knows when all its processes have ended."""

    def __init__(self, wrapped: Wrapped) -> None:
        self.wrapped = wrapped
        self._child: Child | None = None
        self._code: int | None = None
        super().__init__(None)  # type: ignore[arg-type] # no child of ours

    @property
    def status(self) -> int | None:
        return self._code

    async def start(self, keeper: Keeper, root: Place) -> None:
        """Have the keeper run the agent on pipes to us."""
        with ExitStack() as theirs:
            theirs.callback(self.wrapped.close)
            (stdin, writes), (reads, stdout), (errors, stderr) = os.pipe(), os.pipe(), os.pipe()
            for fd in (stdin, stdout, stderr):
                theirs.callback(os.close, fd)
            await self.open(reads, writes)
            loop = asyncio.get_running_loop()
            self.stderr_reader, _ = await loop.connect_read_pipe(lambda: _Stderr(self), os.fdopen(errors, "rb", 0))
            fds = [stdin, stdout, stderr, root.fd, *self.wrapped.descriptors]
            try:
                self._child = await keeper.start(self.wrapped.spec(limits={"CORE": 0}), fds, self)
            except BaseException:
                self._mark_exited()  # it never was
                await self.close()
                raise

    def kill(self) -> None:
        if self._child:
            self._child.end()

    async def close(self) -> None:
        await super().close()
        if self._child:
            self._child.end()
            await self._child.gone.wait()

    # The keeper's reports about it

    def exited(self, code: int) -> None:
        self._code = code
        self._note_exit()

    def gone(self, left: Sequence[int]) -> None:
        self._mark_exited()

    def _watch(self) -> None:
        """The keeper does."""

    def send_signal(self, number: int) -> None:
        if self._child and not self._exited.done():
            self._child.signal(number)


class _Stderr(asyncio.Protocol):
    def __init__(self, wire: IsolatedTransport) -> None:
        self._wire = wire

    def data_received(self, data: bytes) -> None:
        self._wire.heard_stderr(data)
