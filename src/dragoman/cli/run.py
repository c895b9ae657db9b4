"""`dragoman run PROMPT`: one turn of an agent, printed."""

import argparse
import sys
from typing import Any

from .complaint import AGENT_FAILED, complain


def add_to(commands: Any) -> None:
    run = commands.add_parser("run", help="run one turn of an agent and print it")
    run.add_argument("--agent", metavar="CMD", help="the command that starts the agent (default: the echo agent)")
    run.add_argument("--cwd", default=".", metavar="DIR", help="the directory to work in (default: this one)")
    run.add_argument("prompt", metavar="PROMPT", help="what to say to the agent; - reads it from stdin")
    run.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    import asyncio
    from pathlib import Path

    from ..errors import Error
    from ..ui import headless

    if not Path(arguments.cwd).is_dir():
        return complain(f"--cwd: there is no directory {arguments.cwd!r}")
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    if not prompt.strip():
        return complain("the prompt is empty; say something to the agent")
    agent = arguments.agent or [sys.executable, "-m", "dragoman", "agent", "echo"]
    try:
        return asyncio.run(headless.run(agent, prompt, cwd=arguments.cwd))
    except Error as exc:
        return complain(str(exc), AGENT_FAILED)
