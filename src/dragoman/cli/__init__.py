"""The command line: `dragoman …`.

One module a command; what a command needs is imported when it runs, so that help is instant.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..errors import Error
from . import agent, agents, audit, connect, demo, gateway, new, run, serve, sessions, setup, translate
from .complaint import INTERRUPTED, USAGE, complain

# In the order of the help text.
COMMANDS = (run, demo, agents, agent, new, setup, sessions, serve, connect, gateway, audit, translate)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """A wrong argument: one line that says what to do."""
        self.exit(USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    parser = _Parser(
        prog="dragoman", description="The complete Agent Client Protocol (ACP): run, drive and host coding agents."
    )
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "command"):
        parser.print_help()
        return 0
    try:
        return int(arguments.command(arguments) or 0)
    except Error as exc:
        return complain(str(exc))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has had enough
        sys.stderr.close()
        return 0
