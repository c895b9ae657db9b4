"""`dragoman agent NAME`: a bundled agent, served over stdin and stdout."""

import argparse
from functools import partial
from importlib import import_module
from typing import Any

from .complaint import complain
from .translate import add_dialect
from .values import Commands

# Where each is, and what it does; only the one that is served is loaded.
AGENTS = {
    "coder": ("coder", "Coder", "writes code with any language model"),
    "reviewer": ("reviewer", "Reviewer", "reviews code by rules and linters, without a language model"),
    "echo": ("testing", "Echo", "repeats prompts"),
    "testy": ("testing", "Testy", "obeys scripted prompts"),
}


def add_to(commands: Commands) -> None:
    agent = commands.add_parser("agent", help="serve a bundled agent over stdin and stdout")
    told = "; ".join(f"{name} {does}" for name, (_, _, does) in AGENTS.items())
    agent.add_argument("name", choices=list(AGENTS), metavar="NAME", help=told)
    add_dialect(agent, "--dialect", "client")
    coder = agent.add_argument_group("for the coder")
    coder.add_argument("--model", metavar="PROVIDER:MODEL", help="model to use (default: the best available one)")
    told = "let it visit pages, each host with permission, and search the web where the provider can"
    coder.add_argument("--fetch", action="store_true", help=told)
    coder.add_argument("--login", action="store_true", help="store a provider's key, then exit")
    testy = agent.add_argument_group("for testy")
    testy.add_argument("--exhibit", action="store_true", help="answer every prompt with one of each kind of update")
    agent.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> int:
    from ..agent.serving import serve
    from ..store import durable

    if arguments.name != "coder" and (arguments.login or arguments.fetch or arguments.model is not None):
        return complain(f"--model, --fetch and --login are for the coder, not for {arguments.name}")
    if arguments.exhibit and arguments.name != "testy":
        return complain(f"--exhibit is for testy, not for {arguments.name}")
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
    app: Any = agent if part == "testing" else durable(agent)
    app = partial(app, model=arguments.model, fetch=arguments.fetch) if part == "coder" else app
    serve(app, dialect=arguments.client_dialect)
    return 0
