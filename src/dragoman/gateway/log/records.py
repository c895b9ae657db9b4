"""The content of a session's log, and editing single members of encoded messages.

An update is stored as exactly the frame that clients get.  Records of the gateway's own (prompts and their
outcomes, questions and their answers) are between them, and clients never get them.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct, field

from ...envelope import NULL
from ...errors import InvalidParams, RpcError
from ...foundation.documents import Json

SEQ = "dragoman.seq"  # in the `_meta` of an update: its number in the session's log
OWN_WORDS = (
    "dragoman.ownWords"  # of session/new and similar: send this client its own messages, too, once they are stored
)
AFTER = "dragoman.after"  # of session/resume: the last number the client has seen
PROMPT = "dragoman.prompt"  # of session/prompt: its key, which is the same when it is sent again

_UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":'
_encode = msgspec.json.Encoder().encode
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode


# Messages


def members(params: Raw) -> dict[str, Raw]:
    """The members of an object, each in its original encoding."""
    try:
        return _read_members(params)
    except msgspec.DecodeError:
        raise InvalidParams("the parameters have to be an object") from None


def optional(found: dict[str, Raw], name: str) -> dict[str, Raw]:
    """The members of a member; empty if it is missing, null or not an object."""
    try:
        return _read_members(found.get(name, b"{}"))
    except msgspec.DecodeError:
        return {}


def text(found: dict[str, Raw], name: str) -> str | None:
    """A member that must be a string if it exists."""
    if name not in found:
        return None
    try:
        return msgspec.json.decode(found[name], type=str)
    except msgspec.DecodeError:
        raise InvalidParams(f"{name} has to be a string") from None


def session_of(found: dict[str, Raw]) -> str:
    """The session id in a message."""
    if (session := text(found, "sessionId")) is None:
        raise InvalidParams("sessionId is missing")
    return session


def meta(found: dict[str, Raw]) -> dict[str, Raw]:
    """The members of `_meta`; empty if it is not an object."""
    return optional(found, "_meta")


def meta_value(found: dict[str, Raw], name: str) -> Any:
    """A decoded member of `_meta`."""
    return msgspec.json.decode(value) if (value := meta(found).get(name)) is not None else None


def changed(found: dict[str, Raw], notes: Mapping[str, Json | Raw] | None = None, **values: object) -> Raw:
    """The object with some members replaced and notes added to its `_meta`; the rest stays byte for byte."""
    if notes:
        values["_meta"] = {**meta(found), **notes}
    return Raw(_encode({**found, **values}))


def raw(value: object) -> Raw:
    """A value as encoded JSON."""
    return Raw(_encode(value))


# Updates


def update_frame(found: dict[str, Raw], session: str, number: int) -> bytes:
    """An agent's update as it is stored and sent: with the session's public id and its number."""
    return b"%b%b}" % (_UPDATE, changed(found, {SEQ: number}, sessionId=session))


def is_update(frame: bytes) -> bool:
    """Whether clients get a record; the others are the gateway's own."""
    return frame.startswith(_UPDATE)


def update_params(frame: bytes) -> Raw | None:
    """The frame of a record for clients; None for one of the gateway's own."""
    return Raw(frame[len(_UPDATE) : -1]) if is_update(frame) else None


# The gateway's own records


class ErrorAnswer(Struct, omit_defaults=True):
    """An error in the form of an answer."""

    code: int
    message: str
    data: Any = None

    @staticmethod
    def of(error: RpcError) -> "ErrorAnswer":
        return ErrorAnswer(error.code, error.message, error.data)

    def error(self) -> RpcError:
        return RpcError.of(self.code, self.message, self.data)


class PromptAccepted(Struct, tag_field="dragoman", tag="prompted"):
    """A prompt was accepted."""

    prompt: str


class PromptEnded(Struct, tag_field="dragoman", tag="ended"):
    """The outcome of a prompt: exactly one for each prompt."""

    prompt: str
    result: Raw = NULL
    error: ErrorAnswer | None = None
    interrupted: bool = False

    @property
    def outcome(self) -> Literal["interrupted", "failed", "answered"]:
        return "interrupted" if self.interrupted else "failed" if self.error else "answered"


class QuestionAsked(Struct, tag_field="dragoman", tag="asked"):
    """A question of the agent to the viewers that may answer."""

    question: str = field(name="ask")  # its id
    method: str
    params: Raw


class Answered(Struct, tag_field="dragoman", tag="answered"):
    """The one answer to a question."""

    question: str = field(name="ask")  # its id
    result: Raw = NULL
    error: ErrorAnswer | None = None
    by: str = ""  # the principal; empty if nobody answered


Own = PromptAccepted | PromptEnded | QuestionAsked | Answered

_read_own = msgspec.json.Decoder(Own).decode


def own_frame(record: Own) -> bytes:
    return _encode(record)


def read_own(frame: bytes) -> Own:
    return _read_own(frame)  # type: ignore[no-any-return]
