"""How a run ended, and what that is as an exit code."""

from msgspec import Struct

from ... import schema as s
from ...errors import Error

DONE, REFUSED, LIMIT, DENIED, FAILED, USAGE, INTERRUPTED = 0, 2, 3, 4, 5, 64, 130
STOPS = {"refusal": REFUSED, "max_tokens": LIMIT, "max_turn_requests": LIMIT, "cancelled": INTERRUPTED}


class RunOutcome(Struct):
    """How a run ended."""

    exit_code: int
    stop_reason: str | None = None  # None: the turn never ended
    usage: s.Usage | None = None
    denied: int = 0
    error: str | None = None


class WrongArgument(Error):
    """The command line asks for something this agent does not have."""


def outcome_of(response: s.PromptResponse, denied: int, *, stopped: bool = False) -> RunOutcome:
    """How a run ended whose turn did; some agents cancel a turn by themselves in which something was denied."""
    code = STOPS.get(response.stop_reason, DONE)
    if response.stop_reason == "cancelled" and denied and not stopped:
        code = DONE
    return RunOutcome(DENIED if code == DONE and denied else code, response.stop_reason, response.usage, denied)
