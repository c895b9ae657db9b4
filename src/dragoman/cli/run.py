"""`dragoman run PROMPT`: runs and shows one turn of an agent."""

import argparse
import sys
from typing import TYPE_CHECKING

from .agent_options import add_agent_options
from .complaint import complain
from .hosting.token import HELP, headers_for
from .translate import add_dialect
from .values import Commands, hosts, mcp_server, seconds

if TYPE_CHECKING:
    from ..host.processes import Launch

EXITS = (
    "exit codes: 0 done, 2 the agent refused, 3 a limit was reached, 4 done but something was denied, "
    "5 the agent failed, 64 wrong usage, 74 the output cannot be written, 130 interrupted"
)


def add_to(commands: Commands) -> None:
    run = commands.add_parser("run", help="run one turn of an agent and show it", epilog=EXITS)
    add = run.add_argument
    add_agent_options(run, "run")
    add("--mode", help="session mode to work in, such as plan; the agent names its modes")
    add(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="set a session option; the agent names its options; may be repeated",
    )
    add("--file", action="append", default=[], metavar="FILE", help="file to attach to the prompt; may be repeated")
    told = "MCP server for the agent: a command that starts it, or its URL; may be repeated"
    add("--mcp", action="append", default=[], type=mcp_server, metavar="NAME=CMD|URL", help=told)
    add("--login", metavar="ID", help="authentication method to log in with first; the agent names its methods")
    add("--token-file", metavar="FILE", help=HELP)
    which = run.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="continue an earlier session")
    which.add_argument(
        "--continue", action="store_true", dest="latest", help="continue the latest session of this directory"
    )
    add("--timeout", type=seconds, metavar="SECONDS", help="cancel the turn after this time")
    add("--json", action="store_true", help="print every event as a line of JSON")
    told = "run commands in a sandbox, or refuse them where there is none; the agent itself runs outside"
    add("--sandbox", action="store_const", const="commands", help=told)
    told = "run the agent, and everything it starts, in a sandbox around --cwd"
    add("--sandbox=agent", action="store_const", const="agent", dest="sandbox", help=told)
    told = "further path that an agent in a sandbox may read; may be repeated"
    add("--visible", action="append", default=[], metavar="PATH", help=told)
    told = "hosts that an agent in a sandbox may connect to, through a proxy (default: none)"
    add("--network", type=hosts, default=(), metavar="HOST,...", help=told)
    add_dialect(run, "--dialect", "agent")
    add("prompt", metavar="PROMPT", help="prompt for the agent, as one argument; - reads it from stdin")
    run.set_defaults(command=_run)


def _run(arguments: argparse.Namespace) -> int:
    import asyncio
    import os
    from pathlib import Path

    from ..ui import headless

    try:
        cwd = os.path.abspath(arguments.cwd)
    except FileNotFoundError:
        return complain("the directory this was started in is gone; name another with --cwd")
    if not os.path.isdir(arguments.cwd):
        return complain(f"--cwd: there is no directory {arguments.cwd!r}")
    options = [option.partition("=") for option in arguments.set]
    if wrong := ["".join(parts) for parts in options if not (parts[0] and parts[1])]:
        return complain(f"--set wants OPTION=VALUE, not {wrong[0]!r}")
    if missing := [file for file in arguments.file if not os.path.isfile(file)]:
        return complain(f"--file: there is no file {missing[0]!r}")
    try:
        prompt = sys.stdin.buffer.read().decode() if arguments.prompt == "-" else arguments.prompt
        "".join([prompt, cwd, *arguments.file]).encode()
    except UnicodeError:
        return complain("the prompt, --cwd and --file have to be UTF-8 text, for the protocol has no other")
    if not prompt.strip():
        return complain("the prompt is empty; say something to the agent")
    if (arguments.visible or arguments.network) and arguments.sandbox != "agent":
        return complain("--visible and --network are for an agent in a sandbox: add --sandbox=agent")
    agent = chosen_agent(arguments)
    if isinstance(agent, str):
        return complain(agent)
    run_options = headless.RunOptions(
        agent=agent,
        prompt=prompt,
        cwd=cwd,
        preset=arguments.permissions,
        mode=arguments.mode,
        session_options=[(option, value) for option, _, value in options],
        files=[Path(file) for file in arguments.file],
        session=arguments.session,
        latest=arguments.latest,
        timeout=arguments.timeout,
        sandbox=arguments.sandbox,
        visible=arguments.visible,
        network=arguments.network,
        mcp_servers=arguments.mcp,
        login=arguments.login,
        dialect=arguments.agent_dialect,
        json=arguments.json,
        interactive=sys.stderr.isatty() and (sys.stdin.isatty() or arguments.prompt == "-"),
    )
    return asyncio.run(headless.run(run_options))


def chosen_agent(arguments: argparse.Namespace) -> "Launch | str":
    """The agent to run, with the headers for an agent at a URL, or an error as text."""
    from ..host.processes import find_agent

    agent = find_agent("coder" if arguments.agent is None else arguments.agent)
    if agent.lacks_extra and arguments.agent is None:
        sys.stderr.write(f"The coder is not installed, so the reviewer answers; to install it: {agent.install}\n")
        agent = find_agent("reviewer")
    elif agent.lacks_extra:
        return f"{agent.name} is not installed; to install it: {agent.install}"
    if arguments.token_file and not agent.url:
        return "--token-file is for an agent that is reached at a URL"
    return with_token(agent, arguments.token_file)


def with_token(agent: "Launch", file: str | None = None) -> "Launch":
    """The agent with the token for its URL, if it has a URL and no headers that say who the user is."""
    from msgspec.structs import replace

    if agent.url and not any(name.lower() == "authorization" for name in agent.headers):
        return replace(agent, headers={**agent.headers, **headers_for(agent.url, file)})
    return agent
