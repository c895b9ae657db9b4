"""Prompts from request to stop reason, and the updates and questions during a turn."""

from ...foundation.documents import Json, document
from ..engine.flows import Ask, Fault, Flow, Message, RunningFlow, StartFlow, Steps, Tell
from ..engine.pieces import PieceParams
from ..engine.shapes import CARRIED, MESSAGE_ID
from ..engine.translator import Peer, Remembered, Surroundings, Translator
from .handshake import original, with_original
from .permissions import CANCELLED, ELICITATION, OUTCOME, permission_outward
from .replay import begun_anew
from .session_state import USER, PromptTurn, SessionState
from .shapes import PROMPT, fault_of, tool_inward
from .updates import (
    carrier,
    contents_inward,
    new_message_id,
    piece_in,
    piece_out,
    update_inward,
    update_outward,
)

NOT_FOUND, CANCELLED_CODE = -32002, -32800


class Await(Ask):
    """Suspend a flow until `fulfil` is called for the turn."""

    turn: PromptTurn

    def __new__(cls, turn: PromptTurn) -> "Await":
        asked = super().__new__(cls, "", None)
        asked.turn = turn
        return asked


class UserQuestion(Ask):
    """A question to the user of a client; `session_id` is the session that waits for the answer, if one does."""

    session_id: str

    def __new__(cls, method: str, params: Json, session_id: str) -> "UserQuestion":
        asked = super().__new__(cls, method, params, to_peer=True)
        asked.session_id = session_id
        return asked


PERMISSION_CALL, FORM_CALL = "session/request_permission", "elicitation/create"
WITHDRAWN: dict[str, Message] = {
    PERMISSION_CALL: CANCELLED,
    FORM_CALL: {"action": "cancel"},
}  # the outcome of an unanswered question


class PromptCalls(Translator):
    """Translates prompts between the versions."""

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        super().__init__(peer, surroundings)
        self.sessions: Remembered[Json, SessionState] = Remembered()  # by session id
        self.peer_translates = False  # the peer translates from version 1, as we do
        self._awaiting: dict[PromptTurn, RunningFlow] = {}  # turn -> the flow that waits for it
        self._turn_of: dict[RunningFlow | None, PromptTurn] = {}  # flow -> its turn
        self._questions: dict[tuple[bool, str], tuple[str, str]] = {}  # questions to the user: session and method
        self._last_asked = ""
        self._since = self.surroundings.now()

    def session(self, session_id: Json) -> SessionState:
        found = self.sessions.get(session_id)
        if found is None:
            self.sessions[session_id] = found = SessionState(str(session_id))
        return found

    def not_closed(self, session_id: Json) -> SessionState:
        """A session that its client has not closed; one is closed for the client even if our agent still has it."""
        session = self.session(session_id)
        if session.is_closed:
            raise Fault(NOT_FOUND, "Session not found", {"sessionId": session_id})
        return session

    def new_id(self, kind: str) -> str:
        """An id that no later connection to the same session uses again."""
        return f"{super().new_id(kind)}-{self._since}"

    # Our agent, a client of version 2

    def prompted(self, params: Message) -> Flow:
        """Answer when the prompt has been accepted: at once, or after the turn before it."""
        if fault := fault_of(params["prompt"]):
            raise Fault(-32602, f"Invalid params: {fault}")
        session = self.not_closed(params["sessionId"])
        turn = PromptTurn(session.session_id, params["prompt"], new_message_id(USER, session, self))
        session.turns.append(turn)
        asked = _without_original(params) if original(params) else params
        if not self.peer_translates:
            asked = {**asked, "_meta": {**document(asked.get("_meta") or {}), MESSAGE_ID: turn.message_id}}
        yield StartFlow(self._work(turn, session, PROMPT.inward(asked, self)))
        turn.taking_back = (False, {"method": "$/cancel_request", "params": {"requestId": self._last_asked}})
        if session.turns[0] is not turn or not session.is_open:
            refusal = yield Await(turn)
            if refusal is not None:
                raise Fault.of(refusal)
        for message in self._inserted(turn):
            yield Tell(message, to_peer=True)
        return {"messageId": turn.message_id}

    def _inserted(self, turn: PromptTurn) -> list[Message]:
        turn.is_accepted = True
        self.session(turn.session_id).last_message = ("", "")
        echo = {"sessionUpdate": "user_message", "messageId": turn.message_id, "content": turn.content}
        return [self._state(turn.session_id, {"state": "running"}), _update(turn.session_id, echo)]

    def _work(self, turn: PromptTurn, session: SessionState, params: Message) -> Steps[None]:
        """Send the prompt to our agent, and report the stop reason."""
        answer = document((yield Ask("session/prompt", params)))
        refusal = None if turn.is_accepted else _refusal(answer)
        if not turn.is_accepted:
            self.fulfil(turn, refusal)
        session.turns.remove(turn)
        if refusal is None:
            yield Tell(self._state(session.session_id, _idle(answer)), to_peer=True)
        if session.turns and not any(turn.is_accepted for turn in session.turns):
            self.fulfil(session.turns[0], None)

    def _state(self, session_id: str, state: Message) -> Message:
        return _update(session_id, {"sessionUpdate": "state_update", **state})

    def ask_permission(self, params: Message) -> Flow:
        """Ask the user for permission on the agent's behalf."""
        session = self.session(params["sessionId"])
        answer = yield from self._ask_user(PERMISSION_CALL, permission_outward(params, session, self), session)
        return OUTCOME.inward(self.told_by_peer(answer), self)

    def ask_form(self, params: Message) -> Flow:
        """Ask the user to fill in a form, or to visit a page, on the agent's behalf."""
        session = (
            self.session(params["sessionId"]) if "sessionId" in params else self._session_of(params["requestId"])
        )
        if session is not None and "requestId" in params:  # a prompt, whose request was answered already
            params = {name: member for name, member in params.items() if name != "requestId"}
            params["sessionId"] = session.session_id
        return self.told_by_peer((yield from self._ask_user(FORM_CALL, ELICITATION.outward(params, self), session)))

    def _ask_user(self, method: str, params: Json, session: SessionState | None) -> Steps[Message | None]:
        """Ask the user, and report that the turn waits for the answer."""
        working = session is not None and bool(session.turns)
        if session is not None and working:
            yield Tell(self._state(session.session_id, {"state": "requires_action"}), to_peer=True)
        answer = yield UserQuestion(method, params, session.session_id if session else "")
        if session is not None and working and session.turns and not self._asked_in(session):
            yield Tell(self._state(session.session_id, {"state": "running"}), to_peer=True)
        return answer

    def _session_of(self, request_id: Json) -> SessionState | None:
        """The session of a prompt, by the id of its request at our agent."""
        found = (turn for session in self.sessions.values() for turn in session.turns)
        asked = (turn for turn in found if turn.taking_back[1].get("params") == {"requestId": request_id})
        return next((self.session(turn.session_id) for turn in asked), None)

    def _asked_in(self, session: SessionState) -> list[tuple[bool, str]]:
        """The unanswered questions of a session."""
        asked = self._questions.items()
        return [key for key, (id, _) in asked if id == session.session_id and key in self._asking]

    def _withdraw(self, session: SessionState) -> None:
        """Answer the open questions of a cancelled turn: the client need not, and our agent waits for them."""
        for key in self._asked_in(session):
            running, (_, method) = self._asking.pop(key), self._questions[key]
            self._send(True, {"method": "$/cancel_request", "params": {"requestId": key[1]}})
            self._carry_on(running, {"result": WITHDRAWN[method]})

    # Our client, an agent of version 2

    def prompt(self, params: Message) -> Flow:
        """Answer when the session is idle again."""
        session = self.session(params["sessionId"])
        said = PROMPT.outward(params, self)
        if said["prompt"] == []:
            said = with_original({**said, "prompt": [{"type": "text", "text": ""}]}, {"prompt": []})
        turn = PromptTurn(session.session_id, said["prompt"])
        turn.taking_back = (True, {"method": "session/cancel", "params": {"sessionId": session.session_id}})
        session.turns.append(turn)
        try:
            answer = document((yield Ask("session/prompt", said, to_peer=True)))
            if turn.is_cancelled and document(answer.get("error") or {}).get("code") == CANCELLED_CODE:
                return {"stopReason": "cancelled"}
            result = document(self.told_by_peer(answer) or {})
            turn.is_accepted = True
            turn.message_id = result.get("messageId") or turn.message_id
            session.echoes[turn.message_id] = True
            if turn.is_taken_back:  # the request was answered, so it cannot be cancelled as a request
                yield Tell(turn.taking_back[1], to_peer=True)
            if turn.outcome is None:
                turn.outcome = yield Await(turn)
            outcome = document(turn.outcome)
            if "error" in outcome:
                raise Fault.of(outcome["error"])
            return outcome["result"]
        finally:
            session.turns.remove(turn)

    def _take_state(self, update: Message, session: SessionState) -> list[Message]:
        """Apply a change of state to our prompts, and carry the parts that version 1 lacks."""
        state, had_turns = update["state"], bool(session.turns)
        if state in ("running", "requires_action"):
            for turn in session.turns:
                turn.has_run = True
        elif state == "idle":
            self._end_turns(update, session)
        was_busy, session.is_busy = session.is_busy, state in ("running", "requires_action")
        on_its_own = not had_turns and (session.is_busy or was_busy)
        tells_more = update.get("background") is not None or state not in ("running", "idle", "requires_action")
        return [carrier(update, self)] if on_its_own or tells_more else []

    def _end_turns(self, update: Message, session: SessionState) -> None:
        reason = update.get("stopReason")
        accepted = [turn for turn in session.turns if turn.is_accepted and (turn.has_run or reason is not None)]
        waiting = [turn for turn in session.turns if not turn.is_accepted and turn.has_run]
        for turn in accepted or waiting[:1]:
            turn.outcome = _outcome(update)
            self.fulfil(turn, turn.outcome)

    def end_turns(self, session: SessionState, turns: list[PromptTurn]) -> None:
        """End the turns of a closed session, since no stop reason will be reported for them."""
        for turn in turns:
            if turn in session.turns and turn.outcome is None:
                turn.outcome = {"result": {"stopReason": "cancelled"}}
                self.fulfil(turn, turn.outcome)
        if (
            not session.turns and self.sessions.get(session.session_id) is session
        ):  # otherwise it was opened again meanwhile
            self.sessions.pop(session.session_id, None)

    def shown_tool(self, session_id: Json, call: Message) -> Message:
        """The tool call that a question is about, in the form of version 1."""
        found = tool_inward(call, self)
        if isinstance(content := found.get("content"), list):
            found["content"] = contents_inward(content, self.session(session_id), self)
        return found

    # Messages that pass

    def piece_inward(self, piece: PieceParams, frame: bytes) -> bytes | None:
        return piece_in(piece, self.session(piece.session_id), frame)

    def piece_outward(self, piece: PieceParams, frame: bytes) -> bytes | None:
        session = self.session(piece.session_id)
        return None if session.is_muted or session.begun is not None else piece_out(piece, session, self, frame)

    def note_inward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        if method == "session/update":
            told = document(params)
            session, update = self.session(told["sessionId"]), document(told["update"])
            if update.get("sessionUpdate") == "state_update":
                found = self._take_state(update, session)
            else:
                found = update_inward(update, session, self)
            return [(method, {**told, "update": one}) for one in found]
        if method == "session/cancel" and self.peer == "client":
            # first, so that turns that end now end as cancelled
            self._send(False, {"method": method, "params": params})
            self._withdraw(self.session(document(params)["sessionId"]))
            return []
        return super().note_inward(method, params)

    def note_outward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        if method == "session/update":
            told = document(params)
            session, update = self.session(told["sessionId"]), document(told["update"])
            found = [] if session.is_muted else begun_anew(update_outward(update, session, self), session)
            return [(method, {**told, "update": one}) for one in found]
        if method == "session/cancel":
            for turn in self.session(document(params)["sessionId"]).turns:
                turn.is_cancelled = True
        return super().note_outward(method, params)

    # Beyond the engine: flows that wait for an event

    def fulfil(self, turn: PromptTurn, value: Message | None) -> None:
        """Resume the flow that waits for a turn."""
        if running := self._awaiting.pop(turn, None):
            self._carry_on(running, value)

    def _ask(self, running: RunningFlow, step: Ask) -> None:
        if isinstance(step, Await):
            self._awaiting[step.turn] = running
            self._turn_of[running] = step.turn
            return
        super()._ask(running, step)
        if running.asked is None:
            return
        self._last_asked = running.asked[1]
        if step.method == "session/prompt" and step.to_peer:
            self._turn_of[running] = self.session(document(step.params)["sessionId"]).turns[-1]
        if isinstance(step, UserQuestion):
            self._questions = {key: of for key, of in self._questions.items() if key in self._asking}
            self._questions[running.asked] = (step.session_id, step.method)

    def _finish(self, running: RunningFlow, outcome: Message) -> None:
        self._turn_of.pop(running, None)
        super()._finish(running, outcome)

    def _cancel(self, message: Message, from_peer: bool) -> None:
        running = self._to_cancel(message, from_peer)
        turn = self._turn_of.get(running)
        is_first = turn is not None and not turn.is_taken_back
        if turn is not None:
            turn.is_taken_back = turn.is_cancelled = True
        if turn is None or turn not in self._awaiting:
            super()._cancel(message, from_peer)
        elif is_first:
            self._send(*turn.taking_back)

    def id_of(self, id: Json) -> Json:
        """The id of a request at the side that sent it, from the id that a flow gave it."""
        for (_, asked), running in self._asking.items():
            if asked == id and running.is_call:
                return running.id
        return id


def _without_original(params: Message) -> Message:
    """The prompt as it was in version 1, where it may be empty."""
    meta = {name: member for name, member in document(params["_meta"]).items() if name != CARRIED}
    plain = {**params, **(original(params) or {}), "_meta": meta}
    return plain if meta else {name: member for name, member in plain.items() if name != "_meta"}


def _update(session_id: str, update: Message) -> Message:
    return {"method": "session/update", "params": {"sessionId": session_id, "update": update}}


def _idle(answer: Message) -> Message:
    """The state that reports the end of our agent's turn."""
    if "error" in answer:
        return {"state": "idle", "stopReason": "error", "error": answer["error"]}
    return {"state": "idle", **document(answer.get("result") or {})}


def _outcome(update: Message) -> Message:
    """The answer to a prompt, from the state in which an agent of version 2 ended its turn."""
    if update.get("stopReason") == "error":
        return {"error": update.get("error") or {"code": -32603, "message": "The agent reports an error"}}
    said = {name: update[name] for name in ("usage", "_meta") if update.get(name) is not None}
    reason = "end_turn" if update.get("stopReason") is None else update["stopReason"]
    return {"result": {"stopReason": reason, **said}}


def _refusal(answer: Message) -> Message | None:
    """The error of a prompt that was not accepted; None if it was accepted after all."""
    if "error" in answer:
        return Fault.of(answer["error"]).error
    is_cancelled = document(answer.get("result") or {}).get("stopReason") == "cancelled"
    return {"code": CANCELLED_CODE, "message": "Request cancelled"} if is_cancelled else None
