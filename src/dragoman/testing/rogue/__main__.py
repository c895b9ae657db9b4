"""Runs a rogue agent over stdin and stdout, or lists its behaviours."""

import sys

from .agent import Rogue
from .lines import BadJson, CarriageReturns, Deaf, Dribble, LongLine, SendsNoise
from .messages import (
    DuplicateResponses,
    EchoVersion,
    LateUpdates,
    MangledAnswers,
    NullResults,
    OrphanUpdate,
    OtherVersion,
    RefuseVersion,
    SendsBatches,
    SendsEarlyUpdates,
    StrayResponses,
    StringIds,
    UnknownMethods,
    UnknownStopReason,
    WrongResult,
)
from .processes import ClosedStdout, CrashAtByte, Forking, Immortal, LoudStderr, Mute, NeverAnswers, Stillborn

BEHAVIOURS: dict[str, type[Rogue]] = {
    "none": Rogue,
    "early-updates": SendsEarlyUpdates,
    "late-updates": LateUpdates,
    "orphan-update": OrphanUpdate,
    "duplicate-responses": DuplicateResponses,
    "stray-responses": StrayResponses,
    "string-ids": StringIds,
    "null-results": NullResults,
    "unknown-methods": UnknownMethods,
    "batches": SendsBatches,
    "unknown-stop-reason": UnknownStopReason,
    "wrong-result": WrongResult,
    "mangled-answers": MangledAnswers,
    "long-line": LongLine,
    "noise": SendsNoise,
    "bad-json": BadJson,
    "deaf": Deaf,
    "carriage-returns": CarriageReturns,
    "dribble": Dribble,
    "echo-version": EchoVersion,
    "other-version": OtherVersion,
    "refuse-version": RefuseVersion,
    "immortal": Immortal,
    "forking": Forking,
    "stillborn": Stillborn,
    "mute": Mute,
    "silent": NeverAnswers,
    "loud-stderr": LoudStderr,
    "closed-stdout": ClosedStdout,
    "crash-at-byte": CrashAtByte,
}


def main(argv: list[str]) -> int:
    if argv == ["--list"]:
        width = max(map(len, BEHAVIOURS))
        sys.stdout.writelines(f"{name:{width}}  {rogue.__doc__}\n" for name, rogue in BEHAVIOURS.items())
        return 0
    if not argv or argv[0] not in BEHAVIOURS:
        sys.stderr.write("usage: python -m dragoman.testing.rogue BEHAVIOUR [NUMBER] | --list\n")
        return 64
    BEHAVIOURS[argv[0]](int(argv[1]) if argv[1:] else 0).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
