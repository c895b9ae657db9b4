"""The command line: `dragoman …`.

Each command is a module that imports its dependencies when it runs, so that help is instant.
"""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from .. import __version__
from ..errors import Error, UnsupportedSystem
from ..foundation.suggesting import choices, nearest
from ..foundation.unix import MODULES, missing
from ..ui.output import OutputFailed, install
from . import agent, agents, audit, completion, new, permissions, run, sessions, setup, translate
from .complaint import UNSUPPORTED, UNWRITABLE, USAGE, complain
from .editors import lsp
from .hosting import connect, cursor, gateway, mcp, serve
from .screens import demo, tui

# In the order of the help text.
COMMANDS = (
    *(
        tui,
        run,
        demo,
        agents,
        agent,
        new,
        setup,
        sessions,
        serve,
        connect,
        gateway,
        cursor,
        mcp,
        lsp,
        permissions,
        audit,
        translate,
    ),
    completion,
)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.register("action", "parsers", _Commands)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse all arguments; a command with unknown arguments refuses them itself."""
        words = list(sys.argv[1:] if args is None else args)
        # for the words after --: Python 3.11 loses them if options come first
        after_dashes: str = self.get_default("after_dashes") or ""
        end = words.index("--") if after_dashes and "--" in words else len(words)
        found, unknown = super().parse_known_args(words[:end], namespace)
        if end < len(words):
            setattr(found, after_dashes, words[end + 1 :])
        if unknown:
            option = next((word.partition("=")[0] for word in unknown if word.startswith("--")), "")
            near = option and nearest(option, self._option_string_actions)
            hint = f"; did you mean {near}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = list(map(str, action.choices))
            raise argparse.ArgumentError(action, f"there is no {value!r}; {choices(str(value), names)}")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print help or an error; help that cannot be written is a failure like for any other output."""
        out = file or sys.stderr
        out.write(message)
        out.flush()

    def error(self, message: str) -> NoReturn:
        """Report a wrong argument in one line that says what to do."""
        see = " See" if message.endswith("?") else "; see"
        self.exit(USAGE, f"{self.prog}: {message}{see} {self.prog} --help\n")


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    def add_parser(self, name: str, **options: Any) -> Any:
        """Add a command, whose help begins with its line in the list of commands."""
        told: str = options["help"]
        options.setdefault("description", f"{told[0].upper()}{told[1:]}.")
        return super().add_parser(name, **options)


def parser() -> argparse.ArgumentParser:
    """The parser of all commands and options, from which the command-line reference is made."""
    found = _Parser(
        prog="dragoman", description="The complete Agent Client Protocol (ACP): run, drive and host coding agents."
    )
    found.add_argument("--version", action="version", version=f"dragoman {__version__}")
    commands = found.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code.  `dragoman.__main__` handles Ctrl-C, from the first moment on."""
    _open_closed_streams()
    install()
    try:
        known = parser()
        arguments = known.parse_args(argv)
        if not hasattr(arguments, "command"):
            return _without_command(known)
        return int(arguments.command(arguments) or 0)
    except UnsupportedSystem as exc:
        return complain(str(exc), UNSUPPORTED)
    except Error as exc:
        return complain(str(exc))
    except ModuleNotFoundError as exc:
        if exc.name not in MODULES:
            raise
        return complain(str(missing(exc.name)), UNSUPPORTED)
    except BrokenPipeError:  # the reader of our output has closed it
        return 0
    except OSError as exc:
        _drop_output()
        if exc.filename and not isinstance(exc, OutputFailed):  # a file or directory that the user named or owns
            return complain(f"{exc.filename}: {exc.strerror}", UNWRITABLE if exc.errno in NO_ROOM else USAGE)
        return complain(f"the output cannot be written: {exc.strerror or exc}", UNWRITABLE)
    finally:
        _drop_output()


def _without_command(known: argparse.ArgumentParser) -> int:
    """At a terminal, show the screen or say how to install it; elsewhere, print the help."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        if tui.is_installed():
            return tui.run_tui(known.parse_args(["tui"]))
        sys.stderr.write(f"The screen is not installed; to install it: {tui.INSTALL}\n\n")
    known.print_help()
    return 0


def _open_closed_streams() -> None:
    """Open closed standard streams to /dev/null, so that no later file gets their descriptors."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            _point_to_null(fd)
            setattr(sys, name, os.fdopen(fd, mode, closefd=False))


def _drop_output() -> None:
    """Drop output that cannot be written; otherwise the interpreter tries again at exit and reports an error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _point_to_null(stream.fileno())


def _point_to_null(fd: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, fd)
    if nowhere != fd:
        os.close(nowhere)
    os.set_inheritable(fd, True)
