"""Testy, a scripted agent: every line of a prompt is a command.

`verb rest` runs the verb (`help` lists them all); any other line, and any content that is not text, is repeated.
Sessions are kept in memory for as long as the connection lasts.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from msgspec import Struct

from .. import schema as s
from ..agent.agent import Agent
from ..agent.turn import AgentSession, Turn, new_id, shown_options
from ..connection.connection import Connection
from ..connection.remotes import RemoteClient
from ..errors import AuthRequired, InvalidParams, ResourceNotFound
from ..roles import extension
from .providers import WithProviders
from .script import VERBS

REMEMBERED = 10_000  # updates kept of a session, the newest


class RememberedSession(Struct):
    """A remembered session, open or closed."""

    session: AgentSession
    history: deque[s.SessionUpdate]
    touched: int  # counts prompts, in place of the time
    archived: bool = False

    def info(self) -> s.SessionInfo:
        minutes, seconds = divmod(self.touched, 60)
        return s.SessionInfo(
            session_id=self.session.id,
            cwd=self.session.cwd,
            additional_directories=list(self.session.additional_directories),
            title=self.session.state.get("title"),
            updated_at=f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:{seconds:02}Z",
            archived=self.archived or None,
        )


class _Overheard(RemoteClient):
    """The client, with a function that is given its updates as well."""

    def __init__(self, wire: Connection, note: Callable[[s.SessionNotification], None]) -> None:
        super().__init__(wire)
        self._note = note

    def update(self, params: s.SessionNotification) -> None:
        super().update(params)
        self._note(params)


class Echo(Agent):
    """Repeats every prompt."""

    async def answer(self, turn: Turn) -> None:
        """Repeat the prompt."""
        await turn.say(turn.text)


class Testy(WithProviders):
    """Obeys scripted prompts, deterministically, and offers everything that an agent can offer."""

    __test__ = False  # pytest would take it for a test, by its name

    info = s.Implementation(name="testy", version="1.0", title="Testy")
    accepts = (
        *("image", "audio", "embedded_context", "additional_directories"),
        *("http", "sse", "acp", "system_prompt", "override_system_prompt"),
    )
    modes = (
        s.SessionMode(id="code", name="Code", description="Does things"),
        s.SessionMode(id="plan", name="Plan", description="Only thinks"),
    )
    config_options = (
        s.SessionConfigSelect(
            id="model",
            name="Model",
            category="model",
            current_value="small",
            options=[
                s.SessionConfigSelectOption(value="small", name="Small"),
                s.SessionConfigSelectOption(value="large", name="Large", description="Slower"),
            ],
        ),
        s.SessionConfigSelect(
            id="voice",
            name="Voice",
            current_value="low",
            options=[
                s.SessionConfigSelectGroup(
                    group="quiet", name="Quiet", options=[s.SessionConfigSelectOption(value="low", name="Low")]
                ),
                s.SessionConfigSelectGroup(
                    group="loud", name="Loud", options=[s.SessionConfigSelectOption(value="high", name="High")]
                ),
            ],
        ),
        s.SessionConfigBoolean(id="verbose", name="Verbose", current_value=False),
    )
    commands = tuple(
        s.AvailableCommand(
            name=name,
            description=verb.description,
            input=s.UnstructuredCommandInput(hint=verb.hint) if verb.hint else None,
        )
        for name, verb in VERBS.items()
    )
    auth_methods = (
        s.AuthMethodAgent(id="key", name="With a key", description="Testy asks nobody"),
        s.AuthMethodTerminal(id="login", name="In a terminal", args=["--login"], env={"TESTY_LOGIN": "1"}),
    )
    page_size: ClassVar[int] = 5  # sessions in one answer to session/list
    needs_login: ClassVar[bool] = False  # whether sessions need `authenticate` first

    def __init__(self, client: RemoteClient) -> None:
        super().__init__(_Overheard(client.wire, self._remember))
        self._kept: dict[str, RememberedSession] = {}
        self._clock = 0
        self._user: str | None = None

    async def answer(self, turn: Turn) -> s.StopReason | None:
        """Obey the prompt line by line; a line that is not a command is repeated."""
        self._touch(turn)
        for line in filter(None, turn.text.split("\n")):
            name, _, rest = line.partition(" ")
            verb = VERBS.get(name.removeprefix("/"))
            if verb is None:
                await turn.say(line)
            elif reason := await verb.act(turn, rest):
                return reason
        for block in turn.prompt:
            if not isinstance(block, s.TextContent):
                await turn.say(block)
        return None

    # Sessions

    async def opened(self, session: AgentSession) -> None:
        """Remember the session; a known one gets its mode, options and state back."""
        if self.needs_login and self._user is None:
            raise AuthRequired()
        if before := self._kept.get(session.id):
            old = before.session
            session.mode, session.config_options, session.state = old.mode, old.config_options, old.state
            before.session, before.archived = session, False
        else:
            self._clock += 1
            self._kept[session.id] = RememberedSession(session, deque(maxlen=REMEMBERED), self._clock)

    async def load_session(self, params: s.LoadSessionRequest) -> s.LoadSessionResponse:
        """Open a remembered session and repeat its updates."""
        history = list(self._known(params.session_id).history)
        session = await self.open_session(params.session_id, params)
        for update in history:
            await self._replay(session, update)
        return s.LoadSessionResponse(modes=self.mode_state(session), config_options=self._options(session))

    async def resume_session(self, params: s.ResumeSessionRequest) -> s.ResumeSessionResponse:
        """Open a remembered session without repeating anything."""
        self._known(params.session_id)
        session = await self.open_session(params.session_id, params)
        return s.ResumeSessionResponse(modes=self.mode_state(session), config_options=self._options(session))

    async def fork_session(self, params: s.ForkSessionRequest) -> s.ForkSessionResponse:
        """Open a new session with the memory of another."""
        source = self._known(params.session_id)
        session = await self.open_session(new_id("sess"), params)
        session.mode, session.config_options = source.session.mode, source.session.config_options
        session.state.update(source.session.state)
        self._known(session.id).history.extend(source.history)
        return s.ForkSessionResponse(
            session_id=session.id, modes=self.mode_state(session), config_options=self._options(session)
        )

    async def list_sessions(self, params: s.ListSessionsRequest) -> s.ListSessionsResponse:
        """List remembered sessions, `page_size` at a time, the latest first."""
        wanted = ARCHIVED.get(params.archived or "exclude")
        if wanted is None:
            raise InvalidParams(f"there is no archive filter {params.archived!r}")
        found = [
            kept.info()
            for kept in sorted(self._kept.values(), key=lambda kept: -kept.touched)
            if kept.archived in wanted and params.cwd in (None, kept.session.cwd)
        ]
        start = _offset(params.cursor, len(found))
        end = start + self.page_size
        return s.ListSessionsResponse(
            sessions=found[start:end], next_cursor=f"from-{end}" if end < len(found) else None
        )

    async def delete_session(self, params: s.DeleteSessionRequest) -> s.DeleteSessionResponse:
        """Close a session and forget it; an unknown session is not an error."""
        await self._shut(params.session_id)
        self._kept.pop(params.session_id, None)
        return s.DeleteSessionResponse()

    async def archive_session(self, params: s.ArchiveSessionRequest) -> s.ArchiveSessionResponse:
        """Close a session and leave it out of the default list."""
        kept = self._known(params.session_id)
        await self._shut(params.session_id)
        kept.archived = True
        return s.ArchiveSessionResponse()

    async def unarchive_session(self, params: s.UnarchiveSessionRequest) -> s.UnarchiveSessionResponse:
        """Put a session back into the default list."""
        self._known(params.session_id).archived = False
        return s.UnarchiveSessionResponse()

    async def session_status(self, params: s.SessionStatusRequest) -> s.SessionStatusResponse:
        """Say whether a session is open or only remembered."""
        self._known(params.session_id)
        return s.SessionStatusResponse(status="open" if params.session_id in self.sessions else "saved")

    async def set_title(self, params: s.SetSessionTitleRequest) -> s.SetSessionTitleResponse:
        """Set a title, with its spaces normalised."""
        title = " ".join(params.title.split())
        if not title:
            raise InvalidParams("the title is empty")
        self._known(params.session_id).session.state["title"] = title
        return s.SetSessionTitleResponse(title=title)

    # Authentication

    async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse:
        """Log in with the method `key`; refuses any other."""
        if params.method_id != "key":
            raise InvalidParams(f"there is no way to log in here called {params.method_id!r}")
        self._user = "tester"
        self._tell_status()
        return s.AuthenticateResponse()

    async def logout(self, params: s.LogoutRequest) -> s.LogoutResponse:
        """Log out."""
        self._user = None
        self._tell_status()
        return s.LogoutResponse()

    async def auth_status(self, params: s.AuthStatusRequest) -> s.AuthStatusResponse:
        """Say whether the client is logged in."""
        accounts = [s.AuthAccount(label=self._user, active=True)] if self._user else []
        return s.AuthStatusResponse(state="authenticated" if self._user else "unauthenticated", accounts=accounts)

    # Extensions

    @extension("_testy/ping")
    async def ping(self, params: Any) -> Any:
        """Answer with the params."""
        return {"pong": params}

    @extension("_testy/nest")
    async def nest(self, params: Any) -> Any:
        """Send the same request back with the depth reduced by one; returns the number of levels."""
        depth = params["depth"]
        return 1 + await self.client.request("_testy/nest", {"depth": depth - 1}) if depth else 0

    @extension("_testy/tick")
    def tick(self, params: Any) -> None:
        """Answer a notification with the notification `_testy/tock`."""
        self.client.notify("_testy/tock", params)

    # Memory

    def _remember(self, told: s.SessionNotification) -> None:
        """Keep an update for `load_session`; notices are transient, and commands are announced again."""
        passing = isinstance(told.update, s.Notice | s.AvailableCommandsUpdate)
        if not passing and (kept := self._kept.get(told.session_id)):
            kept.history.append(told.update)

    def _touch(self, turn: Turn) -> None:
        kept = self._known(turn.session.id)
        self._clock += 1
        kept.touched = self._clock
        id = turn.message_id or f"prompt-{self._clock}"
        for block in turn.prompt:
            kept.history.append(s.UserMessageChunk(content=block, message_id=id))

    async def _replay(self, session: AgentSession, update: s.SessionUpdate) -> None:
        RemoteClient.update(self.client, s.SessionNotification(session_id=session.id, update=update))
        await self.client.room()

    def _known(self, session_id: str) -> RememberedSession:
        if kept := self._kept.get(session_id):
            return kept
        raise ResourceNotFound("Session not found", {"sessionId": session_id})

    def _options(self, session: AgentSession) -> Sequence[s.SessionConfigOption]:
        return shown_options(self.client, session.config_options)

    async def _shut(self, session_id: str) -> None:
        if session_id in self.sessions:
            await self.close_session(s.CloseSessionRequest(session_id=session_id))

    def _tell_status(self) -> None:
        status = "authenticated" if self._user else "unauthenticated"
        self.client.auth_status_changed(s.AuthStatusUpdateNotification(state=status))


ARCHIVED = {"exclude": (False,), "include": (False, True), "only": (True,)}


def _offset(cursor: str | None, count: int) -> int:
    number = (cursor or "from-0").removeprefix("from-")
    if not number.isdecimal() or int(number) > count:
        raise InvalidParams(f"this cursor was not given by this agent: {cursor!r}")
    return int(number)
