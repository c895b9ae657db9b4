"""A client for tests: offers the agent everything, answers as configured, and records all that happens."""

import inspect
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from .. import schema as s
from ..client.client import Client, refusal
from ..errors import InvalidParams, ResourceNotFound
from ..roles import extension
from .command import RunningCommand

Choice = str | None  # the id of the chosen option; None to leave the question unanswered
Policy = Literal["allow", "reject", "cancel"] | Callable[[s.RequestPermissionRequest], Choice | Awaitable[Choice]]
Form = Mapping[str, s.ElicitationContentValue] | None

Received: TypeAlias = dict[str, Any]  # a JSON object
# The params of each request that the client received; those of an extension as JSON values.
Recorded = (
    s.RequestPermissionRequest
    | s.ReadTextFileRequest
    | s.WriteTextFileRequest
    | s.CreateTerminalRequest
    | s.TerminalOutputRequest
    | s.WaitForTerminalExitRequest
    | s.KillTerminalRequest
    | s.ReleaseTerminalRequest
    | s.FormElicitation
    | s.UrlElicitation
    | Received
)
RecordedNotification = s.CompleteElicitationNotification | s.AuthStatusUpdateNotification | Received


class RecordingClient(Client):
    """Offers an agent everything that a client can offer, and keeps all updates and requests.

    `permissions` answers permission requests: "allow", "reject", "cancel", or a function from the request to the id
    of an option.  `form` is the content for every form (None declines), `visits` whether pages are opened.
    """

    info = s.Implementation(name="recording-client", version="1.0")

    def __init__(
        self,
        *,
        permissions: Policy = "allow",
        files: Mapping[str, str] | None = None,
        form: Form = None,
        visits: bool = False,
    ) -> None:
        super().__init__()
        if permissions not in ("allow", "reject", "cancel") and not callable(permissions):
            told = "permissions= must be 'allow', 'reject', 'cancel' or a function"
            raise TypeError(f"{told}, and not {permissions!r}")
        self.permissions = permissions
        self.files = dict(files or {})
        self.form = form
        self.visits = visits
        self.updates: list[s.SessionNotification] = []  # all updates, in order
        self.requests: list[Recorded] = []  # the params of all requests, in order
        self.notifications: list[RecordedNotification] = []  # the params of all other notifications, in order
        self._commands: dict[str, RunningCommand] = {}
        self._ids = itertools.count(1)

    def capabilities(self) -> s.ClientCapabilities:
        """Offer everything, including logins in a terminal."""
        return msgspec.structs.replace(super().capabilities(), auth=s.AuthCapabilities(terminal=True))

    def detach(self) -> None:
        """End all commands when the connection has ended."""
        super().detach()
        for command in self._commands.values():
            command.release()
        self._commands.clear()

    def update(self, params: s.SessionNotification) -> None:
        """Keep the update in `updates` and pass it on to its session."""
        self.updates.append(params)
        super().update(params)

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """Keep the request and answer it according to `permissions`."""
        self.requests.append(params)
        match self.permissions:
            case "allow":
                choice = next((option.option_id for option in params.options if option.kind in ALLOWING), None)
            case "reject":
                return refusal(params)
            case "cancel":
                choice = None
            case policy:
                chosen = policy(params)
                choice = await chosen if inspect.isawaitable(chosen) else chosen
        if choice is None:
            return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())
        return s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id=choice))

    # Files

    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        """Read from `files`."""
        self.requests.append(params)
        if params.path not in self.files:
            raise ResourceNotFound(f"Resource not found: {params.path}", {"uri": params.path})
        lines = self.files[params.path].splitlines(keepends=True)
        start = max((params.line or 1) - 1, 0)
        end = None if params.limit is None else start + params.limit
        return s.ReadTextFileResponse(content="".join(lines[start:end]))

    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        """Write into `files`."""
        self.requests.append(params)
        self.files[params.path] = params.content
        return s.WriteTextFileResponse()

    # Terminals

    async def create_terminal(self, params: s.CreateTerminalRequest) -> s.CreateTerminalResponse:
        """Start the command as a real process."""
        self.requests.append(params)
        id = f"terminal-{next(self._ids)}"
        self._commands[id] = RunningCommand(params)
        return s.CreateTerminalResponse(terminal_id=id)

    async def terminal_output(self, params: s.TerminalOutputRequest) -> s.TerminalOutputResponse:
        """Give the output so far."""
        self.requests.append(params)
        return self._command(params.terminal_id).output()

    async def wait_for_terminal_exit(self, params: s.WaitForTerminalExitRequest) -> s.WaitForTerminalExitResponse:
        """Wait until the command ends."""
        self.requests.append(params)
        status = await self._command(params.terminal_id).wait()
        return s.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill_terminal(self, params: s.KillTerminalRequest) -> s.KillTerminalResponse:
        """End the command."""
        self.requests.append(params)
        self._command(params.terminal_id).kill()
        return s.KillTerminalResponse()

    async def release_terminal(self, params: s.ReleaseTerminalRequest) -> s.ReleaseTerminalResponse:
        """End the command and forget it."""
        self.requests.append(params)
        self._command(params.terminal_id).release()
        del self._commands[params.terminal_id]
        return s.ReleaseTerminalResponse()

    @property
    def terminals(self) -> list[str]:
        """The ids of the terminals not yet released."""
        return list(self._commands)

    def _command(self, terminal_id: str) -> RunningCommand:
        try:
            return self._commands[terminal_id]
        except KeyError:
            raise InvalidParams(f"there is no terminal {terminal_id!r}") from None

    # Questions to the user

    async def fill_form(self, form: s.FormElicitation) -> Form:
        """Fill in every form with `form`; None declines."""
        self.requests.append(form)
        return self.form

    async def open_url(self, question: s.UrlElicitation) -> bool:
        """Agree to open a page if `visits` is true."""
        self.requests.append(question)
        return self.visits

    def complete_elicitation(self, params: s.CompleteElicitationNotification) -> None:
        """Keep the notification in `notifications`."""
        self.notifications.append(params)

    def auth_status_changed(self, params: s.AuthStatusUpdateNotification) -> None:
        """Keep the notification in `notifications`."""
        self.notifications.append(params)

    # Extensions that Testy uses

    @extension("_testy/ping")
    async def ping(self, params: Any) -> Any:
        """Keep the request and answer with the params."""
        self.requests.append(params)
        return {"pong": params}

    @extension("_testy/nest")
    async def nest(self, params: Any) -> Any:
        """Send the same request back with the depth reduced by one; returns the number of levels."""
        depth = params["depth"]
        return 1 + await self.agent.request("_testy/nest", {"depth": depth - 1}) if depth else 0

    @extension("_testy/tock")
    def tock(self, params: Any) -> None:
        """Keep the notification in `notifications`."""
        self.notifications.append(params)


ALLOWING = ("allow_once", "allow_always")
