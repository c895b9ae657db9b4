"""Reports the error of a command."""

import contextlib
import sys

UNSUPPORTED = 1  # by this system
UNREACHABLE, AGENT_FAILED, USAGE, UNWRITABLE, INTERRUPTED = 1, 5, 64, 74, 130


def complain(message: str, code: int = USAGE) -> int:
    """Write an error in one line, and the peer's message on further lines; returns the exit code."""
    from ..ui.output import complaint

    with contextlib.suppress(OSError):  # there is no other place to report it
        print(complaint(message), file=sys.stderr)
    return code
