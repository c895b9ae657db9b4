"""`dragoman agent NAME`: one of the agents that come along, on stdin and stdout."""

import argparse
from importlib import import_module
from typing import Any

# Where each is, and what it does; only the one that is served is loaded.
AGENTS = {
    "reviewer": ("reviewer", "Reviewer", "reviews code by rules and linters, without a language model"),
    "echo": ("testing", "Echo", "repeats prompts"),
    "testy": ("testing", "Testy", "obeys scripted prompts"),
}


def add_to(commands: Any) -> None:
    agent = commands.add_parser("agent", help="serve one of the agents that come along over stdin and stdout")
    told = "; ".join(f"{name} {does}" for name, (_, _, does) in AGENTS.items())
    agent.add_argument("name", choices=list(AGENTS), help=told)
    agent.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> None:
    from ..agent import serve
    from ..store import durable

    part, name, _ = AGENTS[arguments.name]
    agent = getattr(import_module(f"dragoman.{part}"), name)
    serve(agent if part == "testing" else durable(agent))
