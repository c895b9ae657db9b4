"""The prompts a client has sent: which are not answered yet, and which of those are cancelled."""

from typing import TYPE_CHECKING

from .. import schema as s
from ..events import Reply
from ..roles import AgentRole, methods
from .inbox import Inbox, Part

if TYPE_CHECKING:
    from ..connection.connection import Connection

PROMPT = methods(AgentRole)["prompt"]


class SentTurn(Part):
    """One prompt that was sent, and its part of the inbox; the connection knows it until it is answered."""

    reply: Reply | None = None

    def __init__(
        self, turns: "SentTurns", connection: "Connection", request: s.PromptRequest, inbox: Inbox
    ) -> None:
        Part.__init__(self)  # half of what super() costs
        self.session_id = request.session_id
        self._turns, self._connection, self._inbox = turns, connection, inbox
        self._id = connection.submit(PROMPT, request, self._settle)

    def request_cancel(self) -> None:
        """Ask the agent to cancel this prompt alone."""
        self._connection.request_cancel(self._id)

    def _settle(self, reply: Reply) -> None:
        self.reply = reply
        self._turns.end(self)
        self._inbox.end(self)


class SentTurns:
    """The prompts of a client that are not answered.

    To be cancelled is a state of a session: it lasts until every turn that was under way then is answered.
    """

    def __init__(self) -> None:
        self._unanswered: dict[str, list[SentTurn]] = {}
        self._cancelled: dict[str, list[SentTurn]] = {}

    def begin(self, connection: "Connection", request: s.PromptRequest, inbox: Inbox) -> SentTurn:
        turn = SentTurn(self, connection, request, inbox)
        if turns := self._unanswered.get(turn.session_id):
            turns.append(turn)
        else:
            self._unanswered[turn.session_id] = [turn]
        return turn

    def cancel(self, session_id: str) -> None:
        if turns := self._unanswered.get(session_id):
            self._cancelled[session_id] = list(turns)  # those that were cancelled before are among them

    def is_cancelled(self, session_id: str) -> bool:
        return session_id in self._cancelled

    def is_alone(self, turn: SentTurn) -> bool:
        """Whether no other prompt of its session is under way."""
        return self._unanswered.get(turn.session_id) == [turn]

    def end(self, turn: SentTurn) -> None:
        turns = self._unanswered[turn.session_id]
        if len(turns) == 1:
            del self._unanswered[turn.session_id]
        else:
            turns.remove(turn)
        if self._cancelled and turn in self._cancelled.get(turn.session_id, ()):
            self._cancelled[turn.session_id].remove(turn)
            if not self._cancelled[turn.session_id]:
                del self._cancelled[turn.session_id]
