"""The command line: `dragoman …`.  What a command needs is imported when it runs, so that help is instant."""

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__

USAGE, AGENT_FAILED, INTERRUPTED = 64, 5, 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """A wrong argument: one line that says what to do."""
        self.exit(USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives its exit code."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "command"):
        parser.print_help()
        return 0
    try:
        return int(arguments.command(arguments) or 0)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has had enough
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dragoman", description="The complete Agent Client Protocol (ACP): run, drive and host coding agents."
    )
    parser.add_argument("--version", action="version", version=f"dragoman {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

    agent = commands.add_parser("agent", help="serve one of the agents that come along over stdin and stdout")
    agent.add_argument("name", choices=["echo", "testy"], help="echo repeats prompts; testy obeys scripted ones")
    agent.set_defaults(command=_agent)

    run = commands.add_parser("run", help="run one turn of an agent and print it")
    run.add_argument("--agent", metavar="CMD", help="the command that starts the agent (default: the echo agent)")
    run.add_argument("--cwd", default=".", metavar="DIR", help="the directory to work in (default: this one)")
    run.add_argument("prompt", metavar="PROMPT", help="what to say to the agent; - reads it from stdin")
    run.set_defaults(command=_run)
    return parser


def _agent(arguments: argparse.Namespace) -> None:
    from .agent import serve
    from .testing import Echo, Testy

    serve({"echo": Echo, "testy": Testy}[arguments.name])


def _run(arguments: argparse.Namespace) -> int:
    import asyncio
    from pathlib import Path

    from .errors import Error
    from .ui import headless

    if not Path(arguments.cwd).is_dir():
        return _complain(f"--cwd: there is no directory {arguments.cwd!r}", USAGE)
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    if not prompt.strip():
        return _complain("the prompt is empty; say something to the agent", USAGE)
    agent = arguments.agent or [sys.executable, "-m", "dragoman", "agent", "echo"]
    try:
        return asyncio.run(headless.run(agent, prompt, cwd=arguments.cwd))
    except Error as exc:
        return _complain(str(exc), AGENT_FAILED)


def _complain(message: str, code: int) -> int:
    print(f"dragoman: {message}", file=sys.stderr)
    return code
