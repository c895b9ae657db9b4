"""The command line: `dragoman …`.

One module a command; what a command needs is imported when it runs, so that help is instant.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import __version__
from ..errors import Error
from . import agent, agents, audit, connect, demo, gateway, new, run, serve, sessions, setup, translate
from .complaint import INTERRUPTED, USAGE, complain

# In the order of the help text.
COMMANDS = (run, demo, agents, agent, new, setup, sessions, serve, connect, gateway, audit, translate)


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("action", "parsers", _Commands)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """All arguments or none: a command that is given too many says so itself."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """A wrong argument: one line that says what to do."""
        self.exit(USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    def add_parser(self, name: str, **options: Any) -> Any:
        """A command, whose own help begins with what the list of commands says of it."""
        told: str = options["help"]
        options.setdefault("description", f"{told[0].upper()}{told[1:]}.")
        return super().add_parser(name, **options)


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
    except OSError as exc:  # a file or directory the user named, or one of theirs
        if exc.filename is None:
            raise
        return complain(f"{exc.filename}: {exc.strerror}")
