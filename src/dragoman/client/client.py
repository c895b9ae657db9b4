"""The client author's interface: drive an agent's sessions, answer the agent's requests."""

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypedDict, Unpack

import msgspec

from .. import __version__
from .. import schema as s
from ..agent.agent import PROTOCOL_VERSION
from ..connection.connection import Connection
from ..connection.remotes import RemoteAgent
from ..errors import AgentStartError, Error, InvalidParams, LocalProtocolError, brief
from ..foundation.owning import cancel_once
from ..roles import AgentRole, ClientRole, checked, methods, offered, overrides
from .agent_servers import McpHearers, servers_in
from .inboxes import Inboxes
from .outgoing import SentTurns
from .session import Session

if TYPE_CHECKING:
    from ..mcp.provided import ProvidedServers

MAX_PAGES = 1000
NEW, FORK, CLOSE = (methods(AgentRole)[name] for name in ("new_session", "fork_session", "close_session"))


class SessionOptions(TypedDict, total=False):
    """The options of a new session besides its directory."""

    mcp_servers: Sequence[s.McpServer]
    additional_directories: Sequence[str | os.PathLike[str]]
    system_prompt: s.SystemPrompt | None
    meta: Mapping[str, Any] | None


class _Unconnected:
    """Stands for a part that a client has only while connected; every use raises an error that says so."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError("this client is not connected: use `async with connect(agent, client):`")


UNCONNECTED: Any = _Unconnected()


class Client(ClientRole):
    """Drives an agent and answers its requests.

    A plain client lends nothing: it refuses permissions and has no files, terminals or forms.  A subclass
    advertises the methods it overrides.  `fill_form` and `open_url` ask the user.
    """

    info: ClassVar[s.Implementation | None] = None

    mcp_servers: Sequence[object] = ()  # offered to every session: `MCPServer` objects, or configurations

    agent: RemoteAgent = UNCONNECTED
    _provided: "ProvidedServers | None" = None
    connection: Connection = UNCONNECTED
    _inboxes: Inboxes = UNCONNECTED
    dialect = "v1"  # the dialect the agent speaks; the connection translates it

    def __init__(self) -> None:
        self.agent_info: s.Implementation | None = None
        self.agent_capabilities = s.AgentCapabilities()
        self.auth_methods: Sequence[s.AuthMethod] = ()
        self.turns = SentTurns()
        self.mcp_hearers = McpHearers()
        self._questions: dict[str, dict[int, asyncio.Task[Any]]] = {}  # open permission requests by session

    @property
    def closed(self) -> Exception | None:
        """Why the connection was closed; None while it is open."""
        return self.connection.closed

    @property
    def agent_servers(self) -> Sequence[str]:
        """The names of the MCP servers that the agent offers, for `session.mcp`."""
        return servers_in(self.agent_capabilities)

    # Sessions

    async def new_session(self, cwd: str | os.PathLike[str] = ".", **options: Unpack[SessionOptions]) -> Session:
        """Open a new session in a directory."""
        request = s.NewSessionRequest(**_placed(cwd, options, self._servers()))
        with self._inboxes.opening():
            response = await self.connection.call(NEW, checked(NEW, request), self._close_unwanted)
            return self._session(response.session_id, response)

    async def load_session(
        self, session_id: str, cwd: str | os.PathLike[str] = ".", **options: Unpack[SessionOptions]
    ) -> Session:
        """Open a stored session; its whole history is in `session.backlog()`."""
        request = s.LoadSessionRequest(session_id=session_id, **_placed(cwd, options, self._servers()))
        with self._inboxes.loading(session_id):
            return self._session(session_id, await self.agent.load_session(request))

    async def resume_session(
        self, session_id: str, cwd: str | os.PathLike[str] = ".", **options: Unpack[SessionOptions]
    ) -> Session:
        """Open a stored session without receiving its history."""
        request = s.ResumeSessionRequest(session_id=session_id, **_placed(cwd, options, self._servers()))
        return self._session(session_id, await self.agent.resume_session(request))

    async def fork_session(
        self, session_id: str, cwd: str | os.PathLike[str] = ".", **options: Unpack[SessionOptions]
    ) -> Session:
        """Open a new session with the history of another one."""
        request = s.ForkSessionRequest(session_id=session_id, **_placed(cwd, options, self._servers()))
        with self._inboxes.opening():
            self.agent.must_offer(FORK)
            response = await self.connection.call(FORK, checked(FORK, request), self._close_unwanted)
            return self._session(response.session_id, response)

    async def list_sessions(
        self, cwd: str | os.PathLike[str] | None = None, archived: str | None = None
    ) -> list[s.SessionInfo]:
        """List the agent's stored sessions, from all pages."""
        directory = None if cwd is None else absolute(cwd)
        found: list[s.SessionInfo] = []
        cursor = None
        for _ in range(MAX_PAGES):
            request = s.ListSessionsRequest(cwd=directory, cursor=cursor, archived=archived)
            page = await self.agent.list_sessions(request)
            found += page.sessions
            if (cursor := page.next_cursor) is None:
                break
        return found

    async def close_session(self, session_id: str) -> None:
        """Close a session; an unknown one is not an error.

        Its updates are not kept any longer, whatever the agent answers.
        """
        with self._inboxes.leaving(session_id):
            await self.agent.close_session(s.CloseSessionRequest(session_id=session_id))

    async def delete_session(self, session_id: str) -> None:
        """Delete a stored session; an unknown one is not an error."""
        with self._inboxes.leaving(session_id):
            await self.agent.delete_session(s.DeleteSessionRequest(session_id=session_id))

    def session(self, session_id: str) -> Session:
        """Give a session by its id, such as a subagent's."""
        return Session(self, session_id, self._inboxes.know(session_id))

    # Authentication

    async def authenticate(self, method_id: str) -> None:
        """Log in with one of the agent's `auth_methods`."""
        await self.agent.authenticate(s.AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        """Log out of the agent; raises `NotOffered` if it cannot."""
        await self.agent.logout(s.LogoutRequest())

    # The agent's requests

    def update(self, params: s.SessionNotification) -> None:
        """Keep an update until the session's reader takes it; an override calls `super().update(params)`."""
        self._inboxes[params.session_id].put(params.update, self.connection.frame)  # type: ignore[arg-type]

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """Refuse; override it to ask the user."""
        return refusal(params)

    async def create_elicitation(self, params: s.CreateElicitationRequest) -> s.CreateElicitationResponse:
        """Answer an elicitation request of the agent with `fill_form` or `open_url`."""
        own = type(self)
        if isinstance(params, s.FormElicitation) and own.fill_form is not Client.fill_form:
            content = await self.fill_form(params)
            return s.ElicitationDecline() if content is None else s.ElicitationAcceptAction(content=content)
        if isinstance(params, s.UrlElicitation) and own.open_url is not Client.open_url:
            return s.ElicitationAcceptAction() if await self.open_url(params) else s.ElicitationDecline()
        raise InvalidParams("this client cannot ask in that mode")

    async def fill_form(self, form: s.FormElicitation) -> Mapping[str, s.ElicitationContentValue] | None:
        """Ask the user to fill in a form; return None if they decline."""
        raise InvalidParams("this client shows no forms")

    async def open_url(self, question: s.UrlElicitation) -> bool:
        """Ask the user whether to open a page, and open it only then; return whether they agreed."""
        raise InvalidParams("this client opens no pages")

    def begin_turn(self, session_id: str) -> None:
        """Called before a prompt is sent; does nothing by default."""

    def is_cancelled(self, session_id: str) -> bool:
        """Whether a turn of a session was cancelled and is not answered yet; the user must not be asked in it."""
        return self.turns.is_cancelled(session_id)

    def withdraw_questions(self, session_id: str) -> None:
        """Answer every open permission request of a session `cancelled`; later answers have no effect."""
        for key, task in self._questions.get(session_id, {}).items():
            self.connection.answer_early(key, CANCELLED)
            cancel_once(task)

    # The handshake

    def capabilities(self) -> s.ClientCapabilities:
        """Give the capabilities to advertise: the overridden methods and all updates a `Transcript` shows."""
        own = type(self)

        def has(*names: str) -> bool:
            return all(overrides(own, name) for name in names)

        form, url = own.fill_form is not Client.fill_form, own.open_url is not Client.open_url
        return s.ClientCapabilities(
            fs=s.FileSystemCapabilities(
                read_text_file=has("read_text_file"), write_text_file=has("write_text_file")
            ),
            terminal=has(
                "create_terminal",
                "terminal_output",
                "wait_for_terminal_exit",
                "kill_terminal",
                "release_terminal",
            ),
            session=s.ClientSessionCapabilities(
                compaction=s.CompactionCapabilities(),
                notices=s.NoticeCapabilities(),
                config_options=s.SessionConfigOptionsCapabilities(boolean=s.BooleanConfigOptionCapabilities()),
            ),
            elicitation=(
                s.ElicitationCapabilities(
                    form=s.ElicitationFormCapabilities() if form else None,
                    url=s.ElicitationUrlCapabilities() if url else None,
                )
                if form or url
                else None
            ),
            plan=s.PlanCapabilities(),
            subagents=s.SubagentCapabilities(),
        )

    async def initialize(self) -> None:
        """Do the handshake; `connect` calls it."""
        response = await self.agent.initialize(
            s.InitializeRequest(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=self.capabilities(),
                client_info=self.info or s.Implementation(name="dragoman", version=__version__),
            )
        )
        if response.protocol_version != PROTOCOL_VERSION:
            raise AgentStartError(
                f"the agent speaks protocol version {response.protocol_version}, this client {PROTOCOL_VERSION}"
            )
        self.agent.offers = self.agent_capabilities = response.agent_capabilities
        self.agent_info, self.auth_methods = response.agent_info, response.auth_methods

    def attach(self, connection: Connection) -> None:
        """Start to use a connection; `connect` calls it."""
        if not hasattr(self, "turns"):
            raise TypeError(f"{type(self).__name__}.__init__ must call super().__init__() first")
        if self.connection is not UNCONNECTED and not self.closed:
            raise LocalProtocolError("this client is connected already; make a Client for each connection")
        self.connection, self.agent = connection, RemoteAgent(connection)
        self._inboxes = Inboxes(connection)
        connection.when_closed(self._inboxes.wake)
        requests, notifications = self.answers(ClientRole)
        notifications = {**self.mcp_hearers.answers(), **notifications}
        if self.mcp_servers:
            from ..mcp.provided import ProvidedServers

            self._provided = ProvidedServers(self.mcp_servers, self.agent)
            further, told = self._provided.answers()
            requests, notifications = {**further, **requests}, {**told, **notifications}
        ask = requests["session/request_permission"]
        withdrawable = msgspec.structs.replace(ask, handler=functools.partial(self._ask, ask.handler))  # type: ignore[arg-type]
        connection.answer_with({**requests, ask.name: withdrawable}, notifications)

    async def _ask(
        self,
        handler: Callable[[Any], Coroutine[Any, Any, s.RequestPermissionResponse]],
        params: s.RequestPermissionRequest,
    ) -> s.RequestPermissionResponse:
        """Answer a permission request; a cancel of the session ends it."""
        if self.is_cancelled(params.session_id):
            return CANCELLED
        key, task = self.connection.answering, asyncio.current_task()
        assert task
        questions = self._questions.setdefault(params.session_id, {})
        questions[key] = task
        try:
            return await handler(params)
        finally:
            del questions[key]
            if not questions and self._questions.get(params.session_id) is questions:
                del self._questions[params.session_id]

    def _session(self, id: str, response: "_Opened") -> Session:
        inbox = self._inboxes.know(id)
        return Session(self, id, inbox, modes=response.modes, config_options=response.config_options)

    def _close_unwanted(self, opened: "s.NewSessionResponse | s.ForkSessionResponse") -> None:
        """Close a session that the agent opened after its caller was cancelled, if the agent can close sessions."""
        if offered(self.agent_capabilities, CLOSE.capability):
            request = s.CloseSessionRequest(session_id=opened.session_id)
            self.connection.submit(CLOSE, request, lambda _: None)

    def _servers(self) -> Sequence[s.McpServer]:
        """The client's own MCP servers, in the form in which a session is opened with them."""
        return self._provided.offered(self.agent_capabilities) if self._provided else ()

    async def end_servers(self) -> None:
        """End the MCP servers that were offered, after the connection was closed."""
        if self._provided:
            provided, self._provided = self._provided, None
            await provided.close()

    async def take_back(self) -> None:
        """End what the agent was lent, after the connection was closed; a plain client lends nothing."""

    def detach(self) -> None:
        """Drop unread updates after the connection was closed."""
        self._inboxes.close()


CANCELLED = s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())
_Opened = s.NewSessionResponse | s.LoadSessionResponse | s.ResumeSessionResponse | s.ForkSessionResponse


def refusal(params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
    """The answer that allows nothing: the option to reject once, or `cancelled`."""
    for kind in ("reject_once", "reject_always"):
        for option in params.options:
            if option.kind == kind:
                outcome = s.SelectedPermissionOutcome(option_id=option.option_id)
                return s.RequestPermissionResponse(outcome=outcome)
    return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())


def _placed(cwd: str | os.PathLike[str], options: SessionOptions, servers: Sequence[s.McpServer]) -> dict[str, Any]:
    """The options of a session as requests carry them: absolute paths, and always a list of servers."""
    placed: dict[str, Any] = {"mcp_servers": [], **options, "cwd": absolute(cwd)}
    if servers:
        placed["mcp_servers"] = [*placed["mcp_servers"], *servers]
    if directories := options.get("additional_directories"):
        if isinstance(directories, str | bytes | os.PathLike):
            told = "additional_directories is a list of paths: write additional_directories"
            raise TypeError(f"{told}=[{directories!r}]")
        placed["additional_directories"] = [absolute(directory) for directory in directories]
    return placed


def absolute(path: str | os.PathLike[str]) -> str:
    """An absolute path, as the protocol requires."""
    try:
        return os.fsdecode(os.path.abspath(path))
    except FileNotFoundError:
        told = "it is relative, and the current directory was removed. Give an absolute path"
        raise Error(f"there is no directory {brief(repr(path))}: {told}") from None
