"""A transport with a translator: the peer speaks its dialect, our side sees version 1.

The first `initialize` message shows the dialect, unless it was given beforehand.  A peer that speaks version 1 is
not translated: from then on, the transport below is used directly.
"""

import asyncio
import functools
import logging
import os
import time
from collections.abc import Callable, Sequence

import msgspec

from ..dialects import CANONICAL, Peer, Surroundings, Translation, Translator, detect, proper_name, translator
from ..dialects.engine.flows import Message
from ..envelope import outline
from ..framing import Oversize, check
from . import Hear, Transport
from .batches import Batches

log = logging.getLogger("dragoman")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class TranslatingTransport:
    """A transport whose peer, an agent or a client, may speak another dialect."""

    def __init__(self, inner: Transport, peer: Peer, dialect: str | None = None) -> None:
        self.dialect = CANONICAL if dialect is None else proper_name(dialect)
        self.translator: Translator | None = None
        self.hold, self.resume, self.drain = inner.hold, inner.resume, inner.drain
        self.why_ended = inner.why_ended
        self._inner, self._peer = inner, peer
        self._heard: Hear
        self._is_settled = False
        self._greeting: Message | None = None  # our `initialize`, while its answer is awaited
        self._first_answer: Message | None = None  # the answer to it, while `initialize` is sent again
        self._second_greeting: Message | None = None
        self._wakes: dict[int, asyncio.TimerHandle] = {}
        self._batches: Batches | None = None  # only for a dialect that has batches
        if dialect is not None:
            self._speak(self.dialect)
        elif peer == "agent":
            self.send = self._watch_greeting  # type: ignore[method-assign]

    @property
    def queued(self) -> int:
        return self._inner.queued

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self._heard = hear
        self._inner.listen(self._hear, ended)

    def send(self, frames: list[bytes]) -> None:
        if self.translator is None:
            self._inner.send(frames)
            return
        said: list[bytes] = []
        back: list[bytes | Oversize] = []
        for frame in frames:
            # most frames are pieces of text, which are translated here
            quick = _quickly(self.translator.quick_outward, frame)
            if quick is not None:
                said.append(quick)
                continue
            became, answers = self._outward(frame)
            said += became
            back += answers
        self._deliver(said)
        if back:
            # Not at once: the sender is not ready for messages until its own call has returned.
            asyncio.get_running_loop().call_soon(self._heard, back)
        self._stop_translating()

    async def close(self) -> None:
        for wake in self._wakes.values():
            wake.cancel()
        self._wakes.clear()
        await self._inner.close()

    # Detection of the dialect

    def _watch_greeting(self, frames: list[bytes]) -> None:
        """Remember our `initialize`, since the agent's answer to it shows the dialect."""
        for frame in frames:
            if b'"initialize"' in frame and (message := _read(frame)) and message.get("method") == "initialize":
                self._greeting = message
        self._inner.send(frames)

    def _hear(self, frames: list[bytes | Oversize]) -> None:
        if self._is_settled:
            self._heard(frames if self.translator is None else self._translated(frames))
            return
        for at, frame in enumerate(frames):
            if (dialect := self._dialect_shown(frame)) is not None:
                if at:
                    self._heard(frames[:at])
                self._settle(dialect)
                self._hear_first(frames[at:])
                return
        self._heard(frames)

    def _dialect_shown(self, frame: bytes | Oversize) -> str | None:
        """The dialect that a frame shows, or `v1`; None for a frame that shows none."""
        message = _read(frame)
        if message is None:
            return None
        if self._peer == "client":
            is_greeting = message.get("method") == "initialize"
        else:
            is_greeting = self._greeting is not None and _answers(message, self._greeting)
            if is_greeting and "error" in message:
                return detect(message, self._peer)
        return (detect(message, self._peer) or CANONICAL) if is_greeting else None

    def _settle(self, dialect: str) -> None:
        self._speak(dialect)
        if self.translator is not None:
            log.info("the %s speaks the dialect %s", self._peer, dialect)

    def _speak(self, dialect: str) -> None:
        self.dialect, self._is_settled = dialect, True
        self.translator = translator(dialect, self._peer, Surroundings(_now, _directory()))
        if self.translator is None:
            self.send = self._inner.send  # type: ignore[method-assign]
        else:
            self.__dict__.pop("send", None)
            self._batches = Batches() if self.translator.takes_batches else None

    def _hear_first(self, frames: list[bytes | Oversize]) -> None:
        """Handle the frames, beginning with the one that showed the dialect."""
        if self.translator is None:
            self._greeting = None
            self._heard(frames)
            return
        if self._greeting is not None:
            frames = self._greet_again(frames)
        self._hear(frames)

    def _greet_again(self, frames: list[bytes | Oversize]) -> list[bytes | Oversize]:
        """Send `initialize` again in the agent's dialect, since it cannot have understood ours."""
        assert self.translator is not None
        assert self._greeting is not None
        said = self.translator.outward(self._greeting).onward
        if not said:  # the dialect cannot express it, so the first answer is the only one
            self._speak(CANONICAL)
        if said in ([], [self._greeting]):
            return frames
        self._first_answer, self._second_greeting = _read(frames[0]), said[0]
        self._inner.send([_encode(message) for message in said])
        return frames[1:]

    def _second_answer(self, message: Message) -> Message | None:
        """An agent's answer to the second `initialize`; None when `initialize` has to be sent once more."""
        first, self._first_answer, self._second_greeting = self._first_answer, None, None
        if "error" in message:
            # It refuses a second `initialize`; a first answer that was an error is no better than this one.
            return message if first is None or "error" in first else {**first, "id": message["id"]}
        dialect = detect(message, self._peer)
        if dialect in (None, self.dialect) or first is None or "error" not in first:
            return message
        self._settle(dialect)  # the refusal said little about the agent
        assert self.translator is not None
        assert self._greeting is not None
        self._inner.send([_encode(said) for said in self.translator.outward(self._greeting).onward])
        return None

    # Translating

    def _outward(self, frame: bytes) -> tuple[list[bytes], list[bytes]]:
        """Translate one of our frames; returns the frames for the peer, and the answers for us."""
        assert self.translator is not None
        message = None
        try:
            if (message := _read(frame)) is None:
                return [frame], []
            return self._written(self.translator.outward(message), message, frame)
        except Exception:
            return self._failed(message, frame, from_peer=False)

    def _translated(self, frames: list[bytes | Oversize]) -> list[bytes | Oversize]:
        heard: list[bytes | Oversize] = []
        for frame in self._taken_apart(frames) if self._batches else frames:
            quick = None
            if self.translator is not None and not isinstance(frame, Oversize):
                quick = _quickly(self.translator.quick_inward, frame)
            if quick is not None:
                heard.append(quick)
                continue
            became, answers = self._inward(frame)
            heard += became
            if answers:
                self._deliver(answers)
        self._stop_translating()
        return heard

    def _taken_apart(self, frames: list[bytes | Oversize]) -> list[bytes | Oversize]:
        """The frames of a batch, with one message each."""
        assert self._batches is not None
        single: list[bytes | Oversize] = []
        for frame in frames:
            batch = None if isinstance(frame, Oversize) else self._batches.messages(frame)
            if batch is None:
                single.append(frame)
            else:
                single += batch[0]
                self._inner.send(batch[1])
        return single

    def _deliver(self, frames: list[bytes]) -> None:
        """Send translated frames; answers to a batch wait for each other."""
        self._inner.send(self._batches.gathered(frames) if self._batches else frames)

    def _inward(self, frame: bytes | Oversize) -> tuple[Sequence[bytes | Oversize], list[bytes]]:
        """Translate one frame of the peer; returns the frames for us, and the answers for the peer."""
        if self.translator is None:
            return [frame], []
        message = None
        try:
            if isinstance(frame, Oversize):
                message = answer_too_large(frame)
                if message is None:
                    return [frame], []
                frame = _encode(message)
            message = message or _read(frame)
            if self._second_greeting is not None and message and _answers(message, self._second_greeting):
                message = self._second_answer(message)
                if message is None:
                    return [], []
                frame = _encode(message)
            if message is None:
                return [frame], []
            return self._written(self.translator.inward(message), message, frame)
        except Exception:
            return self._failed(message, frame, from_peer=True)

    def _written(
        self, translation: Translation, message: Message | None, frame: bytes
    ) -> tuple[list[bytes], list[bytes]]:
        """The frames of a translation, onward and back; an unchanged message keeps its bytes."""
        if translation.wakes:
            self._schedule(translation)
        onward = [frame if became == message else _encode(became) for became in translation.onward]
        return onward, [_encode(answer) for answer in translation.back]

    def _failed(
        self, message: Message | None, frame: bytes | Oversize, *, from_peer: bool
    ) -> tuple[list[bytes], list[bytes]]:
        """Handle a fault of the translator: its frame is lost, but every request is answered."""
        log.exception("a message could not be translated from or to %s", self.dialect)
        if self.translator is None or message is None or isinstance(frame, Oversize):
            return [] if isinstance(frame, Oversize) else [frame], []
        return self._written(self.translator.failed(message, from_peer=from_peer), None, frame)

    def _schedule(self, translation: Translation) -> None:
        for seconds, key in translation.wakes:
            self._wakes[key] = asyncio.get_running_loop().call_later(seconds, self._wake, key)

    def _wake(self, key: int) -> None:
        del self._wakes[key]
        if self.translator is None:
            return
        try:
            translation = self.translator.timer_due(key)
        except Exception:
            log.exception("a translator of %s could not continue", self.dialect)
            return
        self._schedule(translation)
        if translation.back:
            self._deliver([_encode(message) for message in translation.back])
        if translation.onward:
            self._heard([_encode(message) for message in translation.onward])

    def _stop_translating(self) -> None:
        if self.translator is not None and self.translator.is_idle:
            self.translator, self.dialect = None, CANONICAL


def _quickly(translate: Callable[[bytes], bytes | None], frame: bytes) -> bytes | None:
    """Translate a text frame directly; None for a frame that needs the full translation."""
    try:
        return translate(frame)
    except Exception:
        return None


def _read(frame: bytes | Oversize) -> Message | None:
    """A frame as an object; None for a broken frame, which its receiver refuses."""
    if isinstance(frame, Oversize):
        return None
    try:
        check(frame)
        message = _decode(frame)
    except (msgspec.DecodeError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def answer_too_large(frame: Oversize) -> Message | None:
    """The error for the caller whose answer exceeds the limit; None for other messages."""
    seen = outline(frame)
    if "method" in seen or not ("result" in seen or "error" in seen) or type(seen.get("id")) not in (int, str):
        return None
    why = f"the answer is too large: {frame.size} bytes"
    return {"jsonrpc": "2.0", "id": seen["id"], "error": {"code": -32603, "message": why}}


def _directory() -> str:
    """The directory of sessions that name none: the current one, unless it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _answers(message: Message, request: Message) -> bool:
    return "method" not in message and message.get("id") == request.get("id")


def _now() -> str:
    return _told(int(time.time()))


@functools.lru_cache(maxsize=1)  # one value for all messages of a second
def _told(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
