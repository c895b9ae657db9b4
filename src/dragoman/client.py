"""What a client's author sees: drive an agent's sessions, answer what it asks."""

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, TypedDict, Unpack

import msgspec

from . import __version__
from . import schema as s
from .agent import PROTOCOL_VERSION
from .connection import Connection
from .errors import AgentStartError, InvalidParams, ResourceNotFound
from .inbox import Inbox
from .roles import ClientRole, RemoteAgent, overrides
from .session import Session

MAX_STRANGERS = 256  # sessions whose updates are kept though nobody has asked for them yet
STRANGER_ROOM = 64 * 1024  # bytes kept of each of them
MAX_PAGES = 1000


class SessionOptions(TypedDict, total=False):
    """What a session may be given besides its directory."""

    mcp_servers: Sequence[s.McpServer]
    additional_directories: Sequence[str | os.PathLike[str]]
    system_prompt: s.SystemPrompt | None
    meta: Mapping[str, Any] | None


class Client(ClientRole):
    """Drives an agent and answers what it asks.

    Lends the agent nothing by itself: permissions are refused, and there are no files, no terminals, no forms.
    Whatever a subclass overrides is advertised.  `fill_form` and `open_url` are the two ways to ask the user.
    """

    info: ClassVar[s.Implementation | None] = None

    agent: RemoteAgent
    connection: Connection
    dialect = "v1"  # what the agent speaks; it is translated

    def __init__(self) -> None:
        self.agent_info: s.Implementation | None = None
        self.agent_capabilities = s.AgentCapabilities()
        self.auth_methods: Sequence[s.AuthMethod] = ()
        self._inboxes: dict[str, Inbox] = {}
        self._known: set[str] = set()  # the sessions somebody here has opened
        self._strangers: dict[str, None] = {}  # those that have an inbox all the same, in the order they came
        self._questions: dict[str, set[asyncio.Task[Any]]] = {}

    @property
    def closed(self) -> Exception | None:
        """Why the connection is gone; None while it is not."""
        return self.connection.closed

    # Sessions

    async def new_session(self, cwd: str | os.PathLike[str] = ".", **options: Unpack[SessionOptions]) -> Session:
        """Start a conversation in a directory."""
        response = await self.agent.new_session(s.NewSessionRequest(**_placed(cwd, options)))
        return self._session(response.session_id, response)

    async def load_session(
        self, session_id: str, cwd: str | os.PathLike[str] = ".", **options: Unpack[SessionOptions]
    ) -> Session:
        """Bring a conversation back; its whole history is in the session's `backlog`."""
        self._forget(session_id)
        self._know(session_id)  # its history comes before the answer does
        request = s.LoadSessionRequest(session_id=session_id, **_placed(cwd, options))
        return self._session(session_id, await self.agent.load_session(request))

    async def resume_session(
        self, session_id: str, cwd: str | os.PathLike[str] = ".", **options: Unpack[SessionOptions]
    ) -> Session:
        """Go on with a conversation without having its history told again."""
        request = s.ResumeSessionRequest(session_id=session_id, **_placed(cwd, options))
        return self._session(session_id, await self.agent.resume_session(request))

    async def fork_session(
        self, session_id: str, cwd: str | os.PathLike[str] = ".", **options: Unpack[SessionOptions]
    ) -> Session:
        """A new conversation that starts out knowing what another one knows."""
        request = s.ForkSessionRequest(session_id=session_id, **_placed(cwd, options))
        response = await self.agent.fork_session(request)
        return self._session(response.session_id, response)

    async def list_sessions(
        self, cwd: str | os.PathLike[str] | None = None, archived: str | None = None
    ) -> list[s.SessionInfo]:
        """All conversations the agent knows, from all pages."""
        directory = None if cwd is None else os.path.abspath(cwd)
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
        """End a conversation; one the agent does not know is ended already."""
        with contextlib.suppress(ResourceNotFound):
            await self.agent.close_session(s.CloseSessionRequest(session_id=session_id))
        self._forget(session_id)

    async def delete_session(self, session_id: str) -> None:
        """Have a conversation forgotten; one the agent does not know is forgotten already."""
        with contextlib.suppress(ResourceNotFound):
            await self.agent.delete_session(s.DeleteSessionRequest(session_id=session_id))
        self._forget(session_id)

    def session(self, session_id: str) -> Session:
        """A session known by its id alone, such as a subagent's."""
        self._know(session_id)
        return Session(self, session_id, self._inbox(session_id))

    # Authentication

    async def authenticate(self, method_id: str) -> None:
        """Log in with one of `auth_methods` that the agent carries out itself."""
        await self.agent.authenticate(s.AuthenticateRequest(method_id=method_id))

    async def logout(self) -> None:
        await self.agent.logout(s.LogoutRequest())

    # What the agent asks

    def update(self, params: s.SessionNotification) -> None:
        """An update arrived; here it waits for whoever reads the session."""
        inbox = self._inboxes.get(params.session_id) or self._inbox(params.session_id)
        inbox.put(params.update, self.connection.frame)  # type: ignore[arg-type]

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """Nobody is there to ask, so the answer is no."""
        return refusal(params)

    async def create_elicitation(self, params: s.CreateElicitationRequest) -> s.CreateElicitationResponse:
        own = type(self)
        if isinstance(params, s.FormElicitation) and own.fill_form is not Client.fill_form:
            content = await self.fill_form(params)
            return s.ElicitationDecline() if content is None else s.ElicitationAcceptAction(content=content)
        if isinstance(params, s.UrlElicitation) and own.open_url is not Client.open_url:
            return s.ElicitationAcceptAction() if await self.open_url(params) else s.ElicitationDecline()
        raise InvalidParams("this client cannot ask in that mode")

    async def fill_form(self, form: s.FormElicitation) -> Mapping[str, s.ElicitationContentValue] | None:
        """Have the user fill in a form; None when they decline."""
        raise InvalidParams("this client shows no forms")

    async def open_url(self, question: s.UrlElicitation) -> bool:
        """Have the user agree to open a page; never open it unasked."""
        raise InvalidParams("this client opens no pages")

    def begin_turn(self, session_id: str) -> None:
        """A prompt is about to be sent; here that changes nothing."""

    def withdraw_questions(self, session_id: str) -> None:
        """Answer every open permission request of a session `cancelled`."""
        for task in self._questions.get(session_id, ()):
            task.cancel()

    # The handshake

    def capabilities(self) -> s.ClientCapabilities:
        """What is advertised: what was overridden, and every kind of update a `Transcript` can fold."""
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
        """Shake hands; `connect` does it."""
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
        """Answer what comes over a connection, and drive the agent at its other end."""
        self.connection, self.agent = connection, RemoteAgent(connection)
        connection.on_close = self._wake_readers
        requests, notifications = self.answers(ClientRole)
        ask = requests["session/request_permission"]
        withdrawable = msgspec.structs.replace(ask, handler=functools.partial(self._ask, ask.handler))  # type: ignore[arg-type]
        connection.answer_with({**requests, ask.name: withdrawable}, notifications)

    async def _ask(
        self,
        handler: Callable[[Any], Coroutine[Any, Any, s.RequestPermissionResponse]],
        params: s.RequestPermissionRequest,
    ) -> s.RequestPermissionResponse:
        """Have a permission request answered, until the session is cancelled and the question with it."""
        question = asyncio.ensure_future(handler(params))
        questions = self._questions.setdefault(params.session_id, set())
        questions.add(question)
        try:
            await asyncio.wait([question])
            if question.cancelled():
                return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())
            return question.result()
        finally:
            questions.discard(question)
            if not question.done():
                question.cancel()
                await asyncio.wait([question])
            if not questions:
                self._questions.pop(params.session_id, None)

    def _session(self, id: str, response: "_Opened") -> Session:
        self._know(id)
        return Session(self, id, self._inbox(id), modes=response.modes, config_options=response.config_options)

    def _inbox(self, session_id: str) -> Inbox:
        """Where a session's updates wait, also before its `session/new` is answered."""
        if inbox := self._inboxes.get(session_id):
            return inbox
        if session_id in self._known:
            inbox = Inbox(self.connection.hold, self.connection.resume)
        else:
            if len(self._strangers) >= MAX_STRANGERS:
                self._forget(next(iter(self._strangers)))
            self._strangers[session_id] = None
            forget = functools.partial(self._forget, session_id)  # nobody may ever read it
            inbox = Inbox(forget, forget, memory=STRANGER_ROOM, disk=STRANGER_ROOM)
        self._inboxes[session_id] = inbox
        return inbox

    def _know(self, session_id: str) -> None:
        self._known.add(session_id)
        self._strangers.pop(session_id, None)
        if inbox := self._inboxes.get(session_id):
            inbox.widen(self.connection.hold, self.connection.resume)

    def _forget(self, session_id: str) -> None:
        self._known.discard(session_id)
        self._strangers.pop(session_id, None)
        if inbox := self._inboxes.pop(session_id, None):
            inbox.close()

    def _wake_readers(self) -> None:
        for inbox in self._inboxes.values():
            inbox.wake()

    async def take_back(self) -> None:
        """The connection is over: take back what was lent; here nothing was."""

    def detach(self) -> None:
        """The connection is over: let go of what nobody has read."""
        for session_id in list(self._inboxes):
            self._forget(session_id)


_Opened = s.NewSessionResponse | s.LoadSessionResponse | s.ResumeSessionResponse | s.ForkSessionResponse


def refusal(params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
    """The answer that allows nothing: the option to reject this once, or to have been cancelled."""
    for kind in ("reject_once", "reject_always"):
        for option in params.options:
            if option.kind == kind:
                outcome = s.SelectedPermissionOutcome(option_id=option.option_id)
                return s.RequestPermissionResponse(outcome=outcome)
    return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())


def _placed(cwd: str | os.PathLike[str], options: SessionOptions) -> dict[str, Any]:
    """What a session is given, as requests want it: absolute paths, and the servers always named."""
    placed: dict[str, Any] = {"mcp_servers": [], **options, "cwd": os.path.abspath(cwd)}
    if directories := options.get("additional_directories"):
        placed["additional_directories"] = [os.path.abspath(directory) for directory in directories]
    return placed
