"""`dragoman …` and `python -m dragoman …`: the command line."""

import signal
import sys


def main() -> int:
    """Run a command; gives its exit code."""
    is_heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heeded:  # Ctrl-C while modules are imported ends us, without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import main as run
    from .cli.complaint import INTERRUPTED

    try:
        if is_heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    if not sys.flags.safe_path:  # `-m` puts the current directory first, and it is no part of this program
        del sys.path[0]
    sys.exit(main())
