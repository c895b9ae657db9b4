"""The context of log lines: the session, the principal and the request that the code is working for."""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

_ABOUT: ContextVar[Mapping[str, str]] = ContextVar("about", default={})  # noqa: B039 - never changed
ACCESS = "dragoman.access"  # the access logger
LONGEST = 200  # characters of a path or a method in a line


@contextlib.contextmanager
def about(**facts: str) -> Iterator[None]:
    """Add these facts to every line logged in a block and in the tasks it starts."""
    before = _ABOUT.set({**_ABOUT.get(), **facts})
    try:
        yield
    finally:
        _ABOUT.reset(before)


def log_facts() -> Mapping[str, str]:
    """The context of a line that is logged now."""
    return _ABOUT.get()


def log_access(what: str, outcome: object, began: float, **facts: object) -> None:
    """Log the end of a client's request; `began` is a time of `time.monotonic`."""
    milliseconds = round((time.monotonic() - began) * 1000, 1)
    told = {name: value for name, value in facts.items() if value}
    line = f"{what[:LONGEST]} {outcome} {milliseconds} ms"
    logging.getLogger(ACCESS).info(
        "%s", line, extra={"facts": {**told, "outcome": outcome, "milliseconds": milliseconds}}
    )
