"""Sessions and prompts of D3: sessions are opened with a mode and options, and loaded by their id alone."""

from ...foundation.documents import Document, Json, document, documents, elements, number, string
from ..engine.flows import Ask, Fault, Flow, Pause, StartFlow, Steps, Tell
from ..engine.memory import made_up_option
from ..engine.pieces import PieceParams
from ..engine.shapes import (
    MADE_UP,
    Fields,
    Items,
    NamedValues,
    Pair,
    ValuePair,
    Words,
    carried,
    carry,
    meta_of,
    text_of,
)
from ..engine.translator import Peer, Surroundings, Translator
from .content import BLOCKS, attachment_block
from .terminals import DraftTerminals
from .updates import config_value

REFUSALS = (-32000, -32602)  # error codes of a login: it failed; the method is unknown
APPROVAL = "autoApprove"  # an option of every session: run without asking the client for permission
DEFAULT = "default"  # a mode of every session: the one it began in
SPOKEN = ("user_message_chunk", "agent_message_chunk")


# Sessions


def _server_inward(server: Document, t: Translator) -> Json:
    transport = server.get("transport")
    if not isinstance(transport, dict):
        return server
    rest = {name: member for name, member in server.items() if name != "transport"}
    if transport.get("type") == "acp":
        said = {**rest, "type": "acp", "serverId": transport.get("mcpServerName", "")}
        return carry(said, {"transport": transport}, t)
    flat = TRANSPORT.inward(
        {name: member for name, member in transport.items() if (name, member) != ("type", "stdio")}, t
    )
    lists: dict[str, list[Json]] = {"args": [], "env": []} if transport.get("type") == "stdio" else {"headers": []}
    made_up = [name for name in lists if name not in flat]
    said = {**lists, **rest, **flat}
    if not made_up:
        return said
    said, kept = carried(said, t)
    return carry(said, {**kept, MADE_UP: made_up}, t)


def _server_outward(server: Document, t: Translator) -> Json:
    name, type = server.get("name"), server.get("type", "stdio")
    if type == "acp":
        bare, kept = carried(server, t)
        if "transport" not in kept:
            t.lose("servers over ACP")
        return {
            "name": name,
            "transport": kept.get("transport") or {"type": "acp", "mcpServerName": bare["serverId"]},
        }
    flat = {member: value for member, value in server.items() if member != "name"}
    return {"name": name, "transport": {"type": type, **TRANSPORT.outward(flat, t)}}


TRANSPORT = Fields(
    shapes={"env": NamedValues("repeated names"), "headers": NamedValues("repeated names")},
    carried=["cwd", "timeout"],
)
SERVERS = Items(Pair(_server_inward, _server_outward))
NEW = Fields(
    {"workingDirectory": "cwd"},
    {"mcpServers": SERVERS},
    carried=["initialMode", "configOptions", "systemPrompt"],
    given={"mcpServers": lambda params, t: []},
    lost={"additionalDirectories": "additional directories", "systemPrompt": None},
)


def _opened_inward(result: Document, t: "DraftSessions") -> Document:
    kept = {name: member for name, member in result.items() if name not in ("sessionId", "_meta")}
    said = {name: member for name, member in result.items() if name not in kept}
    kept[MADE_UP] = []
    if t.modes:
        said["modes"] = {
            "currentModeId": t.modes[0],
            "availableModes": [{"id": mode, "name": mode} for mode in t.modes],
        }
        kept[MADE_UP] = ["modes"]
    return carry(said, kept, t)


def _loaded_inward(result: Document, t: "DraftSessions") -> Document:
    said = {name: member for name, member in result.items() if name == "_meta"}
    modes = list(dict.fromkeys([*t.modes, *([result["mode"]] if result.get("mode") else [])]))
    if modes:
        available = [{"id": mode, "name": mode} for mode in modes]
        said["modes"] = {"currentModeId": result.get("mode") or modes[0], "availableModes": available}
    values = result.get("configOptions")
    if isinstance(values, dict) and values:
        said["configOptions"] = [made_up_option(id, config_value(value)) for id, value in values.items()]
    return carry(said, {"result": result}, t)


def cancelled(params: Document, t: "DraftSessions") -> Json:
    t.sessions[params["sessionId"]].is_cancelled = True
    return CANCEL.inward(params, t)


CANCEL = Fields(carried=["reason"])


# Prompts


def _prompt_inward(params: Document, t: Translator) -> Json:
    said = {name: member for name, member in params.items() if name not in ("content", "attachments")}
    attachments = elements(params.get("attachments") or [])
    attached = [attachment_block(attachment, t) for attachment in attachments]
    said["prompt"] = [*elements(BLOCKS.inward(params["content"], t)), *attached]
    return carry(said, {"attachments": attachments}, t) if "attachments" in params else said


def _prompt_outward(params: Document, t: Translator) -> Json:
    params, kept = carried(params, t)
    said = {name: member for name, member in params.items() if name != "prompt"}
    blocks = elements(params["prompt"])
    if attachments := elements(kept.get("attachments") or []):
        blocks = blocks[: -len(attachments)]
    return {**said, "content": BLOCKS.outward(blocks, t), **kept}


def _turn_inward(answer: Json, t: Translator) -> Json:
    result = document(answer)
    if result.get("stopReason") == "error":
        raise Fault(-32603, str(result.get("error") or "the agent failed"), {"kind": "turn_failed"})
    usage = result.get("usage")
    if not isinstance(usage, dict):
        return result
    total = number(usage.get("inputTokens") or 0) + number(usage.get("outputTokens") or 0)
    said = {"totalTokens": total, "inputTokens": 0, "outputTokens": 0, **usage}
    made_up = [name for name in said if name not in usage]
    return {**result, "usage": carry(said, {MADE_UP: made_up}, t)}


USAGE = Fields(
    lost={
        "totalTokens": None,
        "thoughtTokens": "token details",
        "cachedReadTokens": "token details",
        "cachedWriteTokens": "token details",
    }
)


def _usage_outward(usage: Json, t: Translator) -> Json:
    if isinstance(usage, dict):
        total = number(usage["inputTokens"]) + number(usage["outputTokens"])
        if usage.get("totalTokens") != total:
            t.lose("token details")
    return USAGE.outward(usage, t)


STOP = Words({}, {"refusal": "end_turn", "max_turn_requests": "max_tokens"}, "stop reasons")
PROMPT = Pair(_prompt_inward, _prompt_outward)
SPENT = ValuePair(USAGE.inward, _usage_outward)
TURN = ValuePair(_turn_inward, Fields(shapes={"stopReason": STOP, "usage": SPENT}).outward)


class DraftSessions(DraftTerminals):
    """The part of the translator that sessions and prompts go through."""

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        super().__init__(peer, surroundings)
        self.modes: list[str] = []  # modes and options that an agent declared at `initialize`
        self.servers: dict[Json, Json] = {}  # MCP servers reached through the connection: name -> id
        # updates held back until the opening of their session is answered
        self._held: dict[Json, list[tuple[str, Json]]] = {}
        self._history: dict[Json, list[tuple[Json, Json]]] = {}  # the history of sessions that are being loaded

    def piece_outward(self, piece: PieceParams, frame: bytes) -> bytes | None:
        return None if self._held or self._history else super().piece_outward(piece, frame)

    def note_outward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        notes = super().note_outward(method, params)
        if method == "session/update":
            told = document(params)
            session_id, update = told["sessionId"], document(told["update"])
            if session_id in self._history and update["sessionUpdate"] in SPOKEN:
                message = (update["sessionUpdate"], update.get("messageId"))
                if self._history[session_id][-1:] != [message]:
                    self._history[session_id].append(message)
            if session_id in self._held:
                self._held[session_id] += notes
                return []
        return notes

    # Opening and loading

    def open_for_client(self, params: Document) -> Flow:
        """Open a session for a client, in the mode and with the options that it requested."""
        said = self._with_system_prompt(NEW.inward(params, self), params)
        self._learn_servers(said["mcpServers"])
        result = document(self.told_by_us((yield Ask("session/new", said))))
        self.passed("session/new", said, result)
        id = result["sessionId"]
        self._held[id] = []
        result, kept = carried(result, self)
        if not kept:  # an agent of this dialect has applied them itself
            yield from self._set_up(id, params)
        if not kept:
            self._lose_definitions(result)
        kept.pop(MADE_UP, None)
        yield StartFlow(self._announce(id, is_news=not kept))
        return {"sessionId": id, "createdAt": self.surroundings.now(), **meta_of(result), **kept}

    def _learn_servers(self, servers: Json) -> None:
        """Note the ids of MCP servers that are reached through the connection."""
        for server in documents(servers):
            if "serverId" in server:
                self.servers[server["name"]] = server["serverId"]

    def _with_system_prompt(self, said: Document, params: Document) -> Document:
        prompt = params.get("systemPrompt")
        if not isinstance(prompt, str):
            return said
        offers = document(self.agent_offers.get("sessionCapabilities") or {}).get("systemPrompt")
        if offers is None:  # an agent that offers no such capability may still accept it by the older convention
            return {**said, "_meta": {**document(said.get("_meta", {})), "systemPrompt": prompt}}
        mode = "override" if document(document(offers).get("mode") or {}).get("override") is not None else "append"
        return {**said, "systemPrompt": {"mode": mode, "content": [{"type": "text", "text": prompt}]}}

    def _set_up(self, id: Json, params: Document) -> Steps[None]:
        """Give a session its mode and options; if that fails, the session is not opened."""
        try:
            yield from self._set_mode_and_options(id, params)
        except Fault:
            del self._held[id]
            if "close" in document(self.agent_offers.get("sessionCapabilities") or {}):
                yield Ask("session/close", {"sessionId": id})
            raise

    def _set_mode_and_options(self, id: Json, params: Document) -> Steps[None]:
        session, mode = self.sessions[id], params.get("initialMode")
        mode = self._mode_id(id, mode) if mode else None
        if mode and mode != session.mode:
            self.told_by_us((yield Ask("session/set_mode", {"sessionId": id, "modeId": mode})))
            session.mode = mode
        for key, value in document(params.get("configOptions") or {}).items():
            if key == APPROVAL and key not in session.values():
                self._approve(id, value)
            else:
                yield from self._set_option(id, key, value)

    def _mode_id(self, id: Json, mode: Json) -> Json:
        """The agent's id of a mode."""
        session = self.sessions[id]
        has_own = mode in [known.get("id") for known in session.modes]
        return session.first_mode if mode == DEFAULT and not has_own else mode

    def _lose_definitions(self, result: Document) -> None:
        for name, row in (("modes", "mode list"), ("configOptions", "config option definitions")):
            if result.get(name):
                self.lose(row)

    def _announce(self, id: Json, is_news: bool) -> Steps[None]:
        """Send what the answer to the opening had no field for, then the updates that were held back."""
        yield Pause(0)
        session = self.sessions[id]
        updates: list[tuple[str, Json]] = []
        if session.mode is not None and is_news:
            updates.append(("current_mode_update", {"previousMode": session.mode, "currentMode": session.mode}))
        if is_news:
            values = session.values().items()
            updates += [("config_option_update", self.option_change(key, None, value)) for key, value in values]
        for type, data in updates:
            params = {"sessionId": id, "type": type, "data": data, "timestamp": self.surroundings.now()}
            yield Tell({"method": "session/update", "params": params}, to_peer=True)
        for method, held in self._held.pop(id, ()):
            yield Tell({"method": method, "params": held}, to_peer=True)

    def open_at_agent(self, params: Document) -> Flow:
        said = NEW.outward(params, self)
        self._say_system_prompt(said, params.get("systemPrompt"))
        self._learn_servers(params.get("mcpServers") or [])
        answer = yield Ask("session/new", said, to_peer=True)
        result = _opened_inward(document(self.told_by_peer(answer)), self)
        if "modes" in result and said.get("initialMode"):
            result["modes"] = {**document(result["modes"]), "currentModeId": said["initialMode"]}
        self.passed("session/new", params, result)
        return result

    def _say_system_prompt(self, said: Document, prompt: Json) -> None:
        meta = document(said.get("_meta") or {})
        if isinstance(prompt, dict) and "systemPrompt" not in said:
            said["systemPrompt"] = text_of(prompt.get("content"))
            if prompt.get("mode") != "override" or any(
                block["type"] != "text" for block in documents(prompt["content"])
            ):
                self.lose("system prompt")
        if isinstance(meta.get("systemPrompt"), str):
            said.setdefault("systemPrompt", meta["systemPrompt"])
            said["_meta"] = {name: member for name, member in meta.items() if name != "systemPrompt"}
            if not said["_meta"]:
                del said["_meta"]

    def load_for_client(self, params: Document) -> Flow:
        """Load a session for a client that knows only its id; the history is sent first, as updates."""
        id = params["sessionId"]
        cwd = yield from self.directory_of(id)
        said = {"mcpServers": [], **params, "cwd": cwd}
        self._history[id] = []
        answer = yield Ask("session/load", said)
        count = len(self._history.pop(id))
        result = document(self.told_by_us(answer))
        self.passed("session/load", said, result)
        result, kept = carried(result, self)
        if not kept:
            self._lose_definitions(result)
        session = self.sessions[id]
        mode = "default" if session.mode is None else session.mode
        found = {"sessionId": id, "workingDirectory": cwd, "mode": mode, **meta_of(result)}
        return kept.get("result") or {**found, "configOptions": session.values(), "messageCount": count}

    def load_at_agent(self, params: Document) -> Flow:
        self.lose("session directory")
        asked = {"sessionId": params["sessionId"], **meta_of(params)}
        answer = yield Ask("session/load", asked, to_peer=True)
        result = _loaded_inward(document(self.told_by_peer(answer)), self)
        self.passed("session/load", params, result)
        return result

    # Prompts

    def prompt_for_client(self, params: Document) -> Flow:
        said = document(PROMPT.inward(params, self))
        session = self.sessions[said["sessionId"]]
        session.is_cancelled, session.prompts = False, session.prompts + 1
        answer = document((yield Ask("session/prompt", said)))
        session.prompts -= 1
        for end in self.finished_messages(said["sessionId"]):
            yield Tell({"method": "session/update", "params": end}, to_peer=True)
        if "error" in answer and (error := document(answer["error"])).get("code") == -32603:
            return {"stopReason": "error", "error": error.get("message")}
        return TURN.outward(self.told_by_us(answer), self)

    def prompt_at_agent(self, params: Document) -> Flow:
        session = self.sessions[params["sessionId"]]
        session.prompts += 1
        answer = yield Ask("session/prompt", PROMPT.outward(params, self), to_peer=True)
        session.prompts -= 1
        return TURN.inward(self.told_by_peer(answer), self)

    # Modes and options

    def set_mode_for_client(self, params: Document) -> Flow:
        id, mode = params["sessionId"], params["mode"]
        before = self.sessions[id].mode or DEFAULT
        said = {name: member for name, member in params.items() if name != "mode"}
        wanted = self._mode_id(id, mode)
        if wanted is None:  # the session has no modes, so it is in this one
            return {"previousMode": before, "currentMode": mode}
        answer = yield Ask("session/set_mode", {**said, "modeId": wanted})
        result, kept = carried(document(self.told_by_us(answer) or {}), self)
        self.sessions[id].mode = wanted
        return {"previousMode": before, "currentMode": mode, **meta_of(result), **kept}

    def set_mode_at_agent(self, params: Document) -> Flow:
        said = {name: member for name, member in params.items() if name != "modeId"}
        asked = Ask("session/set_mode", {**said, "mode": params["modeId"]}, to_peer=True)
        result = document(self.told_by_peer((yield asked)))
        self.sessions[params["sessionId"]].mode = result.get("currentMode") or params["modeId"]
        kept = {name: member for name, member in result.items() if name != "_meta"}
        return carry(meta_of(result), kept, self)

    def set_option_for_client(self, params: Document) -> Flow:
        id, key = params["sessionId"], string(params["key"])
        before = self.sessions[id].values().get(key)
        if key == APPROVAL and before is None:
            return self._approve(id, params["value"])
        answer = yield from self._set_option(id, key, params["value"], meta_of(params))
        result, kept = carried(document(answer), self)
        if not kept:
            self._lose_definitions(result)
            now, wanted = self.sessions[id].values().get(key), params["value"]
            kept = {"key": key, "currentValue": wanted if now in (None, config_value(wanted)) else now}
            kept |= {} if before is None else {"previousValue": before}
        return {**kept, **meta_of(result)}

    def _approve(self, id: Json, value: Json) -> Document:
        """Ask a client for permission, unless it has turned that off."""
        if not isinstance(value, bool):
            raise Fault(-32602, f"Invalid params: {APPROVAL} must be true or false")
        session = self.sessions[id]
        before, session.approves = session.approves, value
        return {"key": APPROVAL, "previousValue": before, "currentValue": value}

    def _set_option(self, id: Json, key: str, value: Json, meta: Document | None = None) -> Flow:
        text = config_value(value)
        said = {"sessionId": id, "configId": key, "value": text, **(meta or {})}
        if isinstance(text, bool):
            said["type"] = "boolean"
        if text is not value:
            said = carry(said, {"value": value}, self)
        result = self.told_by_us((yield Ask("session/set_config_option", said)))
        self.passed("session/set_config_option", said, result)
        return result

    def set_option_at_agent(self, params: Document) -> Flow:
        params, kept = carried(params, self)
        said = {"sessionId": params["sessionId"], "key": params["configId"], "value": params["value"]}
        said = {**said, **meta_of(params), **kept}
        result = document(self.told_by_peer((yield Ask("session/set_config_option", said, to_peer=True))))
        session = self.sessions[params["sessionId"]]
        session.set_value(string(params["configId"]), config_value(result.get("currentValue", params["value"])))
        kept = {name: member for name, member in result.items() if name != "_meta"}
        return carry({"configOptions": session.options, **meta_of(result)}, kept, self)

    # Logging in

    def authenticate_client(self, params: Document) -> Flow:
        """Log a client in; in this dialect a refusal is a result and not an error."""
        said = {name: member for name, member in params.items() if name not in ("method", "credentials")}
        said["methodId"] = params["method"]
        if "credentials" in params:
            said = carry(said, {"credentials": params["credentials"]}, self)
        answer = document((yield Ask("authenticate", said)))
        if "error" in answer and (error := document(answer["error"])).get("code") in REFUSALS:
            return {"success": False, "error": error.get("message", "")}
        result, kept = carried(document(self.told_by_us(answer) or {}), self)
        return {"success": True, **meta_of(result), **kept}

    def authenticate_at_agent(self, params: Document) -> Flow:
        params, kept = carried(params, self)
        said = {"method": params["methodId"], "credentials": {}, **meta_of(params), **kept}
        result = document(self.told_by_peer((yield Ask("authenticate", said, to_peer=True))))
        if result.get("success") is False:
            reason = str(result.get("error") or "the agent gave no reason")
            raise Fault(-32000, f"Authentication failed: {reason}", {"kind": "auth_failed", "reason": reason})
        told = meta_of(result)
        return carry(told, {"expiresAt": result["expiresAt"]}, self) if "expiresAt" in result else told
