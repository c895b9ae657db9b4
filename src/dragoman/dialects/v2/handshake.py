"""The capabilities of both sides, in version 1 and in version 2.

The capabilities of version 1 travel whole in `_meta` of those of version 2, so that nothing is lost between two
ends that translate as we do.
"""

from ...foundation.documents import members
from ..engine.flows import Message
from ..engine.shapes import CARRIED

UNKNOWN: Message = {"name": "unknown", "version": "unknown"}
_MARKED = ("delete", "additionalDirectories", "systemPrompt", "fork", "archive", "status", "title")
_PROMPT = ("image", "audio", "embeddedContext")
_MCP = ("stdio", "http", "acp")


def offered(offers: Message, *path: str) -> bool:
    """Whether a capability is offered: as an object, or as true where version 1 has a boolean."""
    value: object = offers
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value is True or isinstance(value, dict)


def is_version_2_answer(result: Message) -> bool:
    """Whether an answer to `initialize` is one of version 2; some agents of version 1 repeat any version number."""
    version = result.get("protocolVersion")
    is_later = isinstance(version, int | float) and version >= 2
    return is_later and isinstance(result.get("info"), dict) and "agentCapabilities" not in result


def with_mark(offers: Message) -> Message:
    """The capabilities of a client, marked as those of a client of version 2."""
    meta = offers.get("_meta")
    return {**offers, "_meta": {**(meta if isinstance(meta, dict) else {}), CARRIED: {"v2": {}}}}


def original(value: Message) -> Message | None:
    """The value in version 1, if a peer that translates as we do sent it along."""
    meta = value.get("_meta")
    ours = meta.get(CARRIED) if isinstance(meta, dict) else None
    whole = ours.get("v1") if isinstance(ours, dict) else None
    return whole if isinstance(whole, dict) else None


def with_original(value: Message, whole: Message) -> Message:
    """A value of version 2 with the value of version 1 in its `_meta`."""
    meta = value.get("_meta")
    return {**value, "_meta": {**(meta if isinstance(meta, dict) else {}), CARRIED: {"v1": whole}}}


def info_of(value: object) -> Message:
    """The name and version of a peer; "unknown" if they cannot be read."""
    info = members(value)
    return info if all(isinstance(info.get(name), str) for name in UNKNOWN) else UNKNOWN


def client_outward(offers: Message) -> Message:
    """The capabilities of a client of version 1, for an agent of version 2."""
    said = with_original({}, offers)
    if offered(offers, "auth", "terminal"):
        said["auth"] = {"terminal": {}}
    if offered(offers, "elicitation"):
        said["elicitation"] = offers["elicitation"]
    return said


def client_inward(offers: Message) -> Message:
    """The capabilities of a client of version 2, for an agent of version 1: all updates, no files, no terminals."""
    whole = original(offers)
    if whole is not None:
        return whole
    said: Message = {
        "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
        "plan": {},
        "subagents": {},
    }
    if offered(offers, "auth", "terminal"):
        said["auth"] = {"terminal": True}
    if offered(offers, "elicitation"):
        said["elicitation"] = offers["elicitation"]
    return with_mark(_with_meta(said, offers))


def agent_outward(offers: Message) -> Message:
    """The capabilities of an agent of version 1, for a client of version 2."""
    marks = "sessionCapabilities"
    marked = members(offers.get(marks))
    session: Message = {name: marked[name] for name in _MARKED if offered(offers, marks, name)}
    session["prompt"] = {name: {} for name in _PROMPT if offered(offers, "promptCapabilities", name)}
    session["mcp"] = {name: {} for name in _MCP if name == "stdio" or offered(offers, "mcpCapabilities", name)}
    said: Message = {"session": session}
    if offered(offers, "auth", "status"):
        said["auth"] = {"status": members(offers["auth"])["status"]}
    if offered(offers, "providers"):
        said["providers"] = offers["providers"]
    return with_original(said, offers)


def agent_inward(offers: Message, has_logins: bool) -> Message:
    """The capabilities of an agent of version 2, for a client of version 1."""
    whole = original(offers)
    if whole is not None:
        return whole
    auth: Message = {"logout": {}} if has_logins else {}
    said: Message = {"auth": auth}
    if offered(offers, "session"):
        session = members(offers["session"])
        marks: Message = {name: session[name] for name in _MARKED if offered(offers, "session", name)}
        said |= {
            "loadSession": True,
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, **marks},
            "promptCapabilities": {name: True for name in _PROMPT if offered(offers, "session", "prompt", name)},
            "mcpCapabilities": {name: True for name in _MCP[1:] if offered(offers, "session", "mcp", name)},
        }
    if offered(offers, "auth", "status"):
        auth["status"] = members(offers["auth"])["status"]
    if offered(offers, "providers"):
        said["providers"] = offers["providers"]
    return _with_meta(said, offers)


def _with_meta(said: Message, offers: Message) -> Message:
    return {**said, "_meta": offers["_meta"]} if isinstance(offers.get("_meta"), dict) else said
