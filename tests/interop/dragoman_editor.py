"""Our client as an editor has it: it lends real files, real terminals, and a user who can be told what to say."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from command_runner import CommandRunner

from dragoman import Client, ResourceNotFound, Session, extension
from dragoman import schema as s

Answer = Callable[[s.RequestPermissionRequest], s.RequestPermissionResponse]


def choose(option_id: str) -> Answer:
    """A user who always picks this option."""
    outcome = s.SelectedPermissionOutcome(option_id=option_id)
    return lambda question: s.RequestPermissionResponse(outcome=outcome)


def dismiss(question: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
    """A user who closes the dialog."""
    return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())


class Editor(Client):
    info = s.Implementation(name="interop-editor", version="9.9.9", title="Interop editor")

    def __init__(self) -> None:
        super().__init__()
        self.terminals = CommandRunner()
        self.reset()

    def reset(self) -> None:
        """Send the user away and forget what was asked."""
        self.answer: Answer | None = None
        self.hesitates = False
        self.filled_in: Mapping[str, Any] | None = None
        self.asked: asyncio.Queue[s.RequestPermissionRequest] = asyncio.Queue()
        self.forms: list[s.FormElicitation] = []
        self.pages: list[s.UrlElicitation] = []
        self.completed: list[str] = []
        self.notes: list[Any] = []
        self.notifications: list[s.SessionNotification] = []

    def update(self, params: s.SessionNotification) -> None:
        self.notifications.append(params)
        super().update(params)

    # Permissions

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        self.asked.put_nowait(params)
        if self.hesitates:
            await asyncio.Event().wait()
        return self.answer(params) if self.answer else await super().request_permission(params)

    # Files

    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        try:
            text = Path(params.path).read_text()
        except FileNotFoundError:
            raise ResourceNotFound(data={"uri": params.path}) from None
        lines = text.splitlines(keepends=True)[(params.line or 1) - 1 :]
        return s.ReadTextFileResponse(content="".join(lines[: params.limit]))

    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        Path(params.path).write_text(params.content)
        return s.WriteTextFileResponse()

    # Terminals

    async def create_terminal(self, params: s.CreateTerminalRequest) -> s.CreateTerminalResponse:
        env = {variable.name: variable.value for variable in params.env}
        id = await self.terminals.start(params.command, params.args, env, params.cwd, params.output_byte_limit)
        return s.CreateTerminalResponse(terminal_id=id)

    async def terminal_output(self, params: s.TerminalOutputRequest) -> s.TerminalOutputResponse:
        try:
            command = self.terminals[params.terminal_id]
        except KeyError:
            raise ResourceNotFound(data={"uri": params.terminal_id}) from None
        end = command.ending
        status = s.TerminalExitStatus(exit_code=end.code, signal=end.signal) if end else None
        return s.TerminalOutputResponse(output=command.output, truncated=command.is_truncated, exit_status=status)

    async def wait_for_terminal_exit(self, params: s.WaitForTerminalExitRequest) -> s.WaitForTerminalExitResponse:
        end = await self.terminals[params.terminal_id].wait()
        return s.WaitForTerminalExitResponse(exit_code=end.code, signal=end.signal)

    async def kill_terminal(self, params: s.KillTerminalRequest) -> s.KillTerminalResponse:
        self.terminals[params.terminal_id].kill()
        return s.KillTerminalResponse()

    async def release_terminal(self, params: s.ReleaseTerminalRequest) -> s.ReleaseTerminalResponse:
        await self.terminals.release(params.terminal_id)
        return s.ReleaseTerminalResponse()

    # Questions

    async def fill_form(self, form: s.FormElicitation) -> Mapping[str, Any] | None:
        self.forms.append(form)
        return self.filled_in

    async def open_url(self, question: s.UrlElicitation) -> bool:
        self.pages.append(question)
        return True

    def complete_elicitation(self, params: s.CompleteElicitationNotification) -> None:
        self.completed.append(params.elicitation_id)

    # Extensions

    @extension("_peer/ask")
    async def answer_peer(self, params: Any) -> Any:
        return {"asked": params["question"]}

    @extension("_peer/note")
    def note_peer(self, params: Any) -> None:
        self.notes.append(params)


async def play(
    session: Session, verb: str, *blocks: s.ContentBlock, **arguments: Any
) -> tuple[list[s.SessionUpdate], s.PromptResponse]:
    """One turn of a peer: its updates, and how it ended."""
    prompt = [s.TextContent(text=f"{verb} {json.dumps(arguments)}"), *blocks]
    *updates, response = [event async for event in session.prompt(prompt)]
    return updates, response


async def find_out(session: Session, verb: str, **arguments: Any) -> Any:
    """What the peer reports of one turn."""
    updates, response = await play(session, verb, **arguments)
    assert response.stop_reason == "end_turn"
    return report(updates)


def report(updates: list[s.SessionUpdate]) -> Any:
    return json.loads(updates[-1].content.text)
