"""The sessions that MCP hosts drive, and the turns that run in them."""

import logging
import os
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from ... import schema as s
from ...client.session import Prompt, Session
from ...errors import Error
from ...host.host import Host
from ...host.permissions.questions import Question
from ...transcript import ToolCallEntry, Transcript
from .questions import ANSWER_TIMEOUT, AskingWork

MAX_SESSIONS = 100  # that are open at once
MAX_CHANGES = 200  # diffs of a session that can be read
MAX_CHANGED = 64 * 1024 * 1024  # characters in them

log = logging.getLogger("dragoman")

Report = Callable[[s.SessionUpdate], Awaitable[None]]


class DrivenTurn(AskingWork[s.PromptResponse]):
    """A turn that runs, whoever waits for it: its updates, its questions, its end."""

    def __init__(self, conversation: "DrivenSession", prompt: Prompt) -> None:
        super().__init__()
        self.conversation = conversation
        self.report: Report | None = None  # to whoever waits just now
        self.transcript = Transcript()
        self._prompt = prompt
        self.begin(self._read(), "turn for an MCP host")

    def cancel(self) -> None:
        """Cancel it as the protocol does; a question that waits is refused."""
        self.refuse()
        self.conversation.session.cancel()

    async def _read(self) -> s.PromptResponse:
        try:
            async for event in self._prompt:
                self.transcript.apply(event)
                if isinstance(event, s.PromptResponse):
                    continue
                self.conversation.heard(event)
                await self._tell(event)
            return self._prompt.response
        finally:
            self.conversation.turn = None

    async def _tell(self, update: s.SessionUpdate) -> None:
        if self.report is None:
            return
        try:
            await self.report(update)
        except Exception as exc:  # it hung up, which is no reason to hear no more of the agent
            log.debug("an MCP host could not be told of an update: %s", exc)
            self.report = None


class DrivenSession:
    """One session: the turn in it, and the changes that the agent has shown."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.turn: DrivenTurn | None = None
        self.changes: OrderedDict[str, s.Diff] = OrderedDict()  # by their URIs

    def begin(self, prompt: Sequence[s.ContentBlock]) -> DrivenTurn:
        """Start a turn; raises an Error while another one runs."""
        if self.turn:
            raise Error("a turn runs in this session; wait for its end, or cancel it")
        self.turn = DrivenTurn(self, self.session.prompt(prompt))
        return self.turn

    def heard(self, update: s.SessionUpdate) -> None:
        """Keep the changes that an update shows."""
        if not isinstance(update, s.ToolCall | s.ToolCallUpdate):
            return
        for number, content in enumerate(update.content or ()):
            if isinstance(content, s.Diff):
                uri = f"acp://{self.session.id}/{update.tool_call_id}/{number}"
                self.changes[uri] = content
                self.changes.move_to_end(uri)
        while len(self.changes) > MAX_CHANGES or sum(map(_size, self.changes.values())) > MAX_CHANGED:
            self.changes.popitem(last=False)


def _size(change: s.Diff) -> int:
    return len(change.old_text or "") + len(change.new_text)


class DrivenSessions:
    """Every session of one MCP connection; their directories are in the workspace."""

    def __init__(self, workspace: str) -> None:
        self._workspace = os.path.realpath(workspace)
        self._open: dict[str, DrivenSession] = {}

    def __iter__(self) -> Iterator[DrivenSession]:
        return iter(self._open.values())

    def find(self, id: str) -> DrivenSession:
        """An open session; raises an Error for one that is not."""
        if id not in self._open:
            raise Error(
                f"the session {id!r} is not open; start_session starts one, load_session opens a stored one"
            )
        return self._open[id]

    def turn(self, state: str) -> DrivenTurn:
        """The turn whose question a host comes back to answer."""
        for conversation in self._open.values():
            if conversation.turn and secrets.compare_digest(conversation.turn.state, state):
                return conversation.turn
        raise Error("the turn of this question is over")

    def check_room(self) -> None:
        """Raise an Error where no further session can be opened."""
        if len(self._open) >= MAX_SESSIONS:
            raise Error(f"no more than {MAX_SESSIONS} sessions can be open; close one with close_session")

    def keep(self, session: Session) -> DrivenSession:
        """Keep a session that was opened."""
        self._open[session.id] = DrivenSession(session)
        return self._open[session.id]

    def drop(self, id: str) -> None:
        """Forget a session that was closed."""
        self._open.pop(id, None)

    def directory(self, cwd: str | None) -> str:
        """The directory of a session; raises an Error for one outside the workspace."""
        if not cwd:
            return self._workspace
        real = os.path.realpath(os.path.join(self._workspace, cwd))
        if os.path.commonpath([real, self._workspace]) != self._workspace:
            raise Error(f"{cwd!r} is outside the workspace {self._workspace!r}; start the server with --workspace")
        if not os.path.isdir(real):
            raise Error(f"there is no directory {cwd!r}")
        return real


class McpHost(Host):
    """The client of the agent: its questions go to the MCP host that drives the session."""

    def __init__(self, conversations: DrivenSessions, **options: Any) -> None:
        super().__init__(asker=self._put, timeout=ANSWER_TIMEOUT, **options)
        self._conversations = conversations

    async def _put(self, question: Question) -> str | None:
        turn = self._conversations.find(question.session_id).turn
        return await turn.ask(question) if turn else None


def calls_of(transcript: Transcript) -> list[dict[str, object]]:
    """The tool calls of a turn, as structured output has them."""
    return [_shown(call) for call in transcript.tool_calls]


def _shown(call: ToolCallEntry) -> dict[str, object]:
    paths = [location.path for location in call.locations]
    return {"title": call.title, "kind": call.kind, "status": call.status, "paths": paths}
