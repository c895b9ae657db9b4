"""Forms that version 1 once had, or never had, and that peers still use: read here, and written where needed.

Models were a list before they became a config option; permission options had no ids, results could be null, mode
updates had another name, MCP over ACP had connections, and proxies were an extension.
"""

from ..foundation.documents import Document, Json, document, documents, elements
from .engine.flows import Ask, Fault, Flow
from .engine.memory import Remembering
from .engine.shapes import MADE_UP, Empty, Fields, Items, NamedValues, Pair, Shape, ValuePair, carried, carry
from .engine.translator import MethodRow, Peer, Remembered, Surroundings, Translator

MODEL = "model"  # the id of the config option that stands for the list of models


# Results


class Nullable(Empty):
    """A result that may be null when it is read; it is written in the form of version 1."""

    def outward(self, value: Json, t: Translator) -> Json:
        return value


NULLABLE = Nullable()


def _models_inward(answer: Json, t: Translator) -> Json:
    result = document({} if answer is None else answer)
    models = result.get("models")
    if not isinstance(models, dict):
        return result
    said = {name: member for name, member in result.items() if name != "models"}
    options = documents(said.get("configOptions") or [])
    if any(option.get("category") == "model" for option in options):
        return carry(said, {"models": models}, t)
    said["configOptions"] = [*options, _model_option(models)]
    kept: Document = {"models": models, MADE_UP: [] if "configOptions" in result else ["configOptions"]}
    return carry(said, kept, t)


def _model_option(models: Document) -> Document:
    choices = [
        {"value": model["modelId"], **{name: member for name, member in model.items() if name != "modelId"}}
        for model in documents(models["availableModels"])
    ]
    return {
        "id": MODEL,
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": models["currentModelId"],
        "options": choices,
    }


def _models_outward(answer: Json, t: Translator) -> Json:
    result, kept = carried(document(answer), t)
    made_up = elements(kept.pop(MADE_UP, []))
    said = {name: member for name, member in result.items() if name not in made_up}
    options = documents(result.get("configOptions") or [])
    option = next((option for option in options if option.get("category") == "model"), None)
    if "models" in kept or option is None or option.get("type") != "select":
        return {**said, **kept}
    models = [
        {"modelId": choice["value"], **{name: member for name, member in choice.items() if name != "value"}}
        for choice in _choices(option["options"])
    ]
    return {**said, "models": {"currentModelId": option["currentValue"], "availableModels": models}}


def _choices(options: Json) -> list[Document]:
    """The choices of an option, whether or not they are in groups."""
    return [
        choice
        for entry in documents(options)
        for choice in (_choices(entry["options"]) if "options" in entry else [entry])
    ]


OPENED = ValuePair(_models_inward, _models_outward)


# Sessions


def _server_inward(server: Document, t: Translator) -> Json:
    if server.get("type") == "acp" and "serverId" not in server:
        return Fields({"id": "serverId"}).inward(server, t)
    return SERVER.inward(server, t)


def _server_outward(server: Document, t: Translator) -> Json:
    said = SERVER.outward(server, t)
    # Before servers had a type, a server was a command.
    return {name: member for name, member in said.items() if (name, member) != ("type", "stdio")}


class ListShape(NamedValues):
    """Pairs of a name and a value, which may be read from one object; written in the form of version 1."""

    def outward(self, value: Json, t: Translator) -> Json:
        return value


SERVER = Fields(shapes={"env": ListShape(""), "headers": ListShape("")})
SERVERS = Items(Pair(_server_inward, _server_outward))
OPENING = Fields(shapes={"mcpServers": SERVERS}, given={"mcpServers": lambda params, t: []})


def _terminal_inward(value: Json, t: Translator) -> Json:
    """A client that lists its terminal methods one by one offers terminals if it lists all as true."""
    return all(flag is not False for flag in value.values()) if isinstance(value, dict) else value


GREETING = Fields(
    shapes={"clientCapabilities": Fields(shapes={"terminal": ValuePair(_terminal_inward, lambda v, t: v)})}
)


# Questions


def _choices_inward(given: Json, t: Translator) -> Json:
    options = documents(given)
    taken = [option["optionId"] for option in options if "optionId" in option]
    said: list[Document] = []
    for option in options:
        if "optionId" in option:
            said.append(option)
            continue
        wanted = id = str(option["kind"])
        while id in taken:
            id = f"{wanted}-{taken.count(id) + len(taken)}"
        taken.append(id)
        said.append(carry({**option, "optionId": id}, {MADE_UP: ["optionId"]}, t))
    return said


QUESTION = Fields(shapes={"options": ValuePair(_choices_inward, Items(Fields()).outward)})


# Updates


def update_inward(update: Document, t: Translator) -> Json:
    if update.get("sessionUpdate") == "tool_result":
        return carry({**update, "sessionUpdate": "tool_call_update"}, {"sessionUpdate": "tool_result"}, t)
    if (
        update.get("sessionUpdate") == "current_mode_update"
        and "modeId" in update
        and "currentModeId" not in update
    ):
        rest = {name: member for name, member in update.items() if name != "modeId"}
        return carry({**rest, "currentModeId": update["modeId"]}, {"modeId": update["modeId"]}, t)
    return update


def update_outward(update: Document, t: Translator) -> Json:
    update, kept = carried(update, t)
    if "modeId" in kept:
        update = {name: member for name, member in update.items() if name != "currentModeId"}
    return {**update, **kept} if kept else update


UPDATE: Shape = Fields(shapes={"update": Pair(update_inward, update_outward)})


class Legacy(Remembering):
    name = "legacy"
    to_agent = {
        "initialize": MethodRow(GREETING, NULLABLE),
        "authenticate": MethodRow(result=NULLABLE),
        "logout": MethodRow(result=NULLABLE),
        "session/new": MethodRow(OPENING, OPENED),
        "session/load": MethodRow(OPENING, OPENED),
        "session/resume": MethodRow(OPENING, OPENED),
        "session/fork": MethodRow(OPENING, OPENED),
        "session/close": MethodRow(result=NULLABLE),
        "session/delete": MethodRow(result=NULLABLE),
        "session/list": MethodRow(
            result=ValuePair(lambda result, t: result or {"sessions": []}, lambda result, t: result)
        ),
        "session/set_mode": MethodRow(result=NULLABLE),
        "session/set_model": MethodRow(inward="set_model"),
        "session/set_config_option": MethodRow(outward="set_option"),
        "proxy/initialize": MethodRow(name="_proxy/initialize"),
        "proxy/successor": MethodRow(name="_proxy/successor"),
    }
    to_client = {
        "session/update": MethodRow(UPDATE),
        "session/request_permission": MethodRow(QUESTION),
        "fs/write_text_file": MethodRow(result=NULLABLE),
        "terminal/kill": MethodRow(result=NULLABLE),
        "terminal/release": MethodRow(result=NULLABLE),
        "mcp/connect": MethodRow(inward="connect_server"),
        "mcp/disconnect": MethodRow(inward="disconnect_server"),
        "mcp/message": MethodRow(inward="message_for_agent", outward="message_at_client"),
        "proxy/successor": MethodRow(name="_proxy/successor"),
    }

    def __init__(self, peer: Peer, surroundings: Surroundings | None = None) -> None:
        super().__init__(peer, surroundings)
        # Connections of MCP over ACP: for an agent, connection to server; for a client, server to connection.
        self._connections: dict[Json, Json] = Remembered()

    # Models

    def set_model(self, params: Document) -> Flow:
        """Set a model for a client; the model is a config option now."""
        options = self.sessions[params["sessionId"]].options
        option = next((option for option in options if option.get("category") == "model"), None)
        if option is None:
            raise Fault(-32601, "this session has no choice of models")
        said = {"sessionId": params["sessionId"], "configId": option["id"], "value": params["modelId"]}
        self.passed("session/set_config_option", said, self.told_by_us((yield self._set(said))))
        return {}

    def _set(self, said: Json, to_peer: bool = False) -> Ask:
        return Ask("session/set_config_option", said, to_peer)

    def set_option(self, params: Document) -> Flow:
        """Set an option of an agent; the model is set by the old method."""
        session = self.sessions[params["sessionId"]]
        if params["configId"] != MODEL or not session.has_made_up_model:
            result = self.told_by_peer((yield self._set(params, to_peer=True)))
            return result or {"configOptions": session.options}
        said = {"sessionId": params["sessionId"], "modelId": params["value"]}
        self.told_by_peer((yield Ask("session/set_model", said, to_peer=True)))
        session.set_value(MODEL, params["value"])
        return {"configOptions": session.options}

    def passed(self, method: str, params: Json, result: Json) -> None:
        super().passed(method, params, result)
        if method in ("session/new", "session/load", "session/resume", "session/fork"):
            _, kept = carried(opened := document(result), self)
            session = self.sessions[opened.get("sessionId") or document(params).get("sessionId")]
            session.has_made_up_model = MADE_UP in kept

    # MCP over ACP, which no longer has connections

    def connect_server(self, params: Document) -> Flow:
        id = self.new_id("connection")
        self._connections[id] = params.get("serverId") or params["acpId"]
        return {"connectionId": id}
        yield  # an empty yield makes this a flow, though it waits for nothing

    def disconnect_server(self, params: Document) -> Flow:
        self._connections.pop(params["connectionId"], None)
        return {}
        yield

    def message_for_agent(self, params: Document) -> Flow:
        """Pass a message of an agent to a server; the agent expects the bare result."""
        if "connectionId" not in params:
            return self.told_by_us((yield Ask("mcp/message", params)))
        if (server := self._connections.get(params["connectionId"])) is None:
            raise Fault(-33001, "MCP server unavailable")
        rest = {name: member for name, member in params.items() if name != "connectionId"}
        said = {**rest, "serverId": server, "requestId": self.new_id("request")}
        carrier = document(self.told_by_us((yield Ask("mcp/message", said))))
        if "result" not in carrier and "error" in carrier:
            raise Fault.of(carrier["error"])
        return carrier.get("result")

    def message_at_client(self, params: Document) -> Flow:
        """Pass a message of our agent to a server of a client that uses connections."""
        if "serverId" not in params:
            return self.told_by_peer((yield Ask("mcp/message", params, to_peer=True)))
        server = params["serverId"]
        if server not in self._connections:
            asked = Ask("mcp/connect", {"serverId": server}, to_peer=True)
            self._connections[server] = document(self.told_by_peer((yield asked)))["connectionId"]
        rest = {name: member for name, member in params.items() if name not in ("serverId", "requestId")}
        said = {"connectionId": self._connections[server], **rest}
        answer = document((yield Ask("mcp/message", said, to_peer=True)))
        return {name: answer[name] for name in ("result", "error") if name in answer}
