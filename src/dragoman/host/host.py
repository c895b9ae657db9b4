"""A client that lends an agent files, terminals and permissions: all parts of this package, put together.

    async with connect("my-agent --acp", Host(asker=ask)) as host:
        session = await host.new_session("project")
        print((await session.prompt("make the tests pass")).stop_reason)

A session has the directories it was opened with and nothing else.  For each request of the agent, the host opens
the file or directory first, asks the permission engine about the exact operation, writes the decision to the audit
log, and only then carries it out.  A session's files and terminals are taken back when it is closed, and all of
them when the connection ends.
"""

import asyncio
import contextlib
import functools
import inspect
import logging
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, Unpack

from ..client.client import SessionOptions
from ..client.session import Session
from ..connection.connection import Connection
from ..errors import Error, RemoteProtocolError
from ..foundation.places import Path, Place, open_place
from .audit.chain import seal_path
from .audit.log import AuditLog, default_path
from .files.handles import Overlay, Save
from .files.workspace import Exemption, Workspace
from .isolation.boundaries import Own, Writable, overlap, own_things
from .isolation.hiding import Hiding
from .isolation.isolation import Isolation
from .lending import Lender
from .loans import Loan
from .permissions.approvals import ApprovalStore
from .permissions.engine import Permissions, Preset
from .permissions.questions import Asker, Question
from .permissions.rules.rules import Rules, user_file
from .terminals.limits import TerminalLimits
from .terminals.running import Terminals
from .terminals.sandbox.sandbox import Sandbox
from .terminals.terminal import Terminal

log = logging.getLogger("dragoman")


class Host(Lender):
    """A client that lends an agent files and terminals, and performs only permitted operations.

    `preset` and `rules` (by default the user's file) name the operations that are allowed without asking; a
    workspace's own file is read, too.  `asker` asks the user a question and returns the id of the chosen option;
    without it, every question is answered with no.  `store` keeps longer approvals; False: none are kept.  `audit`
    is the audit log, by default the user's; False: no log.  `sandbox` runs commands in bubblewrap or not at all;
    `hiding` names files that commands without a sandbox do not see; `isolation` is the sandbox of the agent itself,
    in which the host changes no protected paths for it.  `agent_name` is the user's name for the agent.  `state` is
    the directory for data that outlives the host, by default the user's own.  The rest is for the parts: `limits`
    and `inherit` for `Terminals`; `exceptions`, `overlay`, `save` and `relative` for each `Workspace`; `protected`,
    `timeout`, `arming` and `at_once` for `Permissions`: with `at_once`, the asker gets every question immediately.
    """

    def __init__(
        self,
        *,
        preset: Preset = "ask",
        rules: Rules | None = None,
        asker: Asker | None = None,
        audit: Path | AuditLog | Literal[False] | None = None,
        store: Path | ApprovalStore | Literal[False] | None = None,
        sandbox: Sandbox | bool | None = None,
        isolation: Isolation | None = None,
        hiding: Hiding | None = None,
        agent_name: str = "",
        state: Path | None = None,
        limits: TerminalLimits = TerminalLimits(),  # noqa: B008 - it cannot change
        inherit: Iterable[str] = (),
        exceptions: Iterable[Exemption] = (),
        overlay: Overlay | None = None,
        save: Save | None = None,
        relative: bool = False,
        protected: Sequence[Path] = (),
        timeout: float | None = None,
        arming: float = 0.0,
        at_once: bool = False,
    ) -> None:
        super().__init__()
        if asker is not None and not callable(asker):
            raise TypeError(f"asker= is an `async def` that takes a question, and not {asker!r}")
        for name, words in (("inherit", inherit), ("exceptions", exceptions), ("protected", protected)):
            if isinstance(words, str | os.PathLike):
                raise TypeError(f"{name}= is a list: write {name}=[{words!r}]")
        self._state = state
        self.audit = _audit_log(audit, state)
        self.store = _approval_store(store, state)
        ours: list[Path] = [self.audit.path, seal_path(self.audit.path)] if self.audit else []
        ours += [] if state is None else [state]
        self._ours = ours
        cage = Sandbox() if sandbox is True else sandbox or None
        self.permissions = Permissions(
            preset,
            Rules.load(user_file()) if rules is None else rules,
            None if asker is None else functools.partial(self._ask_unless_cancelled, asker),
            self.store,
            audit=self._record,
            agent=agent_name,
            protected=[*ours, *protected],
            timeout=timeout,
            arming=arming,
            at_once=at_once,
        )
        self.terminals = Terminals(limits=limits, sandbox=cage, hiding=hiding, inherit=inherit)
        self.isolation = isolation
        self._exceptions = tuple(exceptions)
        self._overlay, self._save, self._relative = overlay, save, relative
        self._loans = {}
        self._chores: set[asyncio.Future[Any]] = (
            set()
        )  # running writes of records, and waits for the end of commands
        self._over = asyncio.Event()  # the connection is
        self._taking_back: asyncio.Task[None] | None = None

    def decided(self, event: Mapping[str, object]) -> None:
        """Called with the record of each decision; override it to show decisions."""

    # Sessions

    async def new_session(self, cwd: Path = ".", **options: Unpack[SessionOptions]) -> Session:
        """Open a session and lend it `cwd` and the additional directories."""
        with _opened(cwd, options) as places, self._offer(places) as loan:
            session = await super().new_session(cwd, **options)
            self._lend_new(session.id, loan)
        return session

    async def fork_session(self, session_id: str, cwd: Path = ".", **options: Unpack[SessionOptions]) -> Session:
        """Fork a session and lend the new one `cwd` and the additional directories."""
        with _opened(cwd, options) as places, self._offer(places) as loan:
            session = await super().fork_session(session_id, cwd, **options)
            self._lend_new(session.id, loan)
        return session

    async def load_session(self, session_id: str, cwd: Path = ".", **options: Unpack[SessionOptions]) -> Session:
        """Lend the directories, then load the session; if that fails, nothing stays lent."""
        with _opened(cwd, options) as places:
            async with self._lent(session_id, places):
                return await super().load_session(session_id, cwd, **options)

    async def resume_session(self, session_id: str, cwd: Path = ".", **options: Unpack[SessionOptions]) -> Session:
        """Lend the directories, then resume the session; if that fails, nothing stays lent."""
        with _opened(cwd, options) as places:
            async with self._lent(session_id, places):
                return await super().resume_session(session_id, cwd, **options)

    async def lend(self, session_id: str, cwd: Path = ".", **options: Unpack[SessionOptions]) -> None:
        """Lend directories to a session that is known by its id alone, such as a subagent's."""
        with _opened(cwd, options) as places:
            await self.lend_places(session_id, places)

    async def lend_places(self, session_id: str, places: Sequence[Place]) -> None:
        """Lend directories that are open already, the cwd first; the caller closes them."""
        async with self._lent(session_id, places):
            pass

    async def close_session(self, session_id: str) -> None:
        """End the session's commands, close it, and take back everything lent to it."""
        async with self.reclaiming(session_id):
            await super().close_session(session_id)

    async def delete_session(self, session_id: str) -> None:
        """End the session's commands, delete it, and take back everything lent to it."""
        async with self.reclaiming(session_id):
            await super().delete_session(session_id)

    def rules_of(self, session_id: str) -> Rules:
        """The rules of a session's workspace, and the rules that would apply if the user trusted their file."""
        return self._loan(session_id).rules

    def begin_turn(self, session_id: str) -> None:
        """Start a turn: operations denied for the rest of the last turn may be asked about again."""
        self.permissions.begin_turn(session_id)

    def withdraw_questions(self, session_id: str) -> None:
        """Answer the session's open questions `cancelled`."""
        self.permissions.cancel(session_id)

    async def _ask_unless_cancelled(self, asker: Asker, question: Question) -> str | None:
        """Ask the user, unless the turn was cancelled and is only ending."""
        if self.is_cancelled(question.session_id):
            return None
        chosen = asker(question)
        if not inspect.isawaitable(chosen):
            raise TypeError("the asker must be `async def`: it is awaited")
        return await chosen

    # Lending

    @contextlib.contextmanager
    def _offer(self, places: Sequence[Place]) -> Iterator[Loan]:
        """The loan of a session; it is closed again if the session cannot be opened."""
        cwd, *further = places
        self._check_apart(places)
        rules = Rules.of_workspace(cwd, self.store.trusts if self.store else None)
        try:
            workspace = Workspace(
                cwd,
                further,
                self._exceptions,
                overlay=self._overlay,
                save=self._save,
                relative=self._relative,
                state=self._state,
            )
        except OSError as exc:
            raise Error(f"{exc.filename or cwd.path} cannot be lent to an agent: {exc.strerror}") from exc
        loan = Loan(workspace, rules, self.permissions)
        try:
            yield loan
        except BaseException:
            loan.end()
            raise

    def _check_apart(self, places: Sequence[Place]) -> None:
        """With a sandbox, refuse to lend a directory that contains files of ours."""
        if cage := self.terminals.sandbox:
            own = own_things(*(Own(os.fspath(path), "a file of this host") for path in self._ours))
            if why := overlap([Writable(place.path) for place in places], cage.read_only, own):
                raise Error(f"{places[0].path} cannot be a workspace with a sandbox: {why}")

    def _lend(self, session_id: str, loan: Loan) -> None:
        loan.session_id = session_id
        self._loans[session_id] = loan
        self.permissions.open_session(session_id, loan.rules)

    def _lend_new(self, session_id: str, loan: Loan) -> None:
        if session_id in self._loans:
            raise RemoteProtocolError(f"the agent gave a new session the id of another one: {session_id!r}")
        self._lend(session_id, loan)

    @asynccontextmanager
    async def _lent(self, session_id: str, places: Sequence[Place]) -> AsyncIterator[None]:
        """Lend to a session before the agent gets the request; if that fails, undo the loan."""
        before = self._loans.get(session_id)
        with self._offer(places) as loan:
            self._lend(session_id, loan)
            try:
                yield
            except BaseException:
                if before:
                    self._lend(session_id, before)
                else:
                    await self._take_back(session_id)
                raise
        if before:
            await before.close()

    @asynccontextmanager
    async def reclaiming(self, session_id: str) -> AsyncIterator[None]:
        """Permit nothing more and end all commands; after the agent's last messages, take back the rest."""
        self.permissions.close_session(session_id)
        started = [terminal for terminal in self.terminals.of(session_id) if terminal.pid]
        await asyncio.gather(*(terminal.kill() for terminal in started))
        try:
            yield
        finally:
            await self._take_back(session_id)

    async def _take_back(self, session_id: str) -> None:
        self.permissions.close_session(session_id)
        loan = self._loans.pop(session_id, None)
        await self.terminals.close(session_id)
        if loan:
            await loan.close()

    # The connection

    def attach(self, connection: Connection) -> None:
        """Start to serve a connection; when it closes, everything lent is taken back."""
        super().attach(connection)
        self._over = asyncio.Event()

        def over() -> None:
            self._over.set()
            self._taking_back = asyncio.create_task(self._take_all_back(), name="taking back")

        connection.when_closed(over)

    async def ended(self) -> Exception | None:
        """Wait for the end of the connection; returns the reason, such as `AgentExited` with the end of stderr."""
        await self._over.wait()
        return self.closed

    async def _take_all_back(self) -> None:
        for session_id in self._loans:
            self.permissions.close_session(session_id)
        await self.terminals.close()
        for session_id in list(self._loans):
            await self._take_back(session_id)

    async def take_back(self) -> None:
        """Wait until everything lent was taken back and all records are written."""
        if self._taking_back:
            await self._taking_back
        while self._chores:
            await asyncio.wait(self._chores)
        if self.audit:
            self.audit.close()

    # The audit log

    async def _record(self, event: Mapping[str, object]) -> None:
        """Write an event to the log, even if the caller is cancelled; then call `decided`."""
        try:
            if self.audit:
                await asyncio.shield(self._chore(asyncio.ensure_future(self.audit.record(event))))
        except Error:  # so the operation is denied
            why = "it could not be written to the audit log"
            self.decided({**event, "decision": "deny", "why": why} if event["decision"] == "allow" else event)
            raise
        self.decided(event)

    def _started(self, terminal: Terminal) -> None:
        if self.audit:
            self._chore(asyncio.create_task(self._record_end(self.audit, terminal), name="end of a command"))
        super()._started(terminal)

    async def _record_end(self, audit: AuditLog, terminal: Terminal) -> None:
        status = await terminal.wait()
        told = {"session": terminal.session_id, "fingerprint": terminal.operation.fingerprint()}
        how = {"exit_code": status and status.exit_code, "signal": status and status.signal}
        try:
            await audit.record({"event": "exit", **told, **how, "timed_out": terminal.timed_out})
        except Error as exc:
            log.warning("the end of a command could not be written down: %s", exc)

    def _chore(self, chore: "asyncio.Future[Any]") -> "asyncio.Future[Any]":
        self._chores.add(chore)
        chore.add_done_callback(self._chores.discard)
        chore.add_done_callback(lambda done: done.cancelled() or done.exception())
        return chore


@contextlib.contextmanager
def _opened(cwd: Path, options: SessionOptions) -> Iterator[Sequence[Place]]:
    """The directories of a session, opened once: a directory that gets one of their names later is not lent."""
    with contextlib.ExitStack() as opened:
        paths = (cwd, *(options.get("additional_directories") or ()))
        try:
            places = [opened.enter_context(open_place(path, os.O_DIRECTORY)) for path in paths]
        except OSError as exc:
            raise Error(f"{exc.filename or cwd} cannot be lent to an agent: {exc.strerror}") from exc
        yield places


def _audit_log(audit: Path | AuditLog | Literal[False] | None, state: Path | None) -> AuditLog | None:
    if audit is False or isinstance(audit, AuditLog):
        return audit or None
    return AuditLog(audit or _in(state, "audit.jsonl") or default_path())


def _approval_store(
    store: Path | ApprovalStore | Literal[False] | None, state: Path | None
) -> ApprovalStore | None:
    if store is False or isinstance(store, ApprovalStore):
        return store or None
    return ApprovalStore(store or _in(state, "approvals.json"))


def _in(state: Path | None, name: str) -> str | None:
    return None if state is None else os.path.join(state, name)
