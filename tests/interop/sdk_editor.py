"""A client written with the official SDK, and a Dragoman agent's process for it to drive."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from command_runner import CommandRunner
from sdk import acp, schema

AGENT = Path(__file__).parent / "peers" / "dragoman_agent.py"

CAPABILITIES = schema.ClientCapabilities(
    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
    terminal=True,
    session=schema.ClientSessionCapabilities(
        config_options=schema.SessionConfigOptionsCapabilities(boolean=schema.BooleanConfigOptionCapabilities())
    ),
    plan=schema.PlanCapabilities(),
    elicitation=schema.ElicitationCapabilities(
        form=schema.ElicitationFormCapabilities(), url=schema.ElicitationUrlCapabilities()
    ),
)
INFO = schema.Implementation(name="sdk-editor", title="SDK editor", version="7.7.7")


class SdkEditor(acp.Client):
    def __init__(self) -> None:
        self.terminals = CommandRunner()
        self.updates: list[Any] = []
        self.metas: list[dict[str, Any]] = []
        self.news = asyncio.Event()
        self.choice: str | None = None  # None: the user closes the dialog
        self.hesitates = False
        self.asked: asyncio.Queue[Any] = asyncio.Queue()
        self.filled_in: dict[str, Any] | None = None
        self.questions: list[Any] = []
        self.completed: list[str] = []
        self.notes: list[Any] = []

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what has arrived is enough: the SDK runs handlers on their own, behind the response."""
        while not condition():
            self.news.clear()
            await self.news.wait()

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update)
        self.metas.append(kwargs)
        self.news.set()

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked.put_nowait((tool_call, options))
        if self.hesitates:
            await asyncio.Event().wait()
        if self.choice is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=self.choice)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id, path, line=None, limit=None, **kwargs):
        try:
            lines = Path(path).read_text().splitlines(keepends=True)
        except FileNotFoundError:
            raise acp.RequestError.resource_not_found(path) from None
        start = (line or 1) - 1
        end = None if limit is None else start + limit
        return schema.ReadTextFileResponse(content="".join(lines[start:end]))

    async def write_text_file(self, session_id, path, content, **kwargs):
        Path(path).write_text(content)

    async def create_terminal(
        self, session_id, command, args=None, env=None, cwd=None, output_byte_limit=None, **kwargs
    ):
        variables = {variable.name: variable.value for variable in env or ()}
        id = await self.terminals.start(command, args or (), variables, cwd, output_byte_limit)
        return schema.CreateTerminalResponse(terminal_id=id)

    async def terminal_output(self, session_id, terminal_id, **kwargs):
        try:
            command = self.terminals[terminal_id]
        except KeyError:
            raise acp.RequestError.resource_not_found(terminal_id) from None
        end = command.ending
        status = schema.TerminalExitStatus(exit_code=end.code, signal=end.signal) if end else None
        return schema.TerminalOutputResponse(
            output=command.output, truncated=command.is_truncated, exit_status=status
        )

    async def wait_for_terminal_exit(self, session_id, terminal_id, **kwargs):
        end = await self.terminals[terminal_id].wait()
        return schema.WaitForTerminalExitResponse(exit_code=end.code, signal=end.signal)

    async def kill_terminal(self, session_id, terminal_id, **kwargs):
        self.terminals[terminal_id].kill()

    async def release_terminal(self, session_id, terminal_id, **kwargs):
        await self.terminals.release(terminal_id)

    async def create_elicitation(self, message, mode, **kwargs):
        self.questions.append((message, mode))
        if isinstance(mode, schema.ElicitationUrlSessionMode):
            return schema.AcceptElicitationResponse(action="accept")
        if self.filled_in is None:
            return schema.DeclineElicitationResponse(action="decline")
        return schema.AcceptElicitationResponse(action="accept", content=self.filled_in)

    async def complete_elicitation(self, elicitation_id, **kwargs):
        self.completed.append(elicitation_id)

    async def ext_method(self, method, params):
        if method != "peer/ask":
            raise acp.RequestError.method_not_found(f"_{method}")
        return {"asked": params["question"]}

    async def ext_notification(self, method, params):
        self.notes.append((method, params))


class DragomanAgent:
    """Our agent as the SDK's client sees it; one session is open."""

    def __init__(self, connection: Any, editor: Any, frames: list[Any], directory: Path) -> None:
        self.connection, self.editor, self.frames, self.directory = connection, editor, frames, directory
        self.initialized: Any = None
        self.opened: Any = None

    async def new_session(self, cwd: Path | None = None, **given: Any) -> Any:
        return await self.connection.new_session(cwd=str(cwd or self.directory), **given)

    async def play(self, verb: str, *blocks: Any, **arguments: Any) -> tuple[list[Any], Any]:
        """One turn: its updates, and how it ended."""
        before = len(self.editor.updates)
        prompt = [acp.text_block(f"{verb} {json.dumps(arguments)}"), *blocks]
        response = await self.connection.prompt(session_id=self.opened.session_id, prompt=prompt)
        return self.editor.updates[before:], response

    async def find_out(self, verb: str, **arguments: Any) -> Any:
        """What the agent reports of one turn."""
        updates, response = await self.play(verb, **arguments)
        assert response.stop_reason == "end_turn"
        return json.loads(updates[-1].content.text)

    def complaints(self) -> str:
        """What the agent has written to stderr."""
        return (self.directory / "stderr").read_text()


@asynccontextmanager
async def dragoman_agent(
    directory: Path,
    *words: str,
    editor: Any = None,
    capabilities: Any = CAPABILITIES,
    is_quiet: bool = True,
    limit: int | None = None,
) -> AsyncIterator[DragomanAgent]:
    """Start our agent, shake hands and open a session; leaving the block checks that it ended well, and quietly."""
    frames: list[Any] = []
    editor = editor or SdkEditor()
    try:
        with (directory / "stderr").open("wb") as stderr:  # the SDK never reads a pipe it puts there
            async with acp.spawn_agent_process(
                editor,
                sys.executable,
                str(AGENT),
                *words,
                transport_kwargs={"stderr": stderr, "limit": limit},
                use_unstable_protocol=True,  # which forking, resuming, closing and elicitation are to the SDK
                observers=[frames.append],
            ) as (connection, process):
                agent = DragomanAgent(connection, editor, frames, directory)
                agent.initialized = await connection.initialize(
                    protocol_version=acp.PROTOCOL_VERSION, client_capabilities=capabilities, client_info=INFO
                )
                if "locked" not in words:
                    agent.opened = await agent.new_session()
                    # The commands follow the answer; a test that counts updates starts behind them.
                    await editor.until(lambda: bool(editor.updates))
                yield agent
    finally:
        await editor.terminals.close()
    assert process.returncode == 0
    if is_quiet:
        assert agent.complaints() == ""
