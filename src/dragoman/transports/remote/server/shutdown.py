"""Notice in time that uvicorn stops: uvicorn tells its application only after every open stream has ended.

Other servers end the streams themselves, or tell the application first; their signal handlers are not touched.  The
signal is passed to uvicorn once every stream has sent its end.  Otherwise uvicorn would hang up as if it would be
back at once, and the clients would try to reconnect for a minute.
"""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

LAST_WORDS = 1.0  # seconds for the streams to end before uvicorn gets the signal

End = Callable[[], None]
Handler = Callable[[int, FrameType | None], object]

_ends: dict[End, asyncio.AbstractEventLoop] = {}
_handlers: dict[int, Handler] = {}  # uvicorn's own handlers of these signals
_untold: list[int] = []  # signals that uvicorn has not been given yet


@contextlib.contextmanager
def when_stopped(end: End) -> Iterator[None]:
    """Call `end` in this event loop when uvicorn is told to stop while the block runs."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals cannot be handled here
        return
    _ends[end] = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        handler = signal.getsignal(number)
        if callable(handler) and hasattr(getattr(handler, "__self__", None), "should_exit"):
            _handlers[number] = handler
            signal.signal(number, _stop)
    try:
        yield
    finally:
        del _ends[end]
        if not _ends:
            _tell()
            _restore()


def _stop(number: int, frame: FrameType | None) -> None:
    is_first = not _untold
    _untold.append(number)
    if not (is_first and _ends):  # a second signal means that the user does not want to wait
        _tell()
        return
    for end, loop in list(_ends.items()):
        loop.call_soon_threadsafe(end)
    loop.call_soon_threadsafe(loop.call_later, LAST_WORDS, _tell)


def _tell() -> None:
    while _untold:
        number = _untold.pop(0)
        _handlers[number](number, None)


def _restore() -> None:
    for number, handler in _handlers.items():
        if signal.getsignal(number) is _stop:
            signal.signal(number, handler)
    _handlers.clear()
