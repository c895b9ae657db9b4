"""The log of long-running commands: stderr, one record per line."""

import logging
import sys


class LineFormatter(logging.Formatter):
    """A record as a line of text; further lines, a traceback's or a peer's, are indented."""

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\n", "\n  ")


def log_to_stderr(formatter: logging.Formatter | None = None) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter or LineFormatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
