"""`dragoman agent NAME`: a bundled agent, served over stdin and stdout."""

import argparse
from functools import partial
from importlib import import_module
from typing import Any

from .complaint import complain
from .translate import add_dialect
from .values import Commands, seconds, terminal_size

# The module and the description of each agent; only the served one is loaded.
AGENTS = {
    "coder": ("coder", "Coder", "writes code with any language model"),
    "claude": ("bridges.claude", "ClaudeAgent", "runs Claude with the program of claude-agent-sdk"),
    "reviewer": ("reviewer", "Reviewer", "reviews code by rules and linters, without a language model"),
    "pty": ("bridges.pty", "PtyAgent", "runs a program without ACP in a pseudo-terminal"),
    "echo": ("testing", "Echo", "repeats prompts"),
    "testy": ("testing", "Testy", "obeys scripted prompts"),
}

OF_PTY = ("program", "prompt", "silence", "size")


def add_to(commands: Commands) -> None:
    agent = commands.add_parser("agent", help="serve a bundled agent over stdin and stdout")
    told = "; ".join(f"{name} {does}" for name, (_, _, does) in AGENTS.items())
    agent.add_argument("name", choices=list(AGENTS), metavar="NAME", help=told)
    add_dialect(agent, "--dialect", "client")
    coder = agent.add_argument_group("for the coder")
    coder.add_argument("--model", metavar="PROVIDER:MODEL", help="model to use (default: the best available one)")
    told = "let it visit pages, each host with permission, and search the web where the provider can"
    coder.add_argument("--fetch", action="store_true", help=told)
    told = "use no language servers, not even with permission"
    coder.add_argument("--no-language-servers", action="store_true", help=told)
    coder.add_argument("--login", action="store_true", help="store a provider's key, then exit")
    claude = agent.add_argument_group("for claude")
    claude.add_argument("--hide-claude-auth", action="store_true", help="refuse logins with a Claude subscription")
    told = "let Claude use its own file and shell tools, also where the client lends files and terminals"
    claude.add_argument("--own-tools", action="store_true", help=told)
    told = "run the claude program itself with these arguments, to log in for example"
    claude.add_argument("--cli", nargs=argparse.REMAINDER, metavar="ARGUMENT", help=told)
    pty = agent.add_argument_group("for pty")
    told = "program and its arguments, after --"
    pty.add_argument("words", nargs="*", metavar="CMD", help=told)
    agent.set_defaults(after_dashes="words")
    told = "profile of the program (default: chosen by the name of CMD)"
    pty.add_argument("--program", metavar="NAME", help=told)
    told = "regular expression for the line up to the cursor when the program waits"
    pty.add_argument("--prompt", metavar="REGEX", help=told)
    told = (
        "seconds of silence that count as waiting for input (default: 2 for a program without a profile, else none)"
    )
    pty.add_argument("--silence", type=seconds, metavar="SECONDS", help=told)
    pty.add_argument("--size", type=terminal_size, metavar="COLUMNSxROWS", help="terminal size (default: 80x24)")
    testy = agent.add_argument_group("for testy")
    testy.add_argument("--exhibit", action="store_true", help="answer every prompt with one of each kind of update")
    agent.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    from ..agent.serving import serve
    from ..store import durable

    of_coder = (arguments.login, arguments.fetch, arguments.model is not None, arguments.no_language_servers)
    if arguments.name != "coder" and any(of_coder):
        told = "--model, --fetch, --no-language-servers and --login"
        return complain(f"{told} are for the coder, not for {arguments.name}")
    if arguments.exhibit and arguments.name != "testy":
        return complain(f"--exhibit is for testy, not for {arguments.name}")
    if arguments.name != "claude" and (
        arguments.hide_claude_auth or arguments.own_tools or arguments.cli is not None
    ):
        return complain(f"--hide-claude-auth, --own-tools and --cli are for claude, not for {arguments.name}")
    if arguments.cli is not None:
        from ..bridges.claude.program.command import become_claude

        become_claude(arguments.cli)
    if arguments.name == "pty":
        return _serve_pty(arguments)
    if arguments.words or any(getattr(arguments, name) is not None for name in OF_PTY):
        return complain(f"CMD, --{', --'.join(OF_PTY)} are for pty, not for {arguments.name}")
    if arguments.login:
        from ..coder.model.login import enter_in_terminal

        return enter_in_terminal()
    if arguments.model is not None:
        from ..coder.model.choice import why_unknown

        if why := why_unknown(arguments.model):
            return complain(f"--model: {why}")
    part, name, _ = AGENTS[arguments.name]
    name = "Exhibition" if arguments.exhibit else name
    agent: Any = getattr(import_module(f"dragoman.{part}"), name)
    keeps_sessions = part in ("coder", "reviewer")  # Claude stores its own sessions, and the others have none
    app: Any = durable(agent) if keeps_sessions else agent
    if part == "coder":
        has_servers = not arguments.no_language_servers
        app = partial(app, model=arguments.model, fetch=arguments.fetch, language_servers=has_servers)
    if part == "bridges.claude":
        app = partial(app, hide_subscription=arguments.hide_claude_auth, lent=not arguments.own_tools)
    serve(app, dialect=arguments.client_dialect)
    return 0


def _serve_pty(arguments: argparse.Namespace) -> int:
    if not arguments.words:
        return complain("which program? Write it after --, such as: dragoman agent pty -- bash")
    from ..agent.serving import serve
    from ..bridges.pty import PtyAgent, PtyOptions
    from ..host.terminals import Size

    given = {name: value for name in OF_PTY if (value := getattr(arguments, name)) is not None}
    size = Size(*given.pop("size", (80, 24)))
    options = PtyOptions(command=arguments.words, size=size, **given)
    options.profile()  # so an error is reported before a client connects
    serve(partial(PtyAgent, options=options), dialect=arguments.client_dialect)
    return 0
