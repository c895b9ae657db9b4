"""One composer that is open: a session with an agent, the turn that runs in it, and the questions that wait."""

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
    """The client of one composer: hands it every update and every question, as they come."""

    def __init__(
        self,
        heard: "Callable[[s.SessionUpdate], None]",
        asked: "Callable[[s.RequestPermissionRequest], Awaitable[str | None]]",
    ) -> None:
        super().__init__()
        self._heard, self._asked = heard, asked

    def update(self, params: s.SessionNotification) -> None:
        """Hand an update on at once; nobody reads it from the session later."""
        self._heard(params.update)

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        """Wait for the answer of whoever uses the composer."""
        chosen = await self._asked(params)
        if chosen is None:
            return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())
        return s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id=chosen))


class Composer:
    """A conversation; what happens in it is told to its followers."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.client = ComposerClient(self._hear, self._ask)
        self.turns = 0  # that are kept, in all the life of the conversation
        self._unkept: str | None = None  # what was sent and is not in the log yet
        self.used = 0  # when, by a count of its owner's
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
        """The questions that wait for an answer."""
        return [question.shown for question in self._questions.values()]

    def begin(self, session: Session, turns: int) -> None:
        """Use a session, in which so many turns were taken before."""
        self._session, self.turns = session, turns

    async def send(self, prompt: Sequence[s.ContentBlock]) -> Follower:
        """Abort the turn that runs, and begin another; gives its follower."""
        async with self._sending:
            await self.abort()
            follower = self.follow(until_done=True)
            self._turn = own(self._take_turn(prompt), "composer's turn")
            return follower

    async def abort(self) -> bool:
        """End the turn that runs, and wait for its end; gives whether there was one."""
        if self._session is None or self._turn is None or self._turn.done():
            return False
        self._session.cancel()
        await asyncio.wait([self._turn])
        return True

    def answer(self, request_id: str, option_id: str | None) -> None:
        """Answer a question; raises KeyError for one that does not wait, ValueError for an option it has not."""
        question = self._questions[request_id]
        if option_id is not None and option_id not in question.options:
            raise ValueError(option_id)
        if not question.answer.done():
            question.answer.set_result(option_id)

    def follow(self, *, until_done: bool = False) -> Follower:
        """Have somebody told what happens from now on; raises OverflowError where too many are told already."""
        if len(self._followers) >= MAX_FOLLOWERS:
            raise OverflowError("too many streams of this composer are open")
        follower = Follower(until_done=until_done)
        self._followers.add(follower)
        return follower

    def let_go(self, follower: Follower) -> None:
        """Tell somebody no more; the turn goes on."""
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
        self._unkept = None  # a turn that ended before it was kept has no bubbles
        self._tell("generating", generating=False)
        for follower in list(self._followers):
            follower.tell(ended)
            if follower.until_done:
                self.let_go(follower)

    def _show_bubbles(self, said: str) -> None:
        """Show the bubbles of a turn, whose message is kept by now."""
        self.turns += 1
        human = Bubble(HUMAN, bubble_id(self.id, self.turns, HUMAN), said)
        self._tell("bubble", bubble=msgspec.to_builtins(human))
        self._tell("bubble", bubble=msgspec.to_builtins(Bubble(AI, self._speaking, "")))

    @property
    def _speaking(self) -> str:
        """The id of the AI bubble that is being written."""
        return bubble_id(self.id, self.turns, AI)

    def _hear(self, update: "s.SessionUpdate") -> None:
        if self._session is None:  # a history that is being loaded
            return
        match update:
            case s.UserMessageChunk():
                if self._unkept is not None:
                    said, self._unkept = self._unkept, None
                    self._show_bubbles(said)
            case _ if self.turns == 0:
                pass  # what an agent says before it was asked anything belongs to no turn
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
    """A permission question, what is shown of it, and the answer to come."""

    def __init__(self, shown: object, options: set[str]) -> None:
        self.shown, self.options = shown, options
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
