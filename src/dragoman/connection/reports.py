"""Logs frames that are no messages, and handlers that fail."""

import logging

from ..errors import ConnectionClosed
from ..events import Noise
from ..foundation.owning import log_failure

log = logging.getLogger("dragoman")

NOISY = 1000  # frames in a row that are no message before the user is warned


class NoiseLog:
    """Logs the frames that are no message, and warns once of a peer that sends nothing else."""

    def __init__(self) -> None:
        self.count = 0  # of them in a row

    def add(self, noise: Noise) -> None:
        """Log one, and warn when there have been too many."""
        self.count += 1
        log.log(
            logging.ERROR if noise.error else logging.INFO, "%s: %r", noise.why, noise.data, exc_info=noise.error
        )
        if self.count == NOISY:
            log.warning("the peer has sent %d lines that are no messages; the last: %r", NOISY, noise.data[:200])


def report_failure(method: str, exc: BaseException, error_id: str, closed: Exception | None) -> None:
    """Log what a handler raised, under the id that the peer was told; `closed` says why the connection ended."""
    if isinstance(exc, ConnectionClosed) and str(exc) == str(closed):  # no fault of the handler
        log.info("%s was cut short [%s]: %s", method, error_id, exc)
    else:
        log_failure("the handler of %s failed [%s]", method, error_id)
