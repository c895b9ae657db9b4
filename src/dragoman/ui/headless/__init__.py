"""One turn without a window: on a plain terminal, in a pipe, or as JSON for a program.

What the agent says goes to stdout, everything else to stderr; with `json` every event goes to stdout, one per line.
The user is asked with one key where there is a terminal; where there is none, nobody can be asked, which means no.
"""

from .running import run
from .terms import RunOptions

__all__ = ["RunOptions", "run"]
