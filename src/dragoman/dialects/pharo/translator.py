"""D0, the dialect of the Pharo specification: other names, whole messages, null for empty results."""

from typing import Literal

from msgspec import UNSET, Struct

from ...foundation.documents import Document, Json, document, documents, elements, number, string
from ..engine.codes import Codes
from ..engine.flows import Ask, Fault, Flow
from ..engine.memory import Remembering
from ..engine.messages import ROLES, WholeMessages
from ..engine.pieces import ChunkFrame, PieceParams, PieceText, written
from ..engine.shapes import (
    MADE_UP,
    Empty,
    Fields,
    Items,
    NamedValues,
    Pair,
    ValuePair,
    Words,
    basename,
    carried,
    carry,
    command_line,
    exit_code,
    meta_of,
    tool_text,
)
from ..engine.translator import MethodRow, Peer, Remembered, Surroundings, Translator
from .content import BLOCK, OTHER, SHAPES
from .handshake import GREETING, WELCOME

CODES = Codes(
    {
        "auth_failed": -32001,
        "invalid_auth_method": -32002,
        "resource_not_found": -32003,
        "permission_denied": -32004,
        "session_not_found": -32005,
        "invalid_session_state": -32006,
        "capability_not_supported": -32007,
    },
    nearest={"auth_required": "auth_failed", "access_denied": "permission_denied"},
)
SPEAKERS: dict[str, Literal["agent", "user"]] = {"agent_message_chunk": "agent", "user_message_chunk": "user"}
UPDATES = {"tool_call", "tool_call_update", "plan", "available_commands_update", "current_mode_update"}


# Sessions


def _servers_inward(servers: Json, t: Translator) -> Json:
    taken: set[str] = set()
    return (
        [_server_inward(server, taken, t) for server in documents(servers)]
        if isinstance(servers, list)
        else servers
    )


def _server_inward(server: Document, taken: set[str], t: Translator) -> Json:
    given = server.get("name")
    wanted = name = string(given) if given else basename(server.get("command") or server.get("url") or "server")
    count = 1
    while name in taken:
        count += 1
        name = f"{wanted}-{count}"
    taken.add(name)
    said = SERVER.inward(server, t)
    if "name" in server:
        return said
    said, kept = carried(said, t)
    return carry({**said, "name": name}, {**kept, MADE_UP: [*elements(kept.get(MADE_UP, [])), "name"]}, t)


def _server_outward(server: Document, t: Translator) -> Document:
    said = SERVER.outward(server, t)
    return said if "transport" in said else {"transport": "stdio", **said}


SERVER = Fields(
    {"transport": "type"},
    {"env": NamedValues("repeated names"), "headers": NamedValues("repeated names")},
    lost={"name": "server name"},
)
SERVERS = ValuePair(_servers_inward, Items(Pair(SERVER.inward, _server_outward)).outward)


def _session_inward(answer: Json, t: "Pharo") -> Json:
    result = document({} if answer is None else answer)
    if not t.modes or "modes" in result:
        return result
    modes = {"currentModeId": t.modes[0]["id"], "availableModes": t.modes}
    return carry({**result, "modes": modes}, {MADE_UP: ["modes"]}, t)


SESSION = ValuePair(
    _session_inward, Fields(lost={"modes": "session modes", "configOptions": "config options"}).outward
)
LOAD = Fields(
    shapes={"mcpServers": SERVERS},
    lost={"cwd": "session directory", "additionalDirectories": "session directory"},
)
LOADED = ValuePair(_session_inward, lambda result, t: SESSION.outward(result, t) or None)


def _option_inward(params: Document, t: Translator) -> Json:
    said = {("configId" if name == "option" else name): member for name, member in params.items()}
    if isinstance(said.get("value"), bool):
        said["type"] = "boolean"
    elif not isinstance(said.get("value"), str):
        raise Fault(-32602, "Invalid params: the value of a config option must be a string, true or false")
    return said


def _option_outward(params: Document, t: Translator) -> Json:
    return {("option" if name == "configId" else name): member for name, member in params.items() if name != "type"}


def _options_set_inward(result: Json, t: Translator) -> Json:
    return {"configOptions": [], **document(result or {})}


def _options_set_outward(result: Json, t: Translator) -> Json:
    if document(result).get("configOptions"):
        t.lose("config options")
    return meta_of(result) or None


# Questions


def _question_inward(params: Document, t: "Pharo") -> Json:
    if "toolCall" in params:
        return params
    said = {name: member for name, member in params.items() if name not in ("title", "description")}
    call: Document = {"toolCallId": t.new_id("permission")}
    if "title" in params:
        call["title"] = params["title"]
    if params.get("description"):
        call["content"] = [{"type": "content", "content": {"type": "text", "text": params["description"]}}]
    return {**said, "toolCall": call, "options": OPTIONS.inward(params["options"], t)}


def _question_outward(params: Document, t: "Pharo") -> Json:
    call = document(params["toolCall"])
    known = t.tools.note(call)
    if not str(call["toolCallId"]).startswith(f"{t.name}-"):  # it was made up for the question
        t.lose("link to the tool call")
    said = {name: member for name, member in params.items() if name != "toolCall"}
    said["options"] = OPTIONS.outward(params["options"], t)
    if "title" in known:
        said["title"] = known["title"]
    if description := tool_text(call) or known.get("subject"):
        said["description"] = description
    return said


def _answer_inward(result: Json, t: Translator) -> Json:
    if isinstance(result, dict) and "outcome" in result:
        return result
    chosen = result.get("selectedOptionId") if isinstance(result, dict) else None
    outcome = {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}
    return {"outcome": outcome, **meta_of(result)}


def _answer_outward(result: Json, t: Translator) -> Json:
    outcome = document(document(result)["outcome"])
    if outcome.get("_meta"):
        t.lose("margins")
    return {"selectedOptionId": outcome.get("optionId"), **meta_of(result)}


OPTIONS = Items(Fields({"label": "name"}))


# Terminals


def _output_inward(result: Document, t: Translator) -> Json:
    if "truncated" in result:
        return result
    said = {name: member for name, member in result.items() if name != "exitCode"}
    if result.get("exitCode") is not None:
        said["exitStatus"] = {"exitCode": result["exitCode"]}
    return {**said, "truncated": False}


def _output_outward(result: Document, t: Translator) -> Json:
    given = result.get("exitStatus")
    status = None if given is None else document(given)
    if result.get("truncated") or (status and status.get("signal") is not None):
        t.lose("truncation and signals")
    if status and status.get("_meta"):
        t.lose("margins")
    code = None if status is None else exit_code(status)  # null means that the command still runs
    return {"output": result["output"], "exitCode": code, **meta_of(result)}


EMPTY = Empty()


# Pieces of text


class WholeMessage(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["message"]
    role: Literal["agent", "user"]
    content: tuple[PieceText]


class MessagePiece(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    session_id: str
    update: WholeMessage


class Pharo(Remembering):
    name = "pharo"
    losses = {
        "implementation title": "the human-readable title of a client or agent",
        "auth method type": "that a login runs in a terminal, with its arguments and environment",
        "server name": "the name of an MCP server",
        "repeated names": "all but the last of several variables or headers of one name",
        "session modes": "the modes of a session, which this dialect names at initialize only",
        "config options": "the list of config options and their values",
        "session directory": "the directories of a session that is loaded",
        "message boundaries": "which chunks belong to one message",
        "thoughts": "the agent's thoughts",
        "update kinds": "kinds of updates and of tool content this dialect does not have",
        "locations": "all but the first location of a tool call",
        "tool input and output": "the raw input and output of a tool call",
        "tool name": "the programmatic name of a tool",
        "tool kind switch_mode": "that a tool switches the mode: it becomes `other`",
        "new file": "that a diff makes a new file rather than fills an empty one",
        "annotations": "audience and date of content, and priorities other than high, medium, low",
        "link to the tool call": "which tool call a permission is asked for",
        "truncation and signals": "that terminal output was cut, and the signal that ended a command",
        "margins": "`_meta` of an object this dialect does not have",
        "output limit": "the limit of a terminal's output",
        "stop reason max_turn_requests": "that a turn ended by its number of requests: it becomes `max_tokens`",
    }
    to_agent = {
        "initialize": MethodRow(GREETING, WELCOME),
        "authenticate": MethodRow(Fields(carried=["credentials"]), EMPTY),
        "session/new": MethodRow(Fields(shapes={"mcpServers": SERVERS}), SESSION),
        "session/load": MethodRow(LOAD, LOADED, inward="load"),
        "session/set_mode": MethodRow(result=EMPTY),
        "session/set_config_option": MethodRow(
            Pair(_option_inward, _option_outward),
            ValuePair(_options_set_inward, _options_set_outward),
        ),
        "session/prompt": MethodRow(
            Fields(shapes={"prompt": Items(BLOCK)}),
            Fields(
                shapes={
                    "stopReason": Words({}, {"max_turn_requests": "max_tokens"}, "stop reason max_turn_requests")
                }
            ),
        ),
    }
    to_client = {
        "session/request_permission": MethodRow(
            Pair(_question_inward, _question_outward), ValuePair(_answer_inward, _answer_outward)
        ),
        "fs/read_text_file": MethodRow(Fields({"startLine": "line", "lineLimit": "limit"})),
        "fs/write_text_file": MethodRow(result=EMPTY),
        "terminal/create": MethodRow(
            Fields(shapes={"env": NamedValues("repeated names")}, lost={"outputByteLimit": "output limit"})
        ),
        "terminal/output": MethodRow(result=Pair(_output_inward, _output_outward)),
        "terminal/wait_for_exit": MethodRow(
            result=Fields(carried=["output"], given={"signal": None}), inward="wait_for_exit"
        ),
        "terminal/kill": MethodRow(result=EMPTY),
        "terminal/release": MethodRow(result=EMPTY),
    }

    piece = MessagePiece

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        super().__init__(peer, surroundings)
        self.modes: list[Document] = []  # modes and options that an agent declared at `initialize`
        self.terminals: dict[Json, Document] = Remembered()  # the command of each terminal, and how it ended
        self._messages = WholeMessages(self, BLOCK, plain=("agent", "user"))

    def error_inward(self, error: Json) -> Json:
        return CODES.inward(error)

    def error_outward(self, error: Json) -> Json:
        return CODES.outward(error)

    def passed(self, method: str, params: Json, result: Json) -> None:
        super().passed(method, params, result)
        if method == "terminal/create":
            self.terminals[document(result)["terminalId"]] = {"command": command_line(document(params))}
        elif method == "terminal/output" and (status := document(result).get("exitStatus")):
            self._ended(document(params)["terminalId"], document(status))
        elif method == "terminal/wait_for_exit":
            self._ended(document(params)["terminalId"], document(result))

    def _ended(self, terminal_id: Json, status: Document) -> None:
        if known := self.terminals.get(terminal_id):
            known["exitCode"] = exit_code(status)

    # Flows

    def load(self, params: Document) -> Flow:
        """Load a session for a client, which does not name the directory."""
        said = LOAD.inward(params, self)
        if "cwd" not in said:
            said["cwd"] = yield from self.directory_of(said["sessionId"])
        result = self.told_by_us((yield Ask("session/load", said)))
        self.passed("session/load", said, result)
        return LOADED.outward(result, self)

    def wait_for_exit(self, params: Document) -> Flow:
        """Wait for a command, with a timeout if there is one; the answer contains the output."""
        said = {name: member for name, member in params.items() if name != "timeout"}
        timeout = number(params["timeout"]) / 1000 if params.get("timeout") is not None else None
        answer = yield Ask("terminal/wait_for_exit", said, timeout=timeout)
        status, kept = carried({} if answer is None else document(self.told_by_us(answer)), self)
        if status.get("signal") is not None:
            self.lose("truncation and signals")
        if "output" not in kept:
            kept["output"] = document(self.told_by_us((yield Ask("terminal/output", said))))["output"]
        code = None if answer is None else exit_code(status)
        return {"output": kept["output"], "exitCode": code, **meta_of(status)}

    # Updates

    def piece_inward(self, piece: MessagePiece, frame: bytes) -> bytes | None:
        message = piece.update
        return written(
            PieceParams(
                piece.session_id, ChunkFrame(ROLES[message.role], message.content[0], self.new_id("message"))
            )
        )

    def piece_outward(self, piece: PieceParams, frame: bytes) -> bytes | None:
        chunk = piece.update
        if (role := SPEAKERS.get(chunk.session_update)) is None or not chunk.content.text:
            return None
        self._lose_boundary(None if chunk.message_id is UNSET else chunk.message_id)
        return written(MessagePiece(piece.session_id, WholeMessage("message", role, (chunk.content,))))

    def _lose_boundary(self, message_id: Json) -> None:
        if message_id and not self._messages.is_ours(message_id):
            self.lose("message boundaries")

    def note_inward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        if method != "session/update" or "sessionUpdate" in (update := document(document(params)["update"])):
            return super().note_inward(method, params)
        told = document(params)
        if update["type"] == "message":
            return [(method, {**told, "update": chunk}) for chunk in self._messages.apart(update)]
        said = SHAPES.get(update["type"], OTHER).inward(update, self)
        if "toolCallId" in said:
            self.tools.note(said)
        return [(method, {**told, "update": said})]

    def note_outward(self, method: str, params: Json) -> list[tuple[str, Json]]:
        if method != "session/update":
            return super().note_outward(method, params)
        told = document(params)
        update = document(told["update"])
        kind = update["sessionUpdate"]
        if kind in SPEAKERS:
            message = self._message(told["sessionId"], update)
            return [(method, {**told, "update": message})] if message else []
        if kind not in UPDATES:
            self.lose("thoughts" if kind == "agent_thought_chunk" else "update kinds")
            return []
        if "toolCallId" in update:
            self.tools.note(update)
        return [(method, {**told, "update": SHAPES.get(kind, OTHER).outward(update, self)})]

    def _message(self, session_id: Json, chunk: Document) -> Document | None:
        """A chunk as a message; None for an empty chunk, and while the message is incomplete."""
        chunk, kept = carried(chunk, self)
        if kept:
            return self._messages.together(session_id, chunk, kept)
        content = document(chunk["content"])
        if content.get("text") == "" and len(content) == 2 and not chunk.get("_meta"):
            return None
        self._lose_boundary(chunk.get("messageId"))
        said = {"type": "message", "role": SPEAKERS[string(chunk["sessionUpdate"])]}
        return {**said, **meta_of(chunk), "content": [BLOCK.outward(content, self)]}
