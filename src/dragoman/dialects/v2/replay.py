"""A history that is sent again to a client of version 2, which may have it already.

Such a client keeps content by id.  So each item that is sent in pieces is emptied before its first piece; otherwise
the pieces would be appended to those that the client has.
"""

from ...foundation.documents import string
from ..engine.flows import Message
from .session_state import SessionState
from .updates import SPEAKERS

# Items sent in pieces: the field with the id, the update that empties the item, and its empty content.
_EMPTYING: dict[str, tuple[str, str, Message]] = {
    **{f"{kind}_chunk": ("messageId", kind, {"content": []}) for kind in SPEAKERS.values()},
    "tool_call_content_chunk": ("toolCallId", "tool_call_update", {"content": []}),
    "terminal_output_chunk": ("terminalId", "terminal_update", {"output": None}),
    "session_message_chunk": ("messageId", "session_message", {"content": []}),
}
_WHOLE = {whole: (name, emptied) for name, whole, emptied in _EMPTYING.values()}


def begun_anew(updates: list[Message], session: SessionState) -> list[Message]:
    """The updates of a history, with an update that empties each item before its first piece."""
    if session.begun is None:
        return updates
    told: list[Message] = []
    for update in updates:
        kind = string(update.get("sessionUpdate", ""))
        if kind in _EMPTYING:
            name, whole, emptied = _EMPTYING[kind]
            if (whole, update[name]) not in session.begun:
                told.append({"sessionUpdate": whole, name: update[name], **emptied})
                session.begun.add((whole, update[name]))
        elif kind in _WHOLE:
            name, emptied = _WHOLE[kind]
            if (kind, update[name]) not in session.begun:
                update = {**update, **{member: update.get(member, empty) for member, empty in emptied.items()}}
                session.begun.add((kind, update[name]))
        told.append(update)
    return told
