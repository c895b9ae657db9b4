"""Forms of early 2026 (`beamcode`, `cursor`) that version 1 does not use, each read by itself.

Peers that use them send the `initialize` of version 1 and mix these forms with those of version 1.  So no dialect
has to be named: a message that version 1 cannot read is read in the older form.  Our messages to them are version
1.
"""

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from .. import codec
from .. import schema as s
from ..foundation.documents import Json, documents

SET_MODEL = "session/set_model"
SET_BY = {"dragoman": {"setBy": SET_MODEL}}  # in the `_meta` of a config option that stands for a list of models
_OPENED = (s.NewSessionResponse, s.LoadSessionResponse, s.ResumeSessionResponse, s.ForkSessionResponse)
_OPENING = (s.NewSessionRequest, s.LoadSessionRequest)


class ModelChoice(msgspec.Struct, rename="camel"):
    """The params of `session/set_model`."""

    session_id: str
    model_id: str


def mended(raw: bytes, tp: object) -> bytes:
    """Turn params that cannot be read into today's form; unknown ones are not changed."""
    if tp not in (*_OPENING, s.PromptRequest, s.RequestPermissionRequest, s.SessionNotification):
        return raw
    from .cursor import Cursor

    cursor = Cursor("client")  # no state of it is used here
    calls = {**cursor.to_agent, **cursor.to_client}
    try:
        params = msgspec.json.decode(raw)
        said: Json
        if tp in _OPENING:
            said = {"mcpServers": [], **params}
        else:
            said = calls[_METHODS[tp]].params.inward(params, cursor)
    except (*_UNREADABLE, msgspec.DecodeError):
        return raw
    return raw if said == params else msgspec.json.encode(said)


@functools.cache
def result_reader(tp: Any) -> Callable[[Any], Any]:
    """A reader of results; when a session is opened, it turns a list of models into a config option."""
    read: Callable[[Any], Any] = codec.decoder(tp).decode
    if tp not in _OPENED:
        return read

    def opened(raw: Any) -> Any:
        return read(_with_model_option(bytes(raw)) if b'"models"' in bytes(raw) else raw)

    return opened


def _with_model_option(raw: bytes) -> bytes:
    from .legacy import MODEL, Legacy

    legacy = Legacy("agent")
    try:
        result = msgspec.json.decode(raw)
        said = legacy.to_agent["session/new"].result.inward(result, legacy)
        if not isinstance(said, dict) or said is result:
            return raw
        marked = [
            {**option, "_meta": SET_BY} if option["id"] == MODEL and "_meta" not in option else option
            for option in documents(said["configOptions"])
        ]
    except (*_UNREADABLE, msgspec.DecodeError):
        return raw
    return msgspec.json.encode({**result, "configOptions": marked})


_UNREADABLE = (AttributeError, IndexError, KeyError, TypeError, ValueError)
_METHODS: dict[object, str] = {
    s.PromptRequest: "session/prompt",
    s.RequestPermissionRequest: "session/request_permission",
    s.SessionNotification: "session/update",
}
