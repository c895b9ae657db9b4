"""One turn without a window: on a plain terminal, in a pipe, or as JSON for a program.

The agent's messages go to stdout, everything else to stderr; with `json`, every event goes to stdout, one per line.
At a terminal, the user answers questions with one key; without a terminal, every question is answered with no.
"""

from .running import run
from .terms import RunOptions

__all__ = ["RunOptions", "run"]
