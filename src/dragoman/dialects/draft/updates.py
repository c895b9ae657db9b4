"""Updates of D3: each has a type and data; text is a string, and a tool call has the name of its tool."""

import json
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from ...foundation.documents import Document, Json, document, documents, elements, string
from ..engine.memory import Remembering, SessionMemory
from ..engine.pieces import ChunkFrame, Kind, PieceParams, PieceText, written
from ..engine.shapes import CARRIED, MADE_UP, Fields, Items, ValuePair, carried, carry, meta_of
from ..engine.translator import Peer, Remembered, Surroundings
from .content import BLOCK
from .tools import LOCATION, OUTPUT, STATUS, TOOL_NAMES, kind_of, title_of

Type = Literal["agent_message_chunk", "user_message_chunk", "thought_message_chunk"]
CHUNKS: dict[Type, Kind] = {
    "agent_message_chunk": "agent_message_chunk",
    "user_message_chunk": "user_message_chunk",
    "thought_message_chunk": "agent_thought_chunk",
}
THOUGHT: Type = "thought_message_chunk"
MARKS = {type: "visible" if type == THOUGHT else "final" for type in CHUNKS}  # further fields of each chunk
CHUNK_NAMES: dict[Json, Type] = {type: type for type in CHUNKS}
CHUNK_TYPES = {kind: type for type, kind in CHUNKS.items()}
STEPS = Items(
    Fields(
        {"description": "content"},
        carried=["id"],
        given={"priority": "medium"},
        lost={"priority": "plan priorities"},
    )
)
COMMANDS = Fields(
    {"commands": "availableCommands"}, {"availableCommands": Items(Fields(lost={"input": "command hints"}))}
)
# Pieces of text


class Data(Struct, forbid_unknown_fields=True, gc=False):
    content: str
    index: int
    final: bool | UnsetType = UNSET
    visible: bool | UnsetType = UNSET


USUAL: dict[Type, tuple[bool | UnsetType, bool | UnsetType]] = {
    type: (UNSET, True) if type == THOUGHT else (False, UNSET) for type in CHUNKS
}


class DataPiece(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    session_id: str
    type: Type
    data: Data
    timestamp: str | UnsetType = UNSET


class StampedPiece(PieceParams, gc=False):
    """A piece of text in version 1, with its time."""

    meta: Document = field(name="_meta")


class _Speech:
    """A message in progress, and the number of its last chunk."""

    __slots__ = ("id", "index")

    def __init__(self, id: Json) -> None:
        self.id, self.index = id, -1


class DraftUpdates(Remembering):
    """The part of the translator that updates go through."""

    piece = DataPiece

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        super().__init__(peer, surroundings)
        # (session, type of chunk) -> the peer's message in progress
        self._heard: dict[tuple[Json, str], _Speech] = Remembered()
        self._told: dict[tuple[Json, str], _Speech] = Remembered()  # and ours
        self.asked: set[Json] = set()  # tool calls that wait for permission
        self.denied: dict[Json, bool] = Remembered()  # tool calls whose permission was refused

    def shown_terminal(self, id: Json) -> Document:
        """The known facts of a terminal, to be shown."""
        return {}

    # Pieces of text

    def piece_inward(self, piece: DataPiece, frame: bytes) -> bytes | None:
        """Translate a piece that continues a message; chunks that begin or end one are translated as updates."""
        type, data = piece.type, piece.data
        speech = self._heard.get((piece.session_id, type))
        if (
            speech is None
            or not isinstance(speech.id, str)
            or data.index != speech.index + 1
            or (data.final, data.visible) != USUAL[type]
        ):
            return None
        speech.index += 1
        chunk = ChunkFrame(CHUNKS[type], PieceText("text", data.content), speech.id)
        if piece.timestamp is UNSET:
            return written(PieceParams(piece.session_id, chunk))
        kept: Document = {CARRIED: {self.name: {"timestamp": piece.timestamp}}}
        return written(StampedPiece(piece.session_id, chunk, kept))

    def piece_outward(self, piece: PieceParams, frame: bytes) -> bytes | None:
        chunk = piece.update
        type = CHUNK_TYPES[chunk.session_update]
        speech = self._speech((piece.session_id, type), None if chunk.message_id is UNSET else chunk.message_id)
        return written(DataPiece(piece.session_id, type, Data(chunk.content.text, speech.index, *USUAL[type])))

    # Updates

    def note_inward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        if method != "session/update" or "update" in (told := document(params)):
            return super().note_inward(method, params)
        kept = {name: member for name, member in told.items() if name == "timestamp"}
        rest = {name: member for name, member in told.items() if name not in ("type", "data", "timestamp")}
        update = self._update(told["sessionId"], told["type"], document(told["data"]))
        said = {**rest, "update": update}
        return [(method, carry(said, kept, self) if kept else said)]

    def note_outward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        if method != "session/update":
            return super().note_outward(method, params)
        said, kept = carried(document(params), self)
        rest = {name: member for name, member in said.items() if name != "update"}
        update = document(said["update"])
        if "timestamp" not in kept and update["sessionUpdate"] not in CHUNK_TYPES:
            kept["timestamp"] = self.surroundings.now()  # the time of each chunk is not needed
        return [
            (method, {**rest, "type": type, "data": data, **kept})
            for type, data in self._data(said["sessionId"], update)
        ]

    # Inward

    def _update(self, session_id: Json, type: Json, data: Document) -> Document:
        if (kind := CHUNK_NAMES.get(type)) is not None:
            return self._chunk(session_id, kind, data)
        match type:
            case "plan":
                return self._tagged("plan", PLAN.inward(data, self))
            case "tool_call" | "tool_call_update":
                said = self._tool_call(type, data)
                self.tools.note(said)
                return said
            case "available_commands":
                return self._tagged("available_commands_update", COMMANDS.inward(data, self))
            case "current_mode_update":
                self.sessions[session_id].mode = data["currentMode"]
                return self._tagged(type, MODE.inward(data, self))
            case "config_option_update":
                session = self.sessions[session_id]
                session.set_value(string(data["key"]), config_value(data["currentValue"]))
                said = {"sessionUpdate": type, "configOptions": [*session.options], **meta_of(data)}
                return carry(said, {"data": {name: data[name] for name in data if name != "_meta"}}, self)
        return {"sessionUpdate": type, **data}

    def _tagged(self, kind: str, said: Document) -> Document:
        return {"sessionUpdate": kind, **said}

    def _chunk(self, session_id: Json, type: Type, data: Document) -> Document:
        content, index, key = data["content"], data.get("index"), (session_id, type)
        block = {"type": "text", "text": content} if isinstance(content, str) else BLOCK.inward(content, self)
        speech = self._heard.get(key)
        if speech is None or (index == 0 and speech.index >= 0):  # numbers that begin again begin a new message
            speech = self._heard[key] = _Speech(self.new_id("message"))
        said = {"sessionUpdate": CHUNKS[type], "messageId": speech.id, "content": block}
        speech.index += 1
        if index == speech.index and len(data) == 3 and data.get(MARKS[type]) is (type == THOUGHT):
            return said  # a message that is sent again is counted again, with the same result
        if isinstance(index, int):
            speech.index = index
        if data.get("final"):
            del self._heard[key]
        kept = {name: member for name, member in data.items() if name not in ("content", "_meta")}
        return carry({**said, **meta_of(data)}, {**kept, MADE_UP: ["messageId"]}, self)

    def _tool_call(self, type: str, data: Document) -> Document:
        said: Document = {"sessionUpdate": type, "toolCallId": data["id"]}
        if "status" in data:
            said["status"] = STATUS.inward(data["status"], self)
        if "tool" in data:
            tool = string(data["tool"])
            said |= {"name": tool, "title": title_of(tool, data), "kind": kind_of(tool)}
        if "input" in data:
            said["rawInput"] = data["input"]
        if isinstance(data.get("location"), dict):
            said["locations"] = [LOCATION.inward(data["location"], self)]
        contents = [OUTPUT.inward(data["output"], self)] if isinstance(data.get("output"), dict) else []
        if isinstance(data.get("error"), str):
            contents.append({"type": "content", "content": {"type": "text", "text": data["error"]}})
        if contents:
            said["content"] = contents
        if "_meta" in data:
            said["_meta"] = data["_meta"]
        kept: Document = {name: data[name] for name in ("requiresPermission", "duration", "error") if name in data}
        if STATUS.nearest(said.get("status")) != data.get("status"):
            kept["status"] = data["status"]
        kept["said"] = [name for name in ("output", "location", "tool", "input", "status") if name in data]
        return carry(said, kept, self)

    # Outward

    def _data(self, session_id: Json, update: Document) -> list[tuple[str, Document]]:
        kind = update["sessionUpdate"]
        if kind in CHUNK_TYPES:
            return [(CHUNK_TYPES[kind], self._chunk_data(session_id, CHUNK_TYPES[kind], update))]
        rest = {name: member for name, member in update.items() if name != "sessionUpdate"}
        session = self.sessions[session_id]
        match kind:
            case "plan":
                return [("plan", PLAN.outward(rest, self))]
            case "tool_call" | "tool_call_update":
                return self._tool_data(kind, rest, session)
            case "available_commands_update":
                return [("available_commands", COMMANDS.outward(rest, self))]
            case "current_mode_update":
                said = MODE.outward(rest, self)
                if "previousMode" not in said and session.mode is not None:
                    said["previousMode"] = session.mode
                session.mode = rest["currentModeId"]
                return [(kind, said)]
            case "config_option_update":
                return self._option_data(rest, session)
        self.lose("update kinds")
        return []

    def _chunk_data(self, session_id: Json, type: Type, update: Document) -> Document:
        content, key, id = document(update["content"]), (session_id, type), update.get("messageId")
        is_text = content.get("type") == "text"
        if not is_text or len(content) > 2:
            self.lose("content of messages")
        words = content["text"] if is_text else _placeholder(content)
        speech = self._speech(key, id)
        counted = {"content": words, "index": speech.index, MARKS[type]: type == THOUGHT}
        update, kept = carried(update, self)
        if kept.pop(MADE_UP, None) is None:
            return {**counted, **meta_of(update)}
        if isinstance(index := kept.get("index"), int):
            speech.index = index
        if kept.get("final"):
            del self._told[key]
        return {"content": words, **meta_of(update), **kept}

    def _speech(self, key: tuple[Json, str], id: Json) -> _Speech:
        """Our message in progress, or a new one, with one more chunk."""
        speech = self._told.get(key)
        if speech is None or speech.id != id:
            speech = self._told[key] = _Speech(id)
        speech.index += 1
        return speech

    def finished_messages(self, session_id: Json) -> list[Document]:
        """The updates that end the open messages of a turn, for a client."""
        ends: list[Document] = []
        for type in ("user_message_chunk", "agent_message_chunk"):
            if speech := self._told.pop((session_id, type), None):
                data: Document = {"content": "", "index": speech.index + 1, "final": True}
                ends.append({"sessionId": session_id, "type": type, "data": data})
        return ends

    def _tool_data(self, kind: str, update: Document, session: SessionMemory) -> list[tuple[str, Document]]:
        known = self.tools.note(update)
        update, kept = carried(update, self)
        said = elements(kept.pop("said")) if "said" in kept else None
        data: Document = {"id": update["toolCallId"]}
        if said is None or "status" in said:
            data["status"] = kept.pop("status", None) or self._status(data["id"], known, session)
        if kind == "tool_call" and (said is None or "tool" in said):
            kind_known = string(known.get("kind", "other"))
            data["tool"] = known.get("name") or TOOL_NAMES.get(kind_known, kind_known)
            if said is None or "input" in said:
                data["input"] = update.get("rawInput") or {}
        if said is None:
            self._lose_tool_details(kind, update)
        if locations := elements(update.get("locations") or []):
            if len(locations) > 1:
                self.lose("locations")
            if kind == "tool_call":
                data["location"] = LOCATION.outward(locations[0], self)
        if "_meta" in update:
            data["_meta"] = update["_meta"]
        output = self._output(update, kept, said)
        if kind == "tool_call" and output is not None and said is None:
            # The first update of a tool call has no field for it, but an update sent right after it has.
            return [
                (kind, {**data, **kept}),
                ("tool_call_update", {"id": data["id"], "status": data["status"], "output": output}),
            ]
        return [(kind, {**data, **kept} if output is None else {**data, **kept, "output": output})]

    def _lose_tool_details(self, kind: str, update: Document) -> None:
        changes = [update.get(name) for name in ("title", "kind", "name", "rawInput", "locations")]
        if kind == "tool_call" or any(change is not None for change in changes):
            self.lose("tool titles")
        if update.get("rawOutput") is not None:
            self.lose("raw output")

    def _output(self, update: Document, kept: Document, said: list[Json] | None) -> Json:
        contents = documents(update.get("content") or [])
        if said is not None:
            return OUTPUT.outward(contents[0], self) if "output" in said else None
        if not contents:
            return None
        if len(contents) > 1:
            self.lose("tool content")
        order = {"diff": 0, "terminal": 1}
        return OUTPUT.outward(min(contents, key=lambda content: order.get(str(content.get("type")), 2)), self)

    def _status(self, id: Json, known: Document, session: SessionMemory) -> str:
        """The status of a tool call, for which the dialect has more words; every update has it."""
        status = known.get("status", "pending")
        if status == "failed":
            if id in self.denied:
                return "denied"
            return "cancelled" if session.is_cancelled else "failed"
        if status == "pending" and id in self.asked:
            return "awaiting_permission"
        return str(STATUS.outward(status, self))

    def _option_data(self, update: Document, session: SessionMemory) -> list[tuple[str, Document]]:
        update, kept = carried(update, self)
        before = session.values()
        session.opened(update)
        if "data" in kept:
            return [("config_option_update", {**document(kept["data"]), **meta_of(update)})]
        self.lose("config option definitions")
        changed = [(id, value) for id, value in session.values().items() if before.get(id) != value]
        if not changed and update.get("_meta"):
            self.lose("margins")
        return [
            ("config_option_update", {**self.option_change(id, before.get(id), value), **meta_of(update)})
            for id, value in changed
        ]

    def option_change(self, id: str, before: Json, value: Json) -> Document:
        """The update for a config option with a new value."""
        data = {"key": id, "currentValue": value, "source": "agent"}
        return data if before is None else {**data, "previousValue": before}


def _placeholder(content: Document) -> str:
    """The text that replaces content other than text in a message."""
    return f"[{next(filter(None, map(content.get, ('name', 'uri', 'mimeType', 'type'))), '')}]"


def config_value(value: Json) -> Json:
    """A value of a config option: a string or a boolean; a number, array or object becomes a string of JSON."""
    if isinstance(value, bool | str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


PLAN = Fields(
    {"steps": "entries"},
    {"entries": ValuePair(STEPS.inward, lambda entries, t: _numbered(STEPS.outward(entries, t)))},
    carried=["planId"],
    said={"planId": "plan"},
)
MODE = Fields({"currentMode": "currentModeId"}, carried=["previousMode", "reason"])


def _numbered(steps: Json) -> Json:
    return [step if "id" in step else {"id": str(at), **step} for at, step in enumerate(documents(steps), 1)]
