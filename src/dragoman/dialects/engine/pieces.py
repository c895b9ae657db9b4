"""Pieces of text, the most frequent messages: translated from frame to frame, without objects in between.

A frame is a piece if it has a session, a speaker, a text, perhaps a message id, and nothing else.  Any other frame
is decoded and translated in the ordinary way.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

UPDATE: Literal["session/update"] = "session/update"
Kind = Literal["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]
Params = TypeVar("Params")


class PieceText(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["text"]
    text: str


class ChunkFrame(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    session_update: Kind
    content: PieceText
    message_id: str | UnsetType = UNSET


class PieceParams(Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """The params of a text update, as version 1 has them."""

    session_id: str
    update: ChunkFrame


class _Frame(Struct, Generic[Params], forbid_unknown_fields=True, gc=False):
    jsonrpc: Literal["2.0"]
    method: Literal["session/update"]
    params: Params


def reader(params: Any) -> Callable[[bytes], Any]:
    """A decoder for frames whose params are of this type; it raises ValueError for any other."""
    return msgspec.json.Decoder(_Frame[params]).decode


read = reader(PieceParams)
_encode = msgspec.json.Encoder().encode


def written(params: Struct) -> bytes:
    """The frame of a text update."""
    return _encode(_Frame("2.0", UPDATE, params))
