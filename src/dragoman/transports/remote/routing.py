"""Read the id, method and session of a frame, which decide where it is sent, without reading the rest."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ... import codec
from ...envelope import outline
from ...foundation.documents import Document, Json
from ...framing import Oversize


class MessageHead(Struct, frozen=True):
    """A frame's id, method and session; `opened` is the session that an answer has opened."""

    id: bytes = b""  # as JSON, always in the same spelling; empty for a notification
    method: str | None = None
    session: str | None = None
    opened: str | None = None

    @property
    def is_request(self) -> bool:
        return self.method is not None and self.id != b""

    @property
    def is_answer(self) -> bool:
        return self.method is None and self.id != b""


class _Members(Struct):
    id: Raw = Raw()
    method: str | None = None
    params: Raw = Raw()
    result: Raw = Raw()


class _Named(Struct, rename="camel"):
    session_id: Any = None


class _CancelParams(Struct, rename="camel"):
    request_id: Raw = Raw()


class _CancelRequest(Struct):
    params: _CancelParams


class _Greeting(Struct, rename="camel"):
    protocol_version: Any = None


class _GreetingRequest(Struct):
    params: _Greeting


_read_members = msgspec.json.Decoder(_Members).decode
_read_greeting = msgspec.json.Decoder(_GreetingRequest).decode
_read_named = msgspec.json.Decoder(_Named).decode
_read_cancel = msgspec.json.Decoder(_CancelRequest).decode
PROMPT, CANCEL, CANCEL_REQUEST = "session/prompt", "session/cancel", "$/cancel_request"
NOTHING = MessageHead()
BINARY = "came in a binary frame, and messages are text frames"


def head_of(frame: bytes | Oversize) -> MessageHead:
    """The id, method and session of a frame; `NOTHING` when it is not a message.

    A frame that is too large or broken is read as far as possible, since its id is enough to answer it.
    """
    if isinstance(frame, Oversize):
        return _head_from_ends(outline(frame))
    try:
        members = _read_members(frame)
    except (codec.Malformed, UnicodeDecodeError, RecursionError):
        return _head_from_ends(outline(frame)) if frame.lstrip()[:1] == b"{" else NOTHING
    return MessageHead(
        _one_spelling(bytes(members.id)), members.method, _session_in(members.params), _session_in(members.result)
    )


def _head_from_ends(seen: Document) -> MessageHead:
    id, method = seen.get("id"), seen.get("method")
    spelled = msgspec.json.encode(id) if isinstance(id, str | int) else b""
    return MessageHead(spelled, method if method is None or isinstance(method, str) else "")


def _one_spelling(id: bytes) -> bytes:
    """An id in one spelling, so that it can be compared: JSON can write the same character in several ways."""
    if b"\\" in id:
        try:
            return msgspec.json.encode(msgspec.json.decode(id))
        except (codec.Malformed, UnicodeDecodeError, RecursionError):
            return id
    return b"" if id == b"null" else id


def _session_in(value: Raw) -> str | None:
    try:
        session = _read_named(value).session_id if value else None
    except (codec.Malformed, UnicodeDecodeError, RecursionError):
        return None
    return session if isinstance(session, str) else None


def asked_version(frame: bytes) -> object:
    """The version of the protocol that `initialize` requests; None for another message."""
    try:
        return _read_greeting(frame).params.protocol_version
    except (codec.Malformed, UnicodeDecodeError, RecursionError):
        return None


class Withdrawal(Struct, frozen=True):
    """The unsent requests that a cancel withdraws: one, or the prompts of a session."""

    request: bytes = b""  # its id, in one spelling
    session: str | None = None

    def covers(self, message: MessageHead) -> bool:
        if self.request:
            return message.is_request and message.id == self.request
        return message.method == PROMPT and message.is_request and message.session == self.session


def withdrawal(frame: bytes) -> Withdrawal | None:
    """The requests that a frame withdraws; None unless it is a cancel."""
    if b"cancel" not in frame:
        return None
    message = head_of(frame)
    if message.method == CANCEL:
        return Withdrawal(session=message.session)
    request = named_request(frame) if message.method == CANCEL_REQUEST else b""
    return Withdrawal(request) if request else None


def named_request(frame: bytes) -> bytes:
    """The id of the request that `$/cancel_request` names, in one spelling."""
    try:
        return _one_spelling(bytes(_read_cancel(frame).params.request_id))
    except (codec.Malformed, UnicodeDecodeError, RecursionError):
        return b""


def withdrawn(message: MessageHead, *, is_version_2: bool) -> bytes:
    """The answer to a request that was cancelled before it was sent; a prompt ends like a cancelled turn."""
    if message.method != PROMPT or is_version_2:  # in version 2 the answer to a prompt does not end the turn
        return failure(message.id, -32800, "Request cancelled")
    return b'{"jsonrpc":"2.0","id":%b,"result":{"stopReason":"cancelled"}}' % message.id


def failure(id: bytes, code: int, message: str, data: Json = None) -> bytes:
    """The frame that answers a request with an error; `id` as it is in the request, empty for none."""
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id or b"null", msgspec.json.encode(error))
