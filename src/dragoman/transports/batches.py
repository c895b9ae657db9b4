"""Several messages in one frame, for protocol versions that allow it.

Each message is handled by itself.  The answers to the requests of a batch are kept until all have arrived, and are
sent in one frame.
"""

import msgspec

from ..codec import MAX_LISTED
from ..foundation.documents import Document, Json
from ..framing import check

MAX_OPEN = 1000  # incomplete batches; requests of further ones are answered one by one

_encode = msgspec.json.Encoder().encode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode


class _Batch:
    """The answers of a batch that have arrived, and those still missing."""

    __slots__ = ("answers", "missing")

    def __init__(self) -> None:
        self.missing: set[Json] = set()
        self.answers: list[msgspec.Raw] = []


class Batches:
    """The batches of one peer."""

    def __init__(self) -> None:
        self._open: dict[Json, _Batch] = {}  # by the id of each unanswered request

    def messages(self, frame: bytes) -> tuple[list[bytes], list[bytes]] | None:
        """The messages of a batch, and its immediate answers; None for a frame that is not a batch."""
        if not frame.lstrip().startswith(b"["):
            return None
        try:
            check(frame)
            items = _items(frame)
        except (msgspec.DecodeError, RecursionError):
            return None
        if not items or len(items) > MAX_LISTED:
            return None  # the receiver refuses it
        batch, found = _Batch(), []
        for item in map(bytes, items):
            message = _message(item)
            if message is None:
                batch.answers.append(msgspec.Raw(INVALID))
                continue
            found.append(item)
            id = message.get("id")
            is_request = "method" in message and type(id) in (int, str)
            if is_request and id not in self._open and len(self._open) < MAX_OPEN:
                self._open[id] = batch
                batch.missing.add(id)
        return found, self._written(batch)

    def gathered(self, frames: list[bytes]) -> list[bytes]:
        """The frames to send; answers that a batch waits for are collected instead."""
        if not self._open:
            return frames
        said: list[bytes] = []
        for frame in frames:
            answer = _message(frame)
            batch = self._open.pop(answer["id"], None) if answer and _is_answer(answer) else None
            if answer is None or batch is None:
                said.append(frame)
                continue
            batch.missing.discard(answer["id"])
            batch.answers.append(msgspec.Raw(frame))
            said += self._written(batch)
        return said

    def _written(self, batch: _Batch) -> list[bytes]:
        return [_encode(batch.answers)] if batch.answers and not batch.missing else []


INVALID = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}'


def _message(item: bytes) -> Document | None:
    """An item of a batch if it is a message, even an invalid one, which gets an answer of its own; else None."""
    try:
        found = _decode(item)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(found, dict) or not ("method" in found or "result" in found or "error" in found):
        return None
    return found


def _is_answer(message: Document) -> bool:
    return "method" not in message and type(message.get("id")) in (int, str)
