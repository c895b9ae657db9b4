"""Pieces of text, which are most of what is told: from frame to frame, without a detour through objects.

A frame that says which session, who speaks, some words, perhaps of which message, and nothing else, is read as just
that.  Whatever has more to it is no piece, and takes the long way.
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
    """The params of an update that tells a piece, as version 1 has them."""

    session_id: str
    update: ChunkFrame


class _Frame(Struct, Generic[Params], forbid_unknown_fields=True, gc=False):
    jsonrpc: Literal["2.0"]
    method: Literal["session/update"]
    params: Params


def reader(params: Any) -> Callable[[bytes], Any]:
    """What reads a frame whose params are of this type; any other is a ValueError to it."""
    return msgspec.json.Decoder(_Frame[params]).decode


read = reader(PieceParams)
_encode = msgspec.json.Encoder().encode


def written(params: Struct) -> bytes:
    """The frame that tells a piece."""
    return _encode(_Frame("2.0", UPDATE, params))
