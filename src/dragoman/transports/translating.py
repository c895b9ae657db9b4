"""A wire with a translator at its edge: the peer speaks its dialect, we hear version 1.

Which dialect it is shows in the first `initialize` message, unless it was said beforehand.  A peer who speaks
version 1 is not translated: from then on the wire below is used as it is.
"""

import asyncio
import functools
import logging
import os
import time
from collections.abc import Callable

import msgspec

from ..codec import SHALLOW, check
from ..dialects import CANONICAL, Peer, Surroundings, Translation, Translator, detect, proper_name, translator
from ..dialects.translator import Message
from ..framing import Oversize
from . import Hear, Transport

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
        self._first_answer: Message | None = None  # to it, while the agent is greeted again
        self._second_greeting: Message | None = None
        self._wakes: dict[int, asyncio.TimerHandle] = {}
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
        back: list[Message] = []
        for frame in frames:
            if (quick := self.translator.quick_outward(frame)) is not None:
                said.append(quick)
                continue
            message = _read(frame)
            if message is None:
                said.append(frame)
                continue
            translation = self.translator.outward(message)
            for became in translation.onward:
                said.append(frame if became == message else _encode(became))
            if translation.back or translation.wakes:
                back += translation.back
                self._schedule(translation)
        self._inner.send(said)
        if back:
            # Not at once: whoever sends is not ready to hear before its own call has returned.
            heard: list[bytes | Oversize] = [_encode(message) for message in back]
            asyncio.get_running_loop().call_soon(self._heard, heard)
        self._step_aside()

    async def close(self) -> None:
        for wake in self._wakes.values():
            wake.cancel()
        self._wakes.clear()
        await self._inner.close()

    # Which dialect it is

    def _watch_greeting(self, frames: list[bytes]) -> None:
        """Remember what we greet an agent with: its answer shows which dialect it speaks."""
        for frame in frames:
            if b'"initialize"' in frame and (message := _read(frame)) and message.get("method") == "initialize":
                self._greeting = message
        self._inner.send(frames)

    def _hear(self, frames: list[bytes | Oversize]) -> None:
        if self._is_settled:
            self._heard(frames if self.translator is None else self._translated(frames))
            return
        for at, frame in enumerate(frames):
            if (dialect := self._betrayed(frame)) is not None:
                if at:
                    self._heard(frames[:at])
                self._settle(dialect)
                self._hear_first(frames[at:])
                return
        self._heard(frames)

    def _betrayed(self, frame: bytes | Oversize) -> str | None:
        """The dialect a frame shows, `v1` included; None for a frame that shows nothing."""
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
        surroundings = Surroundings(_now, os.getcwd())
        self.translator = translator(dialect, self._peer, surroundings)
        if self.translator is None:
            self.send = self._inner.send  # type: ignore[method-assign]
        else:
            self.__dict__.pop("send", None)

    def _hear_first(self, frames: list[bytes | Oversize]) -> None:
        """Hear what begins with the frame that showed the dialect."""
        if self.translator is None:
            self._heard(frames)
            return
        if self._greeting is not None:
            frames = self._greet_again(frames)
        self._hear(frames)

    def _greet_again(self, frames: list[bytes | Oversize]) -> list[bytes | Oversize]:
        """Say in an agent's own words what we offer: it cannot have understood it in ours."""
        assert self.translator is not None
        assert self._greeting is not None
        said = self.translator.outward(self._greeting).onward
        if said == [self._greeting]:
            return frames
        self._first_answer, self._second_greeting = _read(frames[0]), said[0]
        self._inner.send([_encode(message) for message in said])
        return frames[1:]

    def _second_answer(self, message: Message) -> Message | None:
        """What is heard of an agent that was greeted again; None when it has to be once more."""
        first, self._first_answer, self._second_greeting = self._first_answer, None, None
        if "error" in message:
            # It will not be greeted twice; a first answer that was none is no better than this one.
            return message if first is None or "error" in first else first
        dialect = detect(message, self._peer)
        if dialect in (None, self.dialect) or first is None or "error" not in first:
            return message
        self._settle(dialect)  # a refusal had told little of it
        assert self.translator is not None
        assert self._greeting is not None
        self._inner.send([_encode(said) for said in self.translator.outward(self._greeting).onward])
        return None

    # Translating

    def _translated(self, frames: list[bytes | Oversize]) -> list[bytes | Oversize]:
        heard: list[bytes | Oversize] = []
        for frame in frames:
            if self.translator is not None and not isinstance(frame, Oversize):
                quick = self.translator.quick_inward(frame)
                if quick is not None:
                    heard.append(quick)
                    continue
            message = _read(frame)
            if self._second_greeting is not None and message and _answers(message, self._second_greeting):
                message = self._second_answer(message)
                if message is None:
                    continue
            if message is None or self.translator is None:
                heard.append(frame)
                continue
            translation = self.translator.inward(message)
            if translation.back:
                self._inner.send([_encode(message) for message in translation.back])
            if translation.wakes:
                self._schedule(translation)
            for became in translation.onward:
                heard.append(frame if became == message else _encode(became))  # what stays so stays so to the byte
        self._step_aside()
        return heard

    def _schedule(self, translation: Translation) -> None:
        for seconds, key in translation.wakes:
            self._wakes[key] = asyncio.get_running_loop().call_later(seconds, self._wake, key)

    def _wake(self, key: int) -> None:
        del self._wakes[key]
        if self.translator is None:
            return
        translation = self.translator.woken(key)
        self._schedule(translation)
        if translation.back:
            self._inner.send([_encode(message) for message in translation.back])
        if translation.onward:
            self._heard([_encode(message) for message in translation.onward])

    def _step_aside(self) -> None:
        if self.translator is not None and self.translator.is_idle:
            self.translator, self.dialect = None, CANONICAL


def _read(frame: bytes | Oversize) -> Message | None:
    """A frame as an object; None for one that is none, which whoever hears it will say."""
    if isinstance(frame, Oversize):
        return None
    try:
        if len(frame) > SHALLOW or not frame.isascii():
            check(frame)
        message = _decode(frame)
    except (msgspec.DecodeError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _answers(message: Message, request: Message) -> bool:
    return "method" not in message and message.get("id") == request.get("id")


def _now() -> str:
    return _told(int(time.time()))


@functools.lru_cache(maxsize=1)  # the same for all messages of a second
def _told(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
