"""The options of commands that talk to one agent: which agent, where, and what it may do without asking."""

import argparse

from .values import PRESETS


def add_agent_options(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add `--agent`, `--cwd` and `--permissions`; `purpose` completes "agent to"."""
    add = parser.add_argument
    told = (
        f"agent to {purpose} (see: dragoman agents list) (default: coder, or reviewer where that is not installed)"
    )
    add("--agent", metavar="NAME|CMD|URL", help=told)
    add("--cwd", default=".", metavar="DIR", help="directory to work in (default: the current one)")
    add(
        "--permissions",
        default="ask",
        choices=PRESETS,
        metavar="PRESET",
        help=f"operations that the agent may do without asking: {', '.join(PRESETS)} (default: ask)",
    )
