"""Removes credentials from the log of the MCP libraries, which contains addresses and messages."""

import logging
from weakref import WeakSet

from ..host.audit.redaction import Redactor

LIBRARIES = ("mcp", "httpx2", "httpcore2", "sse_starlette")

_redactors: WeakSet[Redactor] = WeakSet()  # the cleaners of all servers


class _Cleaning(logging.Filter):
    """Removes the credentials of every server from a record, including its traceback."""

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
    """Keep credentials out of the libraries' log from now on; only loaded libraries are covered."""
    _redactors.add(redactor)
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in LIBRARIES:
            logging.getLogger(name).addFilter(_cleaning)  # a logger has it only once
