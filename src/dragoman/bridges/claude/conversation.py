"""One session with Claude: its program, its prompts, and the program's messages between turns."""

import asyncio
import contextlib
import logging
import os
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ... import schema as s
from ...agent.turn import AgentSession
from ...errors import (
    AgentExited,
    AgentStartError,
    AuthRequired,
    ConnectionClosed,
    Error,
    InternalError,
    MissingExtra,
    ResourceNotFound,
)
from ...foundation.documents import Json, strings_in
from ...foundation.owning import finish, own
from ...roles import offered
from .choices import Choices
from .history import is_kept
from .messages import markers
from .messages.outcomes import Counts, Ended, Failure, counts_of, ended, failure_in, spent_since
from .messages.prompts import Block
from .messages.updates import MessageTranslator
from .program.launch import ClaudeLaunch
from .program.running import REQUEST_TIMEOUT, ClaudeProgram, Message, ProgramError
from .tools.shown import objects, words

log = logging.getLogger("dragoman")

START_TIMEOUT = 120.0  # seconds, since MCP servers are started meanwhile
Answer = Callable[[Message], Any]


class Waiting(Struct, eq=False):
    """A prompt that was sent to the program, and the messages that steer it."""

    outcome: "asyncio.Future[Ended]"
    owed: set[str]  # the ids of unanswered messages
    cancelled: bool = False


class ClaudeConversation:
    """A session and its program, which is started when it is needed, and again after it has ended."""

    def __init__(
        self,
        session: AgentSession,
        launch: ClaudeLaunch,
        translator: MessageTranslator,
        answers: Mapping[str, Answer],
        *,
        told: Callable[[Message], None],
        announce: Callable[[], Awaitable[None]],
    ) -> None:
        self.session, self.launch, self.translator = session, launch, translator
        self.choices = Choices({}, {}, bypass=launch.bypass)
        self.commands: Sequence[Mapping[str, Json]] = ()
        self.account: Mapping[str, Json] = {}
        self.terminal_only: Sequence[str] = ()  # commands that work in Claude's own terminal only
        self.patience = 25.0  # seconds for a program to stop its turn before it is ended
        self._answers, self._told, self._announce = answers, told, announce
        self._program: ClaudeProgram | None = None
        self._waiting: list[Waiting] = []
        self._starting = asyncio.Lock()
        self._failure = Failure()  # the program's last message about an error of the provider
        self.cut_off: Ended | None = None  # the end of the last turn, if it was cancelled
        self._spent: Mapping[str, Counts] = {}  # usage by model at the end of the last turn

    # The program

    async def start(self) -> ClaudeProgram:
        """The running program; it is started, or restarted with the same session, if it does not run."""
        async with self._starting:
            if self._program is None or not self._program.is_alive:
                await self.stop()
                try:
                    self._program = await self._started()
                except (AgentStartError, MissingExtra) as exc:
                    raise InternalError(str(exc)) from exc
            return self._program

    async def _started(self) -> ClaudeProgram:
        launch = self.launch
        if launch.resume == launch.session_id and not await asyncio.to_thread(is_kept, launch.session_id):
            launch = replace(launch, resume=None)  # it ended before it had stored anything
        with _secret_file({"mcpServers": launch.servers}) as mcp_file:
            program = await ClaudeProgram.start(
                launch.argv(mcp_file if launch.servers else None),
                cwd=launch.cwd,
                env=launch.env(),
                heard=self._heard,
                asked=self._asked,
            )
            try:
                told = await program.request("initialize", timeout=START_TIMEOUT, **self._introduction())
                settings = await program.request("get_settings")
            except BaseException as exc:
                await finish(program.close())
                if isinstance(exc, ConnectionClosed | ProgramError):
                    raise _start_error(exc, self.launch) from exc
                raise
        self._adopt(told, settings)
        own(self._watch(program), "claude ended")
        own(self.measure(program), "claude's context window")
        return program

    async def measure(self, program: ClaudeProgram | None = None) -> None:
        """Ask the program for the size of the context window, before the first result reports it."""
        self.translator.system.measured(None)
        with contextlib.suppress(Error):
            told = await (program or await self.start()).request("get_context_usage", detail="summary")
            size = told.get("rawMaxTokens")
            if isinstance(size, int) and size > 0:
                self.translator.system.measured(size)

    def _introduction(self) -> Message:
        options = self.launch.options
        told = {name: options[name] for name in ("agents", "skills") if options.get(name)}
        return {"hooks": None, "supportedDialogKinds": [], **told}

    def _adopt(self, told: Mapping[str, Json], settings: Mapping[str, Json]) -> None:
        """Apply the program's report about itself and its settings."""
        self.choices = Choices(told, settings, bypass=self.launch.bypass)
        self.commands = objects(told.get("commands"))
        account = told.get("account")
        self.account = account if isinstance(account, dict) else {}
        # From here on this session is continued, even if it was made from another one.
        self.launch = replace(self.launch, resume=self.launch.session_id, fork=False)

    async def stop(self) -> None:
        """End the program."""
        if program := self._program:
            self._program = None
            await program.close()

    async def _watch(self, program: ClaudeProgram) -> None:
        """When the program ends by itself, fail everything that waits for it."""
        why = await program.ended
        if self._program is not program:
            why = Error("the session was closed")
        for waiting in self._waiting:
            if not waiting.outcome.done():
                waiting.outcome.set_exception(_died(why))
                waiting.outcome.exception()
        with contextlib.suppress(Error):
            for update in [*self.translator.unsettled(), *self.translator.system.interrupted()]:
                await self.session.update(update)

    async def request(self, subtype: str, **members: Json) -> Message:
        """Make a request of the running program."""
        return await (await self.start()).request(subtype, timeout=REQUEST_TIMEOUT, **members)

    # Prompts

    async def ask(self, content: Sequence[Block]) -> Ended:
        """Send the program a prompt and wait for the end of the turn; if cancelled, interrupt the turn first."""
        program = await self.start()
        id = str(uuid.uuid4())
        waiting = Waiting(asyncio.get_running_loop().create_future(), {id})
        self._waiting.append(waiting)
        self._failure, self.cut_off = Failure(), None
        program.say(_user_message(content, id))
        try:
            return await asyncio.shield(waiting.outcome)
        except asyncio.CancelledError:
            waiting.cancelled = True
            await finish(self._interrupt(program, waiting))
            if waiting.outcome.done() and not waiting.outcome.exception():
                self.cut_off = waiting.outcome.result()
            raise
        finally:
            self._waiting.remove(waiting)

    def steer(self, content: Sequence[Block], *, now: bool) -> bool:
        """Add a message to the running turn; false if none runs."""
        waiting = next((w for w in self._waiting if not w.outcome.done()), None)
        if waiting is None or self._program is None:
            return False
        id = str(uuid.uuid4())
        waiting.owed.add(id)
        self._program.say({**_user_message(content, id), "priority": "now" if now else "later"})
        return True

    async def _interrupt(self, program: ClaudeProgram, waiting: Waiting) -> None:
        """Interrupt the turn and pass on its last messages; a program that does not stop is ended."""
        try:
            async with asyncio.timeout(self.patience):
                with contextlib.suppress(Error):
                    await program.request("interrupt", timeout=None)
                    await asyncio.shield(waiting.outcome)
        except TimeoutError:
            log.warning("claude does not stop its turn; ending the program")
            await program.close()
        with contextlib.suppress(Error):
            for update in [*self.translator.unsettled(), *self.translator.system.interrupted()]:
                await self.session.update(update)

    # Messages of the program

    async def _heard(self, message: Message) -> None:
        self._told(message)
        if failure := failure_in(message):
            self._failure = failure  # the answer to the prompt contains it
            return
        for update in self.translator.updates(message):
            await self.session.update(update)
        match message.get("type"), message.get("subtype"):
            case "result", _:
                self._settle(message)
            case "system", "status":
                await self._mode_changed(message.get("permissionMode"))
            case "system", "init":
                await self._commands_changed(self.commands, message.get("terminal_slash_commands"))
            case "system", "elicitation_complete":
                self._page_visited(str(message.get("elicitation_id")))
            case "system", "commands_changed":
                await self._commands_changed(message.get("commands"), self.terminal_only)

    def _settle(self, result: Message) -> None:
        """End the prompt that a result answers; a result of the program's own work ends none."""
        now = counts_of(result)
        spent, self._spent = spent_since(self._spent, now), now
        ids = {*strings_in(result.get("user_message_uuids")), words(result, "user_message_uuid") or None}
        for waiting in self._waiting:
            if not ids & waiting.owed and not (ids <= {None} and not result.get("origin")):
                continue
            waiting.owed -= ids
            if (not waiting.owed or ids <= {None}) and not waiting.outcome.done():
                outcome = ended(result, self._failure, spent)
                if isinstance(outcome, Ended):
                    waiting.outcome.set_result(outcome)
                else:
                    waiting.outcome.set_exception(outcome)
                    waiting.outcome.exception()
            return

    async def _mode_changed(self, mode: Json) -> None:
        if isinstance(mode, str) and mode != self.choices.mode:
            self.choices.mode = mode
            await self.tell_mode()

    async def _commands_changed(self, commands: Json, terminal_only: Json) -> None:
        before = (self.commands, self.terminal_only)
        self.commands = objects(commands)
        self.terminal_only = strings_in(terminal_only)
        if before != (self.commands, self.terminal_only):
            await self._announce()

    def _page_visited(self, id: str) -> None:
        """Tell a client that shows pages of MCP servers that one is finished."""
        if offered(self.session.client.offers, "elicitation.url"):
            self.session.client.complete_elicitation(s.CompleteElicitationNotification(elicitation_id=id))

    async def tell_mode(self) -> None:
        """Tell the client that the mode has changed."""
        await self.session.set_mode(self.choices.mode)
        await self.session.set_config_options(self.choices.options())

    async def _asked(self, request: Message) -> Message:
        answer = self._answers.get(str(request.get("subtype")))
        if answer is None:
            raise ProgramError(f"this client does not know {request.get('subtype')!r}")
        result: Message = await answer(request)
        return result


def _user_message(content: Sequence[Block], id: str) -> Message:
    return {
        "type": "user",
        "message": {"role": "user", "content": list(content)},
        "parent_tool_use_id": None,
        "session_id": "",
        "uuid": id,
        "origin": {"kind": "human"},
    }


def _start_error(exc: Exception, launch: ClaudeLaunch) -> Exception:
    """The error for a program that was started and does not answer."""
    told = f"{exc} {exc.stderr if isinstance(exc, AgentExited) else ''}"
    if markers.NOT_FOUND in told:
        return ResourceNotFound("Session not found", {"sessionId": launch.resume})
    if markers.wants_login(told):
        return AuthRequired("not logged in to Claude")
    return InternalError(f"claude could not be started: {exc}")


def _died(why: Exception) -> Exception:
    told = why.reason if isinstance(why, ConnectionClosed) else str(why)
    return InternalError(f"the claude program ended unexpectedly: {told}. Load the session to go on with it")


@contextlib.contextmanager
def _secret_file(content: Mapping[str, Json]) -> Iterator[str]:
    """A file that only the user can read, kept for as long as the program needs it."""
    with tempfile.NamedTemporaryFile(prefix="dragoman-mcp-", suffix=".json") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(msgspec.json.encode(content))
        file.flush()
        yield file.name
