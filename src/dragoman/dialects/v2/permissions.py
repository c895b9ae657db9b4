"""Permission requests: about a tool call in version 1, about any subject in version 2."""

from typing import TYPE_CHECKING

from ...foundation.documents import Document, Json, document, documents
from ..engine.flows import Fault, Message
from ..engine.shapes import Pair, ValuePair, carried, carry
from ..engine.translator import Translator
from .session_state import SessionState
from .shapes import tool_outward

if TYPE_CHECKING:
    from .turns import PromptCalls

_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
CANCELLED: Message = {"outcome": {"outcome": "cancelled"}}


def permission_outward(params: Message, session: SessionState, t: Translator) -> Message:
    """A permission request of version 1, for a client of version 2."""
    plain, kept = carried(params, t)
    if "asked" in kept:
        return dict(document(kept["asked"]))
    call = document(plain["toolCall"])
    title = call.get("title") or session.titles.get(call["toolCallId"]) or "May this be done?"
    said = {name: member for name, member in plain.items() if name != "toolCall"}
    return {**said, "title": title, "subject": {"type": "tool_call", "toolCall": tool_outward(call, t)}}


def _permission_inward(params: Message, t: "PromptCalls") -> Message:
    """A permission request of version 2 as one about a tool call, without options of kinds unknown to version 1."""
    subject = document(params.get("subject") or {})
    match subject.get("type"):
        case "tool_call":
            call = t.shown_tool(params["sessionId"], document(subject["toolCall"]))
            call = call if call.get("title") else {**call, "title": params["title"]}
        case "command":
            id = subject.get("toolCallId") or t.new_id("question")
            about = {"command": subject["command"], "cwd": subject["cwd"]}
            call = {"toolCallId": id, "title": params["title"], "kind": "execute", "rawInput": about}
        case _:
            call = {"toolCallId": t.new_id("question"), "title": params["title"]}
    given = documents(params["options"])
    options = [option for option in given if option.get("kind") in _KINDS]
    if len(options) < len(given):
        t.lose("permission option")
    said = {"sessionId": params["sessionId"], "toolCall": call, "options": options}
    if "_meta" in params:
        said["_meta"] = params["_meta"]
    return carry(said, {"asked": params}, t)


def _outcome_inward(answer: Json, t: Translator) -> Message:
    """The outcome in version 1; an unknown outcome allows nothing."""
    result = document(answer)
    if document(result["outcome"]).get("outcome") in ("selected", "cancelled"):
        return result
    t.lose("permission outcome")
    return {**result, **CANCELLED}


def _elicitation_outward(params: Message, t: "PromptCalls") -> Message:
    params = _of_our_request(params, t)
    form = params.get("requestedSchema")
    return {**params, "requestedSchema": {"type": "object", "properties": {}, **document(form)}} if form else params


def _of_our_request(params: Message, t: "PromptCalls") -> Message:
    """A question about a request, with the id that this request has at the other side."""
    return {**params, "requestId": t.id_of(params["requestId"])} if "requestId" in params else params


def _outcome_outward(result: Json, t: Translator) -> Json:
    """The outcome in version 2; raises ValueError for a value that is not an outcome of version 1."""
    outcome = result.get("outcome") if isinstance(result, dict) else None
    match outcome:
        case {"outcome": "cancelled"} | {"outcome": "selected", "optionId": str()}:
            return result
    raise Fault(-32603, "the answer to a permission request cannot be understood")


def _unasked(value: Document, t: Translator) -> Json:
    raise Fault(-32603, "permission requests are translated by a flow")


PERMISSION = Pair(_permission_inward, _unasked)  # outward it needs its session, so a flow translates it
OUTCOME = ValuePair(_outcome_inward, _outcome_outward)
ELICITATION = Pair(_of_our_request, _elicitation_outward)
