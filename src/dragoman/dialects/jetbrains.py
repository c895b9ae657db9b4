"""D4, the dialect of the JetBrains guide: version 1 with tools and `serverInfo` in `initialize`, whole messages."""

from ..foundation.documents import Document, Json, document, elements
from .declared import declared_tools, wanting_tools, wants_tools, without_declared
from .engine.flows import Ask, Flow, Tell
from .engine.messages import WholeMessages
from .engine.pieces import PieceParams
from .engine.shapes import Fields, Pair, Words, carried, carry
from .engine.translator import MethodRow, Peer, Remembered, Surroundings, Translator

MADE_UP = {"+": ["clientCapabilities"]}  # the capabilities of a client that declared none


def _greeting_inward(params: Document, t: Translator) -> Json:
    """Request the list of tools from our agent, since this dialect sends it to the client."""
    offers = params.get("clientCapabilities")
    if isinstance(offers, dict) and "dragoman" not in document(offers.get("_meta") or {}):
        return {**params, "clientCapabilities": wanting_tools(offers)}
    return params if offers is not None else carry({**params, "clientCapabilities": wanting_tools({})}, MADE_UP, t)


def _greeting_outward(params: Document, t: Translator) -> Json:
    params, kept = carried(params, t)
    if kept == MADE_UP:
        return {name: member for name, member in params.items() if name != "clientCapabilities"}
    offers = params.get("clientCapabilities")
    if isinstance(offers, dict) and wants_tools(offers.get("_meta")):
        return {**params, "clientCapabilities": without_declared(offers)}
    return params


def _welcome_inward(result: Document, t: Translator) -> Json:
    kept: Document = {name: result[name] for name in ("capabilities", "serverInfo") if name in result}
    said = {name: member for name, member in result.items() if name not in kept}
    if "agentInfo" not in said and "serverInfo" in kept:
        said["agentInfo"] = kept["serverInfo"]
        kept["+"] = ["agentInfo"]
    return carry({"agentCapabilities": {}, **said}, _marked(kept, result), t)


def _marked(kept: Document, result: Document) -> Document:
    made_up = [*elements(kept.pop("+", [])), *(() if "agentCapabilities" in result else ("agentCapabilities",))]
    return {**kept, "+": made_up} if made_up else kept


def _welcome_outward(result: Document, t: Translator) -> Json:
    result, kept = carried(result, t)
    made_up = elements(kept.pop("+", []))
    info = result.get("agentInfo") or {"name": "unknown", "version": "0"}
    said = {name: member for name, member in result.items() if name not in made_up}
    offers = document(said.get("agentCapabilities") or {})
    if tools := declared_tools(offers):
        said["agentCapabilities"] = without_declared(offers)
    return {"capabilities": {"tools": tools}, "serverInfo": info, **said, **kept}


KINDS = Words({}, {"switch_mode": "other"}, "tool kind switch_mode")
TOOL_CALL = Fields(shapes={"kind": KINDS})


class JetBrains(Translator):
    name = "jetbrains"
    losses = {
        "tool kind switch_mode": "that a tool switches the mode: it becomes `other`",
        "repeated content": "the content of a prompt's answer that was already sent as updates",
    }
    to_agent = {
        "initialize": MethodRow(
            params=Pair(_greeting_inward, _greeting_outward), result=Pair(_welcome_inward, _welcome_outward)
        ),
        "session/prompt": MethodRow(result=Fields(), outward="prompt"),
    }

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        super().__init__(peer, surroundings)
        self._told: dict[Json, int] = Remembered()  # session -> updates since its last prompt
        self._messages = WholeMessages(self)

    def prompt(self, params: Document) -> Flow:
        """Send the content of the agent's answer as updates, if the agent sent no updates."""
        id = params["sessionId"]
        self._told[id] = 0
        answer = yield Ask("session/prompt", params, to_peer=True)
        result = document(self.told_by_peer(answer))
        content = result.get("content")
        if not isinstance(content, list):
            return result
        said = {name: member for name, member in result.items() if name != "content"}
        if self._told.get(id):
            self.lose("repeated content")
        else:
            for chunk in self._messages.apart(
                {"sessionUpdate": "message", "role": "assistant", "content": content}
            ):
                yield Tell({"method": "session/update", "params": {"sessionId": id, "update": chunk}})
        return carry(said, {"content": content}, self)

    def piece_inward(self, piece: PieceParams, frame: bytes) -> bytes | None:
        self._count_told(piece.session_id)
        return frame

    def _count_told(self, session_id: Json) -> None:
        self._told[session_id] = self._told.get(session_id, 0) + 1

    def note_inward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        if method != "session/update":
            return [(method, params)]
        told = document(params)
        update = document(told["update"])
        self._count_told(told["sessionId"])
        if update.get("sessionUpdate") != "message":
            return [(method, params)]
        return [(method, {**told, "update": chunk}) for chunk in self._messages.apart(update)]

    def note_outward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        if method != "session/update":
            return [(method, params)]
        told = document(params)
        update, kept = carried(document(told["update"]), self)
        if "count" in kept:
            message = self._messages.together(told["sessionId"], update, kept)
            return [(method, {**told, "update": message})] if message else []
        if update.get("kind") == "switch_mode":
            update = TOOL_CALL.outward(update, self)
        return [(method, {**told, "update": update})]
