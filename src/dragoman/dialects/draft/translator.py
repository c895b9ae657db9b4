"""D3, the "specification 1.0 draft": another protocol with the same method names.

Requests for files and terminals do not name their session, terminals push their output, permissions are granted
with a scope, and an agent may require capabilities of its client.  The tables are here; the flows of sessions,
updates, content and terminals are in the modules beside it.
"""

from ...foundation.documents import Document, Json, document, documents, number, string
from ..engine.codes import Codes
from ..engine.flows import Ask, Fault, Flow, Tell
from ..engine.shapes import MADE_UP, Fields, Pair, carried, carry, meta_of, tool_text
from ..engine.translator import MethodRow, Peer, Surroundings, Translator
from .handshake import GREETING, WELCOME
from .lending import FILES, LENT, OURS, DraftLending
from .sessions import CANCEL, DraftSessions, cancelled

CODES = Codes(
    {
        "session_not_found": -32000,
        "auth_required": -32001,
        "permission_denied": -32002,
        "cancelled": -32003,
        "resource_not_found": -32004,
        "access_denied": -32005,
        "invalid_session_state": -32006,
        "capability_not_supported": -32007,
        "rate_limited": -32008,
        "timeout": -32009,
    },
    nearest={"auth_failed": "auth_required"},
)
SUGGESTIONS: dict[Json, str] = {  # advice for each error, in the dialect's `data.suggestion`
    -32000: "Create a new session with session/new",
    -32001: "Authenticate with authenticate, then try again",
    -32002: "Ask the user for permission with session/request_permission, or do something else",
    -32004: "Check the path or the id; list what is there",
    -32005: "Use a path inside the session's working directory",
    -32008: "Wait, then try again, each time for longer",
    -32009: "Try again with a longer timeout",
}
OPERATIONS = {
    "file_read": "read",
    "file_write": "edit",
    "file_delete": "delete",
    "terminal_execute": "execute",
    "network_access": "fetch",
    "mcp_tool": "other",
}
OPERATION_OF = {
    **{kind: operation for operation, kind in OPERATIONS.items()},
    "move": "file_write",
    "search": "file_read",
}
SCOPES: dict[Json, tuple[str, str, Document]] = {
    "allow:once": ("Allow once", "allow_once", {"granted": True, "scope": "once"}),
    "allow:session": (
        "Allow for this session",
        "allow_always",
        {"granted": True, "remember": True, "scope": "session"},
    ),
    "allow:workspace": (
        "Allow in this workspace",
        "allow_always",
        {"granted": True, "remember": True, "scope": "workspace"},
    ),
    "allow:always": ("Allow always", "allow_always", {"granted": True, "remember": True, "scope": "always"}),
    "reject:once": ("Reject", "reject_once", {"granted": False}),
    "reject:always": ("Reject always", "reject_always", {"granted": False, "remember": True, "scope": "always"}),
}
UTF8 = {None, "utf-8", "utf8", "UTF-8", "UTF8", "ascii", "us-ascii"}


# Files


def _read_inward(params: Document, t: "DraftSessions") -> Json:
    _must_be_utf8(params.get("encoding"))
    session_id = params.get("sessionId") or t.session_for(params["path"])
    said = {"sessionId": session_id, "path": t.absolute(string(params["path"]), session_id), **meta_of(params)}
    start, end = params.get("startLine"), params.get("endLine")
    if start is not None:
        said["line"] = start
    if end is not None:
        said["limit"] = max(number(end) - number(start or 1) + 1, 0)
    return said


def _read_outward(params: Document, t: Translator) -> Json:
    said = {name: member for name, member in params.items() if name not in ("sessionId", "line", "limit")}
    line, limit = params.get("line"), params.get("limit")
    if line is not None or limit is not None:
        said["startLine"] = line or 1
    if limit is not None:
        said["endLine"] = number(line or 1) + number(limit) - 1
    return said


def _must_be_utf8(encoding: Json) -> None:
    if encoding not in UTF8:
        raise Fault(-32602, f"Invalid params: this client reads and writes files as UTF-8, not as {encoding}")


def _lines(text: str) -> int:
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


CONTENT = Fields(carried=["encoding", "totalLines", "truncated"])


class Draft(DraftLending):
    name = "draft"
    losses = {
        "client capabilities": "client capabilities other than files and terminals: forms, logins, notices",
        "agent capabilities": "listing, resuming, closing, forking sessions; model providers",
        "content types": "whether a prompt may contain images, sounds and embedded files",
        "auth methods": "the ways to log in",
        "repeated names": "all but the last of several variables or headers of one name",
        "servers over ACP": "MCP servers reached through the connection",
        "additional directories": "the additional directories of a session",
        "session directory": "the directory and the MCP servers of a session that is loaded",
        "system prompt": "that a system prompt is to be appended, and the parts of it that are not text",
        "mode list": "the names and descriptions of a session's modes",
        "config option definitions": "names, descriptions and choices of config options",
        "stop reasons": "refusal becomes `end_turn`, the limit of requests becomes `max_tokens`",
        "token details": "tokens of thoughts and caches, and a total that is no sum",
        "update kinds": "kinds of updates this dialect does not have",
        "content of messages": "the parts of messages and thoughts that are not text",
        "plan priorities": "the priorities of a plan's entries",
        "command hints": "the hint at a command's input",
        "tool titles": "the titles of tool calls, and changes of title, kind, input and place",
        "tool content": "all but one of several results of a tool call, and the type of a result of no known type",
        "raw output": "the raw output of a tool call",
        "locations": "all but the first location of a tool call",
        "option names": "the names of the options of a permission request",
        "tool calls of questions": "all that a permission request says about its tool call, except the resource",
        "new file": "whether a diff makes a new file or fills an empty one",
        "margins": "`_meta` of an object this dialect does not have",
        "allowed once": "that something was allowed once where an agent only offers always: it is refused",
        "cancelled questions": "that a permission request was cancelled rather than refused",
        "image address": "the address an image came from",
        "link details": "name, description and size of a link",
        "binary resources": "embedded files that are not text",
        "choice of signal": "the signal a command is to be ended with",
        "fast output": "output of a command beyond 2 MiB between two polls",
        "output streams": "which of a command's output went to stderr",
    }
    to_agent = {
        "initialize": MethodRow(GREETING, WELCOME),
        "authenticate": MethodRow(inward="authenticate_client", outward="authenticate_at_agent"),
        "session/new": MethodRow(inward="open_for_client", outward="open_at_agent"),
        "session/load": MethodRow(inward="load_for_client", outward="load_at_agent"),
        "session/prompt": MethodRow(inward="prompt_for_client", outward="prompt_at_agent"),
        "session/cancel": MethodRow(Pair(cancelled, CANCEL.outward)),
        "session/set_mode": MethodRow(inward="set_mode_for_client", outward="set_mode_at_agent"),
        "session/set_config_option": MethodRow(inward="set_option_for_client", outward="set_option_at_agent"),
        "draft/terminal_output": MethodRow(name="terminal/output", inward="take_output"),
    }
    to_client = {
        "session/request_permission": MethodRow(inward="ask_for_agent", outward="ask_client"),
        "fs/read_text_file": MethodRow(inward="read_for_agent", outward="read_at_client"),
        "fs/write_text_file": MethodRow(inward="write_for_agent", outward="write_at_client"),
        "terminal/create": MethodRow(inward="create_for_agent", outward="create_at_client"),
        "terminal/output": MethodRow(outward="output_at_client"),
        "terminal/wait_for_exit": MethodRow(inward="wait_for_agent", outward="wait_at_client"),
        "terminal/kill": MethodRow(inward="kill_for_agent", outward="kill_at_client"),
        "terminal/release": MethodRow(inward="release_for_agent", outward="release_at_client"),
        **{f"{OURS}fs/{name}": MethodRow(LENT, name=f"fs/{name}") for name in FILES},
        "mcp/message": MethodRow(name="_mcp/request", inward="mcp_for_agent", outward="mcp_at_client"),
    }

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        super().__init__(peer, surroundings)
        self.offered: Document = {}  # a client's capabilities, in the dialect's form

    def error_inward(self, error: Json) -> Json:
        return CODES.inward(error)

    def error_outward(self, error: Json) -> Json:
        said = CODES.outward(error)
        if not isinstance(said, dict) or (advice := SUGGESTIONS.get(said.get("code"))) is None:
            return said
        data = said.get("data", {})
        return {**said, "data": {"suggestion": advice, **data}} if isinstance(data, dict) else said

    # Permissions

    def ask_for_agent(self, params: Document) -> Flow:
        """Ask for an agent's operation on a resource; the answer says how long the permission lasts."""
        id = self.new_id("permission") if params.get("toolCallId") is None else params["toolCallId"]
        operation = string(params["operation"])
        call: Document = {"toolCallId": id, "kind": OPERATIONS.get(operation, "other")}
        resource = params["resource"]
        if operation.startswith("file_"):
            call["locations"] = [{"path": self.absolute(string(resource), params["sessionId"])}]
        elif operation == "terminal_execute":
            call["rawInput"] = {"command": resource}
        known, reason = self.tools.known(id), params.get("reason")
        if not known:
            call["title"] = f"{operation} {resource}"
        if reason and not known.get("content"):
            call["content"] = [{"type": "content", "content": {"type": "text", "text": reason}}]
        elif reason:  # its content is kept
            call["title"] = f"{known.get('title', resource)}: {reason}"
        options = [
            {"optionId": id, "name": name, "kind": kind, "_meta": {"scope": granted.get("scope", "once")}}
            for id, (name, kind, granted) in SCOPES.items()
        ]
        said = {"sessionId": params["sessionId"], "toolCall": call, "options": options, **meta_of(params)}
        asked = Ask("session/request_permission", carry(said, dict(params), self))
        result = document(self.told_by_us((yield asked)))
        outcome = document(result["outcome"])
        if outcome.get("_meta"):
            self.lose("margins")
        if outcome["outcome"] != "selected":
            self.lose("cancelled questions")
            return {"granted": False, **meta_of(result)}
        return {**SCOPES[outcome["optionId"]][2], **meta_of(result)}

    def ask_client(self, params: Document) -> Flow:
        """Turn our agent's options into a question that a client of the dialect grants or refuses, with a scope."""
        _, kept = carried(params, self)
        call, options = document(params["toolCall"]), documents(params["options"])
        id, known = call["toolCallId"], self.tools.note(call)
        if self.sessions[params["sessionId"]].approves and (yes := _chosen(options, {"granted": True})):
            return {"outcome": {"outcome": "selected", "optionId": yes}}
        said = kept or {
            "sessionId": params["sessionId"],
            "operation": OPERATION_OF.get(string(known.get("kind", "other")), "mcp_tool"),
            "resource": known.get("subject") or known.get("title", ""),
            "reason": tool_text(call) or known.get("title", ""),
            "toolCallId": id,
            **meta_of(params),
        }
        if any(option.get("name") != _name(option) for option in options):
            self.lose("option names")
        about = [member for name, member in call.items() if name != "toolCallId"]
        if not kept and any(member not in (None, [], {}) for member in about):
            self.lose("tool calls of questions")
        waiting: Document = {"sessionId": params["sessionId"], "type": "tool_call_update"}
        waiting["data"] = {"id": id, "status": "awaiting_permission"}
        if known.get("status") == "pending" and not kept:
            yield Tell({"method": "session/update", "params": waiting}, to_peer=True)
        self.asked.add(id)
        answer = yield Ask("session/request_permission", said, to_peer=True)
        self.asked.discard(id)
        result = document(self.told_by_peer(answer))
        option = _chosen(options, result)
        if result.get("granted") is not True:
            self.denied[id] = True
        elif option is None:  # allowing it always would be more than was granted
            self.lose("allowed once")
            option = _chosen(options, {"granted": False})
            if option is None:
                raise Fault(-32603, "it was allowed once, and the agent offers no such choice")
        outcome = {"outcome": "cancelled"} if option is None else {"outcome": "selected", "optionId": option}
        return {"outcome": outcome, **meta_of(result)}

    # Files

    def read_for_agent(self, params: Document) -> Flow:
        if self.lends("fs/read_text_file"):
            return (yield from self.read_at_host(params))
        answer = yield Ask("fs/read_text_file", _read_inward(params, self))
        result, kept = carried(document(self.told_by_us(answer)), self)
        said = {"content": result["content"], "encoding": "utf-8", **meta_of(result)}
        if params.get("startLine") is None and params.get("endLine") is None:
            said["totalLines"] = _lines(string(said["content"]))
        return {**said, **kept}

    def read_at_client(self, params: Document) -> Flow:
        asked = Ask("fs/read_text_file", _read_outward(params, self), to_peer=True)
        return CONTENT.inward(self.told_by_peer((yield asked)), self)

    def write_for_agent(self, params: Document) -> Flow:
        """Write a file for an agent; check first whether it exists, since the answer says so."""
        if self.lends("fs/write_text_file"):
            return (yield from self.write_at_host(params))
        _must_be_utf8(params.get("encoding"))
        session_id = params.get("sessionId") or self.session_for(params["path"])
        place = {"sessionId": session_id, "path": self.absolute(string(params["path"]), session_id)}
        is_there = True
        if document(self.client_offers.get("fs") or {}).get("readTextFile"):
            answer = yield Ask("fs/read_text_file", {**place, "line": 1, "limit": 1})
            is_there = "result" in document(answer)
        elif params.get("overwrite") is False:
            raise Fault(-32601, "cannot tell whether the file exists", {"kind": "capability_not_supported"})
        if is_there and params.get("overwrite") is False:
            raise Fault(-32602, f"Invalid params: {place['path']} exists and is not to be overwritten")
        named = ("encoding", "createDirectories", "overwrite")
        extras: Document = {name: params[name] for name in named if name in params}
        said = {**place, "content": params["content"], **meta_of(params)}
        asked = Ask("fs/write_text_file", carry(said, {**extras, MADE_UP: ["sessionId"]}, self))
        result, kept = carried(document(self.told_by_us((yield asked)) or {}), self)
        size = len(string(params["content"]).encode(errors="replace"))
        return {"bytesWritten": size, "created": not is_there, **meta_of(result), **kept}

    def write_at_client(self, params: Document) -> Flow:
        params, kept = carried(params, self)
        said = {name: member for name, member in params.items() if name != "sessionId"}
        if kept.pop(MADE_UP, None) is None:
            kept = {"createDirectories": True, "overwrite": True}
        asked = Ask("fs/write_text_file", {**said, **kept}, to_peer=True)
        result = document(self.told_by_peer((yield asked)) or {})
        kept = {name: member for name, member in result.items() if name != "_meta"}
        return carry(meta_of(result), kept, self)

    # MCP servers reached through the connection

    def mcp_for_agent(self, params: Document) -> Flow:
        said = {
            "serverId": self.servers.get(params["serverName"], params["serverName"]),
            "requestId": self.new_id("mcp"),
            "method": params["mcpMethod"],
            "params": params.get("mcpParams") or {},
        }
        carrier = document(self.told_by_us((yield Ask("mcp/message", said))))
        if "result" not in carrier and "error" in carrier:
            raise Fault.of(carrier["error"])
        return carrier.get("result")

    def mcp_at_client(self, params: Document) -> Flow:
        names = {id: name for name, id in self.servers.items()}
        said = {
            "serverName": names.get(params["serverId"], params["serverId"]),
            "mcpMethod": params["method"],
            "mcpParams": params.get("params") or {},
        }
        answer = document((yield Ask("_mcp/request", said, to_peer=True)))
        return {name: answer[name] for name in ("result", "error") if name in answer}


def _name(option: Document) -> str | None:
    """The scope that an option means to an agent of the dialect; None for an option of another kind."""
    return SCOPES[option["optionId"]][0] if option.get("optionId") in SCOPES else None


def _chosen(options: list[Document], result: Document) -> Json:
    """The option nearest to what was granted or refused; never one that allows more than was granted."""
    stays = bool(result.get("remember")) or result.get("scope") in ("session", "workspace", "always")
    first, second = ("always", "once") if stays else ("once", "always")
    verb = "allow" if result.get("granted") is True else "reject"
    if verb == "allow" and not stays:
        second = "once"  # a permission for once must not become one for ever
    kinds = {option["kind"]: option["optionId"] for option in reversed(options)}
    return kinds.get(f"{verb}_{first}", kinds.get(f"{verb}_{second}"))
