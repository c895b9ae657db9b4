"""Opening sessions, the session calls that every agent of version 2 answers, and modes and options."""

from ...foundation.documents import Json, document, documents
from ..engine.flows import Ask, Fault, Flow, Message, Pause, StartFlow, Steps, Tell
from ..engine.shapes import meta_of
from .handshake import offered
from .options import changes_inward, opened_inward, opened_outward, options_outward, shown_options
from .session_state import SessionState
from .shapes import COMMANDS, MODE_OPTION, OPENING
from .turns import NOT_FOUND, PromptCalls

INVALID_PARAMS = -32602


class SessionCalls(PromptCalls):
    """The calls that open, list, close and configure sessions."""

    # Our agent, a client of version 2

    def opened(self, params: Message) -> Flow:
        return (yield from self._open_ours("session/new", {"mcpServers": [], **params}))

    def forked(self, params: Message) -> Flow:
        return (yield from self._open_ours("session/fork", params))

    def _open_ours(self, method: str, params: Message) -> Flow:
        result = document(self.told_by_us((yield Ask(method, OPENING.inward(params, self)))))
        id = result.get("sessionId", params.get("sessionId"))
        session = self.session(id)
        session.cwd, session.is_whole = params["cwd"], method == "session/new"
        session.is_open, session.is_closed = True, False
        return opened_outward(session, result, self)

    def resumed(self, params: Message) -> Flow:
        """Open an existing session: `session/load` sends its history, `session/resume` does not.

        An agent that cannot load sessions has no history to send.
        """
        params = dict(params)
        start = params.pop("replayFrom", None)
        if start is not None and (point := document(start).get("type")) != "start":
            raise Fault(INVALID_PARAMS, f"Invalid params: history cannot be replayed from {point!r}")
        session = self.sessions.get(params["sessionId"])
        can_load = offered(self.agent_offers, "loadSession")
        can_resume = offered(self.agent_offers, "sessionCapabilities", "resume")
        is_told = start is not None and can_load
        if not is_told and not can_resume and session is not None and session.is_open:
            result: Message = {"modes": session.modes, "configOptions": session.options}  # it is still open
        elif not can_resume and not can_load:
            raise Fault(NOT_FOUND, "Session not found", {"sessionId": params["sessionId"]})
        else:
            method = "session/resume" if not is_told and can_resume else "session/load"
            result = yield from self._bring_back(method, params, is_muted=not is_told and not can_resume)
        session = self.session(params["sessionId"])
        session.is_open, session.is_closed = True, False
        state: Message = {"state": "running" if session.turns else "idle"}
        yield Tell(self._state(session.session_id, state), to_peer=True)
        return opened_outward(session, result, self)

    def _bring_back(self, method: str, params: Message, is_muted: bool) -> Steps[Message]:
        session = self.session(params["sessionId"])
        session.cwd, session.is_muted = params["cwd"], is_muted
        if method == "session/load":
            params = {"mcpServers": [], **params}
            session.begin_again()
            # a peer that translates empties the session before it shows the history
            session.begun = None if self.peer_translates else set()
        answer = yield Ask(method, OPENING.inward(params, self))
        session.is_muted, session.begun = False, None
        return document(self.told_by_us(answer) or {})

    def listed(self, params: Message) -> Flow:
        """The sessions that our agent lists; if it cannot list them, those of this connection."""
        if offered(self.agent_offers, "sessionCapabilities", "list"):
            return self.told_by_us((yield Ask("session/list", params)))
        self.lose("session list")
        cwd = params.get("cwd")
        if params.get("cursor") is not None:
            raise Fault(INVALID_PARAMS, "Invalid params: this list has one page, so it takes no cursor")
        opened = [session for session in self.sessions.values() if session.is_open]
        here = [{"sessionId": session.session_id, "cwd": session.cwd} for session in opened]
        return {"sessions": [entry for entry in here if cwd in (None, entry["cwd"])]}

    def closed(self, params: Message) -> Flow:
        """Close a session; if the agent cannot close sessions, cancel its turn and forget it."""
        can_close = offered(self.agent_offers, "sessionCapabilities", "close")
        if can_close:
            result = self.told_by_us((yield Ask("session/close", params)))
        else:
            result = {}
            yield Tell({"method": "session/cancel", "params": {"sessionId": params["sessionId"]}})
        session = self.session(params["sessionId"])
        session.is_open = False  # so that no prompt is accepted that our agent then refuses
        session.is_closed = not can_close
        self._withdraw(session)
        return result or {}

    def option_set(self, params: Message) -> Flow:
        """Set an option of our agent, or the mode if the option represents the modes."""
        session = self.not_closed(params["sessionId"])
        if params.get("configId") == MODE_OPTION:
            asked = {"sessionId": session.session_id, "modeId": params["value"], **meta_of(params)}
            result = self.told_by_us((yield Ask("session/set_mode", asked)))
            session.modes = {**(session.modes or {"availableModes": []}), "currentModeId": params["value"]}
        else:
            asked = {name: member for name, member in params.items() if name != "type" or member != "id"}
            result = self.told_by_us((yield Ask("session/set_config_option", asked)))
            session.options = documents(document(result).get("configOptions") or [])
        return {"configOptions": options_outward(session, self), **meta_of(result)}

    # Our client, an agent of version 2

    def open(self, params: Message) -> Flow:
        return (yield from self._open_theirs("session/new", OPENING.outward(params, self)))

    def fork(self, params: Message) -> Flow:
        return (yield from self._open_theirs("session/fork", OPENING.outward(params, self)))

    def resume(self, params: Message) -> Flow:
        return (yield from self._open_theirs("session/resume", OPENING.outward(params, self)))

    def load(self, params: Message) -> Flow:
        self.session(params["sessionId"]).begin_again()
        said = {**OPENING.outward(params, self), "replayFrom": {"type": "start"}}
        return (yield from self._open_theirs("session/resume", said))

    def _open_theirs(self, method: str, params: Message) -> Flow:
        result = document(self.told_by_peer((yield Ask(method, params, to_peer=True))) or {})
        session = self.session(result.get("sessionId", params.get("sessionId")))
        if result.get("availableCommands"):
            yield StartFlow(self._announce(session, result["availableCommands"], is_new=method != "session/resume"))
        return opened_inward(session, result, self)

    def _announce(self, session: SessionState, commands: Json, is_new: bool) -> Steps[None]:
        if is_new:
            yield Pause(0)  # after the answer, since the client does not know the session before
        update: Message = {
            "sessionUpdate": "available_commands_update",
            "availableCommands": COMMANDS.inward(commands, self),
        }
        params: Message = {"sessionId": session.session_id, "update": update}
        yield Tell({"method": "session/update", "params": params})

    def close(self, params: Message) -> Flow:
        """Close a session and end its present turns; it may be opened again before the answer arrives."""
        session = self.session(params["sessionId"])
        turns = list(session.turns)
        result = self.told_by_peer((yield Ask("session/close", params, to_peer=True)))
        self.end_turns(session, turns)
        return result or {}

    def set_mode(self, params: Message) -> Flow:
        """Set a mode with the option that represents the modes."""
        session = self.session(params["sessionId"])
        chosen = {"configId": session.mode_option or MODE_OPTION, "type": "id", "value": params["modeId"]}
        result, _ = yield from self._choose(session, {**chosen, **meta_of(params)})
        return meta_of(result)

    def set_option(self, params: Message) -> Flow:
        session = self.session(params["sessionId"])
        kind = "boolean" if isinstance(params["value"], bool) else "id"
        if kind == "boolean" and params.get("type") != kind:
            raise Fault(INVALID_PARAMS, 'Invalid params: a boolean value needs the type "boolean"')
        result, updates = yield from self._choose(session, {**params, "type": kind})
        for update in updates:
            if update["sessionUpdate"] == "current_mode_update":
                yield Tell(
                    {"method": "session/update", "params": {"sessionId": session.session_id, "update": update}}
                )
        return {"configOptions": shown_options(session, self), **meta_of(result)}

    def _choose(self, session: SessionState, chosen: Message) -> Steps[tuple[Message, list[Message]]]:
        """Set an option of an agent; returns its answer, and the updates that report the changes."""
        said = {**chosen, "sessionId": session.session_id}
        result = document(self.told_by_peer((yield Ask("session/set_config_option", said, to_peer=True))))
        return result, changes_inward(session, result["configOptions"], {}, self)
