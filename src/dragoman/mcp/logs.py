"""The log of the libraries that speak MCP, which has addresses and messages: without credentials."""

import logging
from weakref import WeakSet

from ..host.audit.redaction import Redactor

LIBRARIES = ("mcp", "httpx2", "httpcore2", "sse_starlette")

_redactors: WeakSet[Redactor] = WeakSet()  # of the servers there are


class _Cleaning(logging.Filter):
    """Takes the credentials of every server out of a record, its traceback included."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info:
            record.exc_text = _clean(logging.Formatter().formatException(record.exc_info))
            record.exc_info = None
        record.msg, record.args = _clean(record.getMessage()), None
        return True


_cleaning = _Cleaning()


def _clean(text: str) -> str:
    for redactor in list(_redactors):
        text = redactor.known(text)
    return text


def guard_logs(redactor: Redactor) -> None:
    """Keep credentials out of what the libraries log from now on; those that are loaded, so load them first."""
    _redactors.add(redactor)
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in LIBRARIES:
            logging.getLogger(name).addFilter(_cleaning)  # which a logger has once
