"""What both sides can do, in version 1 and in version 2.

Capabilities of version 1 that version 2 has no word for ride along whole in `_meta`: where both ends are of our
kind, nothing is lost.
"""

from .shapes import CARRIED
from .translator import Message

UNKNOWN = {"name": "unknown", "version": "unknown"}
_MARKED = ("delete", "additionalDirectories", "systemPrompt", "fork", "archive", "status", "title")
_PROMPT = ("image", "audio", "embeddedContext")


def client_outward(offers: Message) -> Message:
    """What a client of version 1 can do, for an agent of version 2."""
    said: Message = {"_meta": {CARRIED: {"v1": offers}}}
    if (offers.get("auth") or {}).get("terminal"):
        said["auth"] = {"terminal": {}}
    if offers.get("elicitation"):
        said["elicitation"] = offers["elicitation"]
    return said


def client_inward(offers: Message) -> Message:
    """What a client of version 2 can do, for an agent of version 1: all updates, no files, no terminals."""
    whole = _whole(offers)
    if whole is not None:
        return whole
    said: Message = {
        "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
        "plan": {},
        "subagents": {},
    }
    if isinstance((offers.get("auth") or {}).get("terminal"), dict):
        said["auth"] = {"terminal": True}
    if isinstance(offers.get("elicitation"), dict):
        said["elicitation"] = offers["elicitation"]
    return _with_meta(said, offers)


def agent_outward(offers: Message) -> Message:
    """What an agent of version 1 can do, for a client of version 2."""
    marks = offers.get("sessionCapabilities") or {}
    session: Message = {name: marks[name] for name in _MARKED if isinstance(marks.get(name), dict)}
    prompt = offers.get("promptCapabilities") or {}
    session["prompt"] = {name: {} for name in _PROMPT if prompt.get(name)}
    mcp = offers.get("mcpCapabilities") or {}
    session["mcp"] = {"stdio": {}, **{name: {} for name in ("http", "acp") if mcp.get(name)}}
    said: Message = {"session": session, "_meta": {CARRIED: {"v1": offers}}}
    if isinstance((offers.get("auth") or {}).get("status"), dict):
        said["auth"] = {"status": offers["auth"]["status"]}
    if isinstance(offers.get("providers"), dict):
        said["providers"] = offers["providers"]
    return said


def agent_inward(offers: Message, has_logins: bool) -> Message:
    """What an agent of version 2 can do, for a client of version 1."""
    whole = _whole(offers)
    if whole is not None:
        return whole
    session = offers.get("session")
    said: Message = {"auth": {"logout": {}} if has_logins else {}}
    if isinstance(session, dict):
        marks = {name: session[name] for name in _MARKED if isinstance(session.get(name), dict)}
        prompt, mcp = session.get("prompt") or {}, session.get("mcp") or {}
        said |= {
            "loadSession": True,
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, **marks},
            "promptCapabilities": {name: True for name in _PROMPT if isinstance(prompt.get(name), dict)},
            "mcpCapabilities": {name: True for name in ("http", "acp") if isinstance(mcp.get(name), dict)},
        }
    if isinstance((offers.get("auth") or {}).get("status"), dict):
        said["auth"]["status"] = offers["auth"]["status"]
    if isinstance(offers.get("providers"), dict):
        said["providers"] = offers["providers"]
    return _with_meta(said, offers)


def _whole(offers: Message) -> Message | None:
    meta = offers.get("_meta")
    ours = meta.get(CARRIED) if isinstance(meta, dict) else None
    whole = ours.get("v1") if isinstance(ours, dict) else None
    return whole if isinstance(whole, dict) else None


def _with_meta(said: Message, offers: Message) -> Message:
    return {**said, "_meta": offers["_meta"]} if isinstance(offers.get("_meta"), dict) else said
