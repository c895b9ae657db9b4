"""The prompts of a client that are not answered yet, and which of them are cancelled."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import schema as s
from ..events import Reply
from ..roles import AgentRole, methods
from .inbox import Part

if TYPE_CHECKING:
    from .session import Session

PROMPT = methods(AgentRole)["prompt"]


class SentTurn(Part):
    """One prompt that was sent, and its part of the inbox; the connection calls it with the answer."""

    reply: Reply | None = None
    is_cancelled = False
    earlier: "SentTurn | None" = None  # the previous unanswered prompt of its session

    def __init__(self, session: "Session", request: s.PromptRequest) -> None:
        Part.__init__(self)  # half of what super() costs
        self.session = session
        self._id = session.client.connection.submit(PROMPT, request, self)
        session.client.turns.begin(self)
        session._inbox.begin(self)

    def request_cancel(self) -> None:
        """Ask the agent to cancel this prompt alone."""
        self.session.client.connection.request_cancel(self._id)

    def __call__(self, reply: Reply) -> None:
        self.reply = reply
        self.session.client.turns.end(self)
        self.session._inbox.end(self)


class SentTurns:
    """The unanswered prompts of a client: the newest of each session, linked to the ones before it.

    Cancelled is a state of a session: it lasts until every turn that was running then is answered.
    """

    def __init__(self) -> None:
        self._newest: dict[str, SentTurn] = {}  # no lists: most of a thousand sessions have one prompt

    def begin(self, turn: SentTurn) -> None:
        session_id = turn.session.id
        if session_id in self._newest:
            turn.earlier = self._newest[session_id]
        self._newest[session_id] = turn

    def end(self, turn: SentTurn) -> None:
        session_id = turn.session.id
        if self._newest[session_id] is not turn:
            later = next(other for other in self._of(session_id) if other.earlier is turn)
            later.earlier = turn.earlier
        elif turn.earlier is not None:
            self._newest[session_id] = turn.earlier
        else:
            del self._newest[session_id]

    def cancel(self, session_id: str) -> None:
        for turn in self._of(session_id):
            turn.is_cancelled = True

    def is_cancelled(self, session_id: str) -> bool:
        return any(turn.is_cancelled for turn in self._of(session_id))

    def is_alone(self, turn: SentTurn) -> bool:
        """Whether no other prompt of its session is under way."""
        return list(self._of(turn.session.id)) == [turn]

    def _of(self, session_id: str) -> Iterator[SentTurn]:
        """The unanswered prompts of a session, the newest first."""
        turn = self._newest.get(session_id)
        while turn is not None:
            yield turn
            turn = turn.earlier
