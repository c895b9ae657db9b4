"""How a command says what went wrong."""

import contextlib
import sys

UNSUPPORTED = 1  # by this system
UNREACHABLE, AGENT_FAILED, USAGE, UNWRITABLE, INTERRUPTED = 1, 5, 64, 74, 130


def complain(message: str, code: int = USAGE) -> int:
    """Say it in one line, and what a peer said of it in lines of its own; gives the exit code."""
    from ..ui.output import complaint

    with contextlib.suppress(OSError):  # there is no other place to say it
        print(complaint(message), file=sys.stderr)
    return code
