"""An open composer: a session with an agent, its running turn, and its open questions."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from ... import schema as s
from ...client.client import Client
from ...client.session import Session
from ...errors import Error, RpcError
from ...foundation.owning import own
from .bubbles import AI, HUMAN, Bubble, bubble_id
from .followers import Follower, encoded

MAX_FOLLOWERS = 16


class ComposerClient(Client):
    """The client of one composer, to which it passes every update and every question."""

    def __init__(
        self,
        heard: "Callable[[s.SessionUpdate], None]",
        asked: "Callable[[s.RequestPermissionRequest], Awaitable[str | None]]",
    ) -> None:
        super().__init__()
        self._heard, self._asked = heard, asked

    def update(self, params: s.SessionNotification) -> None:
        """Pass an update on at once; it is not read from the session later."""
        self._heard(params.update)

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """Wait for the answer of the composer's user."""
        chosen = await self._asked(params)
        if chosen is None:
            return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())
        return s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id=chosen))


class Composer:
    """A conversation, whose events are sent to its followers."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.client = ComposerClient(self._hear, self._ask)
        self.turns = 0  # turns kept in the life of the conversation
        self._unkept: str | None = None  # the message that was sent and is not in the log yet
        self.used = 0  # when it was last used, by its owner's counter
        self._session: Session | None = None
        self._turn: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._followers: set[Follower] = set()
        self._questions: dict[str, _OpenQuestion] = {}
        self._numbers = itertools.count(1)

    @property
    def is_generating(self) -> bool:
        return self._turn is not None and not self._turn.done()

    @property
    def is_in_use(self) -> bool:
        return self.is_generating or self._sending.locked() or bool(self._followers)

    @property
    def questions(self) -> list[object]:
        """The open questions."""
        return [question.shown for question in self._questions.values()]

    def begin(self, session: Session, turns: int) -> None:
        """Use a session, which has had `turns` turns."""
        self._session, self.turns = session, turns

    async def send(self, prompt: Sequence[s.ContentBlock]) -> Follower:
        """Abort the running turn and begin another; returns its follower."""
        async with self._sending:
            await self.abort()
            follower = self.follow(until_done=True)
            self._turn = own(self._take_turn(prompt), "composer's turn")
            return follower

    async def abort(self) -> bool:
        """Abort the running turn and wait for its end; returns whether one ran."""
        if self._session is None or self._turn is None or self._turn.done():
            return False
        self._session.cancel()
        await asyncio.wait([self._turn])
        return True

    def answer(self, request_id: str, option_id: str | None) -> None:
        """Answer a question; raises KeyError if it is not open, ValueError for an option that it does not have."""
        question = self._questions[request_id]
        if option_id is not None and option_id not in question.options:
            raise ValueError(option_id)
        if not question.answer.done():
            question.answer.set_result(option_id)

    def follow(self, *, until_done: bool = False) -> Follower:
        """Add a follower for the events from now on; raises OverflowError if there are too many."""
        if len(self._followers) >= MAX_FOLLOWERS:
            raise OverflowError("too many streams of this composer are open")
        follower = Follower(until_done=until_done)
        self._followers.add(follower)
        return follower

    def let_go(self, follower: Follower) -> None:
        """Remove a follower; the turn continues."""
        follower.end()
        self._followers.discard(follower)

    async def close(self) -> None:
        """End the turn and every stream."""
        await self.abort()
        for follower in list(self._followers):
            self.let_go(follower)

    async def _take_turn(self, prompt: Sequence[s.ContentBlock]) -> None:
        assert self._session
        self._unkept = "".join(block.text for block in prompt if isinstance(block, s.TextContent))
        self._tell("generating", generating=True)
        try:
            response = await self._session.prompt(prompt)
            ended = encoded("done", composerId=self.id, stopReason=response.stop_reason)
        except Error as exc:
            code = {"code": exc.code} if isinstance(exc, RpcError) else {}
            ended = encoded("error", composerId=self.id, message=str(exc), **code)
        self._unkept = None  # a turn that ended before it was stored has no bubbles
        self._tell("generating", generating=False)
        for follower in list(self._followers):
            follower.tell(ended)
            if follower.until_done:
                self.let_go(follower)

    def _show_bubbles(self, said: str) -> None:
        """Show the bubbles of a turn, whose message has been stored."""
        self.turns += 1
        human = Bubble(HUMAN, bubble_id(self.id, self.turns, HUMAN), said)
        self._tell("bubble", bubble=msgspec.to_builtins(human))
        self._tell("bubble", bubble=msgspec.to_builtins(Bubble(AI, self._speaking, "")))

    @property
    def _speaking(self) -> str:
        """The id of the AI bubble that is being written."""
        return bubble_id(self.id, self.turns, AI)

    def _hear(self, update: "s.SessionUpdate") -> None:
        if self._session is None:  # updates of a history that is being loaded
            return
        match update:
            case s.UserMessageChunk():
                if self._unkept is not None:
                    said, self._unkept = self._unkept, None
                    self._show_bubbles(said)
            case _ if self.turns == 0:
                pass  # a message of the agent before the first prompt belongs to no turn
            case s.AgentMessageChunk(content=s.TextContent(text=text)):
                self._tell("text", bubbleId=self._speaking, text=text)
            case s.AgentThoughtChunk(content=s.TextContent(text=text)):
                self._tell("thinking", bubbleId=self._speaking, text=text)
            case _:
                self._tell("update", bubbleId=self._speaking, update=update)

    async def _ask(self, params: s.RequestPermissionRequest) -> str | None:
        id = f"{self.turns}:{next(self._numbers)}"
        shown = {
            "requestId": id,
            "bubbleId": self._speaking,
            "toolCall": params.tool_call,
            "options": params.options,
        }
        question = _OpenQuestion(shown, {option.option_id for option in params.options})
        self._questions[id] = question
        self._tell("permission", **shown)
        chosen: str | None = None
        try:
            chosen = await question.answer
        finally:
            del self._questions[id]
            self._tell("permissionAnswered", requestId=id, optionId=chosen)
        return chosen

    def _tell(self, kind: str, **members: object) -> None:
        if self._followers:
            event = encoded(kind, composerId=self.id, **members)
            for follower in list(self._followers):
                follower.tell(event)


class _OpenQuestion:
    """A permission request: its event, and the future of its answer."""

    def __init__(self, shown: object, options: set[str]) -> None:
        self.shown, self.options = shown, options
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
