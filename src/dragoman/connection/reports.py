"""Log frames that are not messages, and handlers that fail."""

import logging

from ..errors import ConnectionClosed
from ..events import Noise
from ..foundation.owning import log_failure

log = logging.getLogger("dragoman")

NOISY = 1000  # consecutive frames that are not messages, after which the user is warned


class NoiseLog:
    """Logs frames that are not messages, and warns once about a peer that sends nothing else."""

    def __init__(self) -> None:
        self.count = 0  # consecutive ones

    def add(self, noise: Noise) -> None:
        """Log a frame, and warn when there have been too many."""
        self.count += 1
        log.log(
            logging.ERROR if noise.error else logging.INFO, "%s: %r", noise.why, noise.data, exc_info=noise.error
        )
        if self.count == NOISY:
            log.warning("the peer has sent %d lines that are not messages; the last: %r", NOISY, noise.data[:200])


def report_failure(method: str, exc: BaseException, error_id: str, closed: Exception | None) -> None:
    """Log the exception of a handler under the id that the peer was told; `closed` is why the connection ended."""
    if isinstance(exc, ConnectionClosed) and str(exc) == str(closed):  # not the handler's fault
        log.info("%s was cut short [%s]: %s", method, error_id, exc)
    else:
        log_failure("the handler of %s failed [%s]", method, error_id)
