"""How a command says what went wrong."""

import sys

USAGE, AGENT_FAILED, INTERRUPTED = 64, 5, 130


def complain(message: str, code: int = USAGE) -> int:
    """Say it in one line; gives the exit code."""
    print(f"dragoman: {message}", file=sys.stderr)
    return code
