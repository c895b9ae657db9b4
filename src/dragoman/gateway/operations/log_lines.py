"""A gateway's log as lines of JSON."""

import json
import logging
import time

from ..log_context import log_facts


class JsonLines(logging.Formatter):
    """A log record as a line of JSON, with the session, the principal and the request it is about."""

    def format(self, record: logging.LogRecord) -> str:
        written = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{written}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **log_facts(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)  # in ASCII, because it contains peers' texts and a terminal may show it
