"""The command line: `dragoman …`.

One module a command; what a command needs is imported when it runs, so that help is instant.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import __version__
from ..errors import Error
from ..ui.output import install
from . import agent, agents, audit, demo, new, permissions, run, sessions, setup, translate
from .complaint import INTERRUPTED, UNWRITABLE, USAGE, complain
from .hosting import connect, gateway, serve

# In the order of the help text.
COMMANDS = (run, demo, agents, agent, new, setup, sessions, serve, connect, gateway, permissions, audit, translate)


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


def parser() -> argparse.ArgumentParser:
    """Every command and option; the reference of the command line is made from it."""
    found = _Parser(
        prog="dragoman", description="The complete Agent Client Protocol (ACP): run, drive and host coding agents."
    )
    found.add_argument("--version", action="version", version=f"dragoman {__version__}")
    commands = found.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    options = parser()
    _open_closed_streams()
    install()
    arguments = options.parse_args(argv)
    if not hasattr(arguments, "command"):
        options.print_help()
        return 0
    try:
        return int(arguments.command(arguments) or 0)
    except Error as exc:
        return complain(str(exc))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has had enough
        return 0
    except OSError as exc:
        _drop_output()
        if exc.filename:  # a file or directory the user named, or one of theirs
            return complain(f"{exc.filename}: {exc.strerror}")
        return complain(f"the output cannot be written: {exc.strerror or exc}", UNWRITABLE)
    finally:
        _drop_output()


def _open_closed_streams() -> None:
    """Have all three standard streams: one that was closed leads nowhere, and not to what is opened next."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            _lead_nowhere(fd)
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))


def _drop_output() -> None:
    """Forget what cannot be written: the interpreter would try once more at its end, and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _lead_nowhere(stream.fileno())


def _lead_nowhere(fd: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, fd)
    if nowhere != fd:
        os.close(nowhere)
    os.set_inheritable(fd, True)
