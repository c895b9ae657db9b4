"""An agent around a terminal program: prompts are typed, and the program's output is the answer."""

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping, Sequence

import msgspec

from ... import schema as s
from ...agent.agent import Agent
from ...agent.turn import AgentSession, Turn
from ...connection.remotes import RemoteClient
from ...errors import InternalError, InvalidParams, InvalidRequest
from ...foundation.owning import finish, own
from ...foundation.terminal.canvas import MAX_SIZE
from ...host.terminals import Size, TerminalLimits, Terminals, execution
from ...roles import extension
from ...schema.base import Bare, Model
from .profiles import Profile, ProfileError, find_profile
from .program import Moment, Program

MOST_SAID = 4 * 1024 * 1024  # characters of a turn's output; of more, only the end is kept
TAIL = 16 * 1024  # characters of that end
MOST_SESSIONS = 32
INTERRUPT_PATIENCE = 1.5  # seconds after Ctrl-C for the program to wait for input; then it is pressed once more
CONTEXT = 12  # lines above a question that are shown with it
SIZES = ("80x24", "120x40", "200x50")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class PtyOptions(Bare, kw_only=True):
    """The program to run, and settings that replace those of its profile."""

    command: Sequence[str]
    program: str | None = None  # the name of the profile, unless the command determines it
    prompt: str | None = None
    silence: float | None = None
    size: Size = Size(80, 24)

    def profile(self) -> Profile:
        """The profile with these settings applied; raises ProfileError."""
        found = find_profile(self.command, self.program)
        given = {"prompt": self.prompt, "silence": self.silence}
        try:
            return msgspec.structs.replace(
                found, **{name: each for name, each in given.items() if each is not None}
            )
        except ValueError as exc:
            raise ProfileError(str(exc)) from None


class ProgramRequest(Model, kw_only=True):
    """A request about the program of a session."""

    session_id: str


class ResizeProgramRequest(ProgramRequest, kw_only=True):
    """`_dragoman/pty/resize`: give the program's terminal another size."""

    columns: int
    rows: int


class PtyAgent(Agent):
    """Runs a program at a pseudo-terminal for each session and translates between it and ACP."""

    def __init__(self, client: RemoteClient, options: PtyOptions) -> None:
        super().__init__(client)
        self._options, self._profile = options, options.profile()
        self._terminals = Terminals(
            limits=TerminalLimits(per_session=1, per_host=MOST_SESSIONS), inherit=list(os.environ)
        )
        self._programs: dict[str, Program] = {}
        title = self._profile.title or os.path.basename(options.command[0])
        self.info = s.Implementation(name="pty", version="1", title=title)  # type: ignore[misc]
        self.config_options = (_size_option(options.size),)  # type: ignore[misc]

    async def __aexit__(self, *_: object) -> None:
        """End the programs of all sessions."""
        await finish(self._close())

    async def _close(self) -> None:
        for program in self._programs.values():
            await program.hang_up()
        await self._terminals.close()
        await asyncio.gather(*(program.reader for program in self._programs.values()))

    async def opened(self, session: AgentSession) -> None:
        """Start the session's program in its directory."""
        name, *words = self._options.command
        variables = {"TERM": "xterm", **self._profile.env}
        operation = execution(
            name, [*self._profile.args, *words], cwd=session.cwd, env=variables.items(), interactive=True
        )
        operation = msgspec.structs.replace(operation, argv=(name, *self._profile.args, *words), shell=False)
        size = self._options.size
        terminal = await self._terminals.create(session.id, operation, size=size)
        self._programs[session.id] = program = Program(terminal, self._profile, size)
        program.reader.add_done_callback(lambda _: self._ended(session, program))

    def _ended(self, session: AgentSession, program: Program) -> None:
        """Tell the client at once that a program has ended, even between turns."""
        if self.sessions.get(session.id) is session and not self.client.wire.closed:
            own(self._tell_end(session, program), "end")

    async def _tell_end(self, session: AgentSession, program: Program) -> None:
        status = await program.terminal.wait()
        if not self.client.wire.closed:
            failed = status is None or status.exit_code != 0
            await session.notice(f"The program {_told(status)}.", severity="warning" if failed else "info")

    async def close_session(self, params: s.CloseSessionRequest) -> s.CloseSessionResponse:
        """Cancel the session's turns and end its program."""
        response = await super().close_session(params)
        if program := self._programs.pop(params.session_id, None):
            await program.hang_up()
            await self._terminals.close(params.session_id)
            await program.reader
        return response

    # Turns

    async def answer(self, turn: Turn) -> None:
        """Type the prompt, send the program's output, and end when the program waits for input."""
        program, telling = self._programs[turn.session.id], _Telling(turn)
        if program.has_ended:
            told = f"the program {_told(await program.terminal.wait())}; open a new session to start it again"
            raise InvalidRequest(told, {"kind": "program_ended"})
        lines = self._profile.lines(_typed(turn))
        if left_out := [block.uri for block in turn.prompt if isinstance(block, s.ResourceLink)]:
            await turn.think(f"Links are not typed: {' '.join(left_out)}\n")
        try:
            moment = await self._settled(program, telling)
            for line in lines:
                if moment.kind == "ended":
                    break
                telling.begin_line()
                await program.type(line)
                moment = await self._settled(program, telling)
        except asyncio.CancelledError:
            await finish(self._interrupt(program, telling))
            raise
        await telling.end()
        if moment.kind == "ended":
            await self._report_end(turn, program)

    async def _settled(self, program: Program, telling: "_Telling") -> Moment:
        """Wait until the program waits for the next prompt; pass its questions on to the client."""
        while (moment := await program.wait(telling.say)).question:
            await program.type(await self._answered(moment, telling.turn, program), answers=True)
        return moment

    async def _answered(self, moment: Moment, turn: Turn, program: Program) -> str:
        """The text typed to answer a question: that of the option the user chose, else that of a refusal."""
        assert moment.question
        options = moment.question.offered(moment.line)
        above = "\n".join(program.screen.lines[-CONTEXT - 1 : -1])
        async with turn.tool(moment.line.strip()[-500:], kind="other") as call:
            if above.strip():
                await call.text(above)
            permission = await turn.ask(call, [option for option, _ in options])
        if permission.option:
            return next(types for option, types in options if option is permission.option)
        return next(types for option, types in options if option.kind.startswith("reject"))

    async def _interrupt(self, program: Program, telling: "_Telling") -> None:
        """Press Ctrl-C, at most twice, until the program waits for input; its last output is sent."""
        with contextlib.suppress(InvalidParams):  # it has ended
            for _ in range(2):
                await program.interrupt()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(INTERRUPT_PATIENCE):
                        await program.wait(telling.say)
                        break
        await telling.end()

    async def _report_end(self, turn: Turn, program: Program) -> None:
        status = await program.terminal.wait()
        ended = {"exitCode": status.exit_code, "signal": status.signal} if status else {}
        if status and status.exit_code == 0:
            turn.answer_meta = {"dragoman": {"programEnded": ended}}
        else:
            raise InternalError(f"the program {_told(status)}", {"kind": "program_ended", **ended})

    # The terminal

    async def set_config_option(self, params: s.SetSessionConfigOptionRequest) -> s.SetSessionConfigOptionResponse:
        """Set the size of the terminal."""
        response = await super().set_config_option(params)
        columns, rows = str(params.value).split("x")
        self._program(params.session_id).resize(Size(int(columns), int(rows)))
        return response

    @extension("_dragoman/pty/resize")
    async def resize(self, params: ResizeProgramRequest) -> Mapping[str, object]:
        """Resize the terminal, and tell the client that the option has changed."""
        session, size = self.session(params.session_id), checked_size(params.columns, params.rows)
        self._program(params.session_id).resize(size)
        await session.set_config_options([_size_option(size)])
        return {}

    @extension("_dragoman/pty/status")
    async def program_status(self, params: ProgramRequest) -> Mapping[str, object]:
        """Say whether the program runs, how it ended, and what is on its screen."""
        program = self._program(params.session_id)
        row, column = program.screen.cursor
        status = program.status
        return {
            "running": status is None,
            "pid": program.terminal.pid,
            **({"exitCode": status.exit_code, "signal": status.signal} if status else {}),
            "screen": program.screen.lines,
            "cursor": {"row": row, "column": column},
        }

    def _program(self, session_id: str) -> Program:
        self.session(session_id)
        return self._programs[session_id]


class _Telling:
    """The output of a turn up to a limit; after that, only the end is kept."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self._said = self._left_out = 0
        self._tail = ""
        self._begins = False  # the next output begins a line

    def begin_line(self) -> None:
        """Begin a new line with the next output."""
        self._begins = self._said > 0

    async def say(self, text: str) -> None:
        if self._begins:
            text, self._begins = f"\n{text}", False
        if self._said < MOST_SAID:
            self._said += len(text)
            await self.turn.say(text)
            return
        self._tail += text
        self._left_out += max(len(self._tail) - TAIL, 0)
        self._tail = self._tail[-TAIL:]

    async def end(self) -> None:
        if self._left_out:
            await self.turn.say(f"\n[… {self._left_out} characters are left out]\n")
        if self._tail:
            await self.turn.say(self._tail)
        self._tail, self._left_out = "", 0


def checked_size(columns: int, rows: int) -> Size:
    """A valid size of a screen; raises InvalidParams."""
    if not (2 <= columns <= MAX_SIZE and 2 <= rows <= MAX_SIZE):
        raise InvalidParams(f"a terminal must have between 2 and {MAX_SIZE} columns and rows", {"kind": "bad_size"})
    return Size(columns, rows)


def _size_option(size: Size) -> s.SessionConfigSelect:
    now = f"{size.columns}x{size.rows}"
    return s.SessionConfigSelect(
        id="size",
        name="Terminal size",
        current_value=now,
        options=[s.SessionConfigSelectOption(value=each, name=each) for each in dict.fromkeys((now, *SIZES))],
    )


def _typed(turn: Turn) -> str:
    """The text of a prompt, as it is typed."""
    text = turn.text.replace("\r\n", "\n")
    if found := _CONTROL.search(text):
        raise InvalidParams(
            f"a prompt that is typed cannot contain the control character {found[0]!r}",
            {"kind": "control_character"},
        )
    return text


def _told(status: s.TerminalExitStatus | None) -> str:
    if status is None or (status.exit_code is None and status.signal is None):
        return "has ended"
    return f"was ended by {status.signal}" if status.signal else f"exited with status {status.exit_code}"
