"""How long an event loop is held at once, in processor time of its thread: honest on a busy machine, too."""

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterator
from typing import Any

MOST = 0.05  # seconds of a processor


class Holds:
    longest = 0.0
    by = ""  # whose turn that was


@contextlib.contextmanager
def holds() -> Iterator[Holds]:
    """Watch every callback of asyncio's own loops in this thread.

    No garbage is collected meanwhile: how long that takes depends on what else the process has.
    """
    found, run = Holds(), asyncio.Handle._run

    def watched(handle: Any) -> None:
        before = time.thread_time()
        run(handle)
        took = time.thread_time() - before
        if took > found.longest:
            found.longest, found.by = took, repr(handle)

    asyncio.Handle._run = watched  # type: ignore[method-assign]
    gc.disable()
    try:
        yield found
    finally:
        gc.enable()
        asyncio.Handle._run = run  # type: ignore[method-assign]
