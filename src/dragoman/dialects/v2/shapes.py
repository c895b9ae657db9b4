"""The types of version 2 in version 1: content, tools, options, servers, logins, commands."""

from collections.abc import Collection

from ...foundation.documents import Json, document, documents, elements, members, string
from ..engine.flows import Message
from ..engine.shapes import Fields, Items, Pair, Shape, ValuePair, Variants, Words, carried, carry
from ..engine.translator import Translator
from .patches import FileTexts, make_patch, read_patch

MODE_OPTION = "dragoman:mode"  # the config option that represents the modes of version 1
PLAN = "dragoman:plan"  # the id of the plan that version 1 sends without an id


class Open(Words):
    """Words of an enumeration that may grow; one unknown to version 1 becomes the nearest, and is carried."""

    def __init__(self, known: Collection[str], otherwise: str, nearest: dict[str, str] | None = None) -> None:
        super().__init__({})
        self._known, self._otherwise, self._near = frozenset(known), otherwise, nearest or {}

    def inward(self, value: Json, t: Translator) -> Json:
        if not isinstance(value, str) or value in self._known:
            return value
        return self._near.get(value, self._otherwise)


def keep(value: Message, t: Translator, **more: Json) -> Message:
    """Add a value to those carried in `_meta`."""
    plain, kept = carried(value, t)
    return carry(plain, {**kept, **more}, t)


# ── content ───────────────────────────────────────────────────────────────────────────────────────

BLOCK = Variants("type", {"resource_link": Fields(carried=("icons",))})
BLOCKS = Items(BLOCK)


# ── tool calls ────────────────────────────────────────────────────────────────────────────────────

KIND = Open(
    ("read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"), "other"
)
STATUS = Open(
    ("pending", "in_progress", "completed", "failed"),
    "in_progress",
    {"paused": "in_progress", "cancelled": "failed"},
)
_ANYTHING = ("rawInput", "rawOutput")  # null is a value here
# the value that null stands for
CLEARED = {"title": "", "kind": "other", "status": "pending", "content": [], "locations": []}


def _diff_outward(diff: Message, t: Translator) -> Message:
    path, old, new = string(diff["path"]), diff.get("oldText"), string(diff["newText"])
    old = None if old is None else string(old)
    operation = "modify" if isinstance(old, str) else "add"
    said = {name: member for name, member in diff.items() if name not in ("path", "oldText", "newText")}
    change = {"operation": operation, "path": path, "fileType": "text"}
    return {**said, "changes": [change], "patch": {"format": "git_patch", "text": make_patch(path, old, new)}}


def diff_inward(diff: Message, t: Translator) -> list[Message]:
    """A diff of version 2 as a diff of version 1 for each file, or as a sentence if it shows no text."""
    found: list[Message] = []
    for change, shown in _shown(diff):
        if shown is None:
            t.lose("diff without text")
            words = f"{change.get('operation')} {change.get('oldPath', '')} {change.get('path', '')}"
            found.append({"type": "content", "content": {"type": "text", "text": " ".join(words.split())}})
        else:
            before = {} if shown.old is None else {"oldText": shown.old}
            found.append({"type": "diff", "path": change["path"], **before, "newText": shown.new or ""})
    if len(found) == 1 and found[0]["type"] == "diff":
        again = {**found[0], "_meta": diff["_meta"]} if "_meta" in diff else found[0]
        if _diff_outward(again, t) == diff:
            return [again]
    return parts(diff, found, t)


def _shown(diff: Message) -> list[tuple[Message, FileTexts | None]]:
    """The changes of a diff, each with the texts that its patch shows."""
    patch, changes = members(diff.get("patch")), documents(diff["changes"])
    texts = read_patch(string(patch["text"])) if patch.get("format") == "git_patch" else []
    if len(texts) == len(changes) == 1 and "path" in changes[0]:
        return [(changes[0], texts[0])]
    by_name = {shown.path.lstrip("/"): shown for shown in texts}
    return [(change, by_name.get(str(change.get("path", "")).lstrip("/"))) for change in changes]


def parts(item: Message, found: list[Message], t: Translator) -> list[Message]:
    """Mark the items made from one item: the first carries the item, the others a note that they belong to it."""
    found = found or [{"type": "content", "content": {"type": "text", "text": ""}}]
    return [carry(found[0], {"item": item}, t), *(carry(part, {"part": True}, t) for part in found[1:])]


CONTENT_ITEM = Variants(
    "type", {"content": Fields(shapes={"content": BLOCK}), "diff": Pair(diff_inward, _diff_outward)}
)


def contents_outward(value: Json, t: Translator) -> Json:
    """The content of a tool call, with the carried items in place of those made from them."""
    if not isinstance(value, list):
        return value
    said = []
    for item in value:
        plain, kept = carried(item, t) if isinstance(item, dict) else (item, {})
        if "item" in kept:
            said.append(kept["item"])
        elif not kept.get("part"):
            said.append(CONTENT_ITEM.outward(item if kept else plain, t))
    return said


TOOL = Fields(
    shapes={"kind": KIND, "status": STATUS, "content": ValuePair(lambda value, t: value, contents_outward)},
    carried=("capabilities",),
)


def tool_inward(call: Message, t: Translator) -> Message:
    """A tool call of version 2 and its content; a null becomes the value to which it resets the field."""
    nulls = [name for name in (*CLEARED, "name", "_meta") if name in call and call[name] is None]
    plain = {**call, **{name: CLEARED[name] for name in nulls if name in CLEARED}}
    if "name" in nulls:
        t.lose("tool name cleared")
        del plain["name"]
    found: Message = TOOL.inward(plain, t)
    return keep(found, t, null=nulls) if nulls else found


def tool_outward(call: Message, t: Translator) -> Message:
    """A tool call of version 1, where null means no change."""
    plain, kept = carried(call, t)
    nulls = [string(name) for name in elements(kept.pop("null", []))]
    if nulls:
        call = carry(plain, kept, t) if kept else plain
    told = {name: member for name, member in call.items() if member is not None or name in _ANYTHING}
    said: Message = TOOL.outward(told, t)
    return {**said, **dict.fromkeys(nulls)}


# ── options, commands, logins, servers, plans ─────────────────────────────────────────────────────

_GROUP = Fields({"groupId": "group"})
OPTION = Fields({"configId": "id"}, {"options": Items(_GROUP)})
OPTIONS = Items(OPTION)


def _untyped(value: Message) -> Message:
    return {name: member for name, member in value.items() if name != "type"}


_INPUT = ValuePair(
    lambda value, t: _untyped(document(value)) if value else value,
    lambda value, t: {"type": "text", **document(value)} if value else value,
)


def _command_inward(command: Message, t: Translator) -> Message:
    inputs = document(command.get("input") or {})
    if command.get("type", "command") != "command" or inputs.get("type", "text") != "text":
        plain = {name: command[name] for name in ("name", "description")}
        return carry(plain, {"item": command}, t)
    said = _untyped(command)
    return {**said, "input": _INPUT.inward(inputs, t)} if inputs else said


def _command_outward(command: Message, t: Translator) -> Message:
    _, kept = carried(command, t)
    if "item" in kept:
        return dict(document(kept["item"]))
    said = {"type": "command", **command}
    if command.get("input"):
        said["input"] = _INPUT.outward(command["input"], t)
    return said


COMMANDS = Items(Pair(_command_inward, _command_outward))


def _login_inward(method: Message, t: Translator) -> Message:
    said = {("id" if name == "methodId" else name): member for name, member in method.items()}
    if said.get("type") == "agent":
        del said["type"]
    if isinstance(variables := said.get("env"), list):
        said["env"] = {string(variable["name"]): variable["value"] for variable in documents(variables)}
    return said


def _login_outward(method: Message, t: Translator) -> Message:
    said = {("methodId" if name == "id" else name): member for name, member in method.items()}
    if isinstance(variables := said.get("env"), dict):
        said["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    return {"type": "agent", **said}


LOGINS = Items(Pair(_login_inward, _login_outward))


def _server_inward(server: Message, t: Translator) -> Message:
    match server.get("type"):
        case "stdio":
            return {"args": [], "env": [], **_untyped(server)}
        case "http":
            return {"headers": [], **server}
    return server


def _server_outward(server: Message, t: Translator) -> Message:
    if server.get("type") == "sse":
        t.lose("sse server")
    return server if "type" in server else {"type": "stdio", **server}


SERVERS = Items(Pair(_server_inward, _server_outward))

PRIORITY = Open(("high", "medium", "low"), "medium")
PROGRESS = Open(("pending", "in_progress", "completed"), "pending", {"cancelled": "completed"})
ENTRIES = Items(Fields(shapes={"priority": PRIORITY, "status": PROGRESS}))
PLAN_CONTENT = Variants("type", {"items": Fields(shapes={"entries": ENTRIES})})

STATE: Shape = Fields(carried=("background",))
OPENING = Fields(shapes={"mcpServers": SERVERS})
PROMPT = Fields(shapes={"prompt": BLOCKS})

# The required fields of each type of content; unknown types are left to the agent.
_NEEDED = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}


def fault_of(blocks: Json) -> str | None:
    """The fault in a prompt's content; checked here, since a prompt is accepted before our agent reads it."""
    if not isinstance(blocks, list) or not blocks:
        return "an empty prompt" if blocks == [] else "the prompt is not an array"
    for at, block in enumerate(blocks):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return f"prompt[{at}] has no type"
        for name in _NEEDED.get(block["type"], ()):
            if not isinstance(block.get(name), str):
                return f"prompt[{at}] has no {name}"
        if block["type"] == "resource" and not _is_resource(block.get("resource")):
            return f"prompt[{at}] has no resource with a uri and its text or blob"
    return None


def _is_resource(resource: Json) -> bool:
    if not isinstance(resource, dict) or not isinstance(resource.get("uri"), str):
        return False
    return isinstance(resource.get("text"), str) or isinstance(resource.get("blob"), str)
