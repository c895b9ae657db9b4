"""`dragoman agent NAME`: one of the agents that come along, on stdin and stdout."""

import argparse
from typing import Any


def add_to(commands: Any) -> None:
    agent = commands.add_parser("agent", help="serve one of the agents that come along over stdin and stdout")
    agent.add_argument("name", choices=["echo", "testy"], help="echo repeats prompts; testy obeys scripted ones")
    agent.set_defaults(command=_serve)


def _serve(arguments: argparse.Namespace) -> None:
    from ..agent import serve
    from ..testing import Echo, Testy

    serve({"echo": Echo, "testy": Testy}[arguments.name])
