"""The state of a file that a change requires.

A request requires something (`expectedSha256`, `overwrite`), and a question shows something (a diff, "a new file").
One value, a `Condition`, holds both.  It goes from the request through the question to the commit, and is stored in
the journal.  `exchanging` checks it at the one moment when nobody else can reach the file any more.
"""

import os
import re
from typing import Final, Literal

import msgspec
from msgspec import Struct

from ..errors import FileRefused
from ..reading import digest_of, read_chunks


class Condition(Struct, frozen=True, omit_defaults=True):
    """The required state of a name before a change; by default any.  None means unspecified, never "no file"."""

    digest: str | None = None  # the SHA-256 of the file that must be there
    modified: int | None = None  # when that file was last changed, in ns
    is_absent: bool = False  # no file may be there
    refusal: Literal["changed", "exists"] = "changed"  # the error for a file that must not exist

    @property
    def needs_file(self) -> bool:
        return self.digest is not None or self.modified is not None

    def shown(self, digest: str | None) -> "Condition":
        """This condition, narrowed to the state that the user saw: a file with this digest, or None for no file."""
        if digest is None:
            self.check(None)
            return msgspec.structs.replace(self, is_absent=True)
        if self.is_absent:
            raise FileRefused(self.refusal)
        if self.digest not in (None, digest):
            raise FileRefused("changed")
        return msgspec.structs.replace(self, digest=digest)

    def check(self, file: int | None) -> None:
        """Refuse an open file (None: no file) that does not fulfil the condition."""
        if file is None:
            if self.needs_file:
                raise FileRefused("changed")
            return
        if self.is_absent:
            raise FileRefused(self.refusal)
        if self.modified is not None and os.fstat(file).st_mtime_ns != self.modified:
            raise FileRefused("changed")
        if self.digest is not None and digest_of(read_chunks(file)) != self.digest:
            raise FileRefused("changed")


ANYTHING: Final = Condition()

Expected = str | int | None | Condition  # a SHA-256, a time of change in ns, None for "no file"; or all of it


def required(expected: Expected = ANYTHING, *, overwrite: bool = True) -> Condition:
    """The condition of a request; refuses an `expected` that is not a SHA-256, even an empty text."""
    match expected:
        case None:
            return Condition(is_absent=True)
        case str():
            condition = Condition(digest=checked_digest(expected))
        case int():
            condition = Condition(modified=expected)
        case _:
            condition = expected
    if overwrite or condition.is_absent:
        return condition
    if condition.needs_file:  # it must exist, and must not be replaced
        raise FileRefused("exists")
    return Condition(is_absent=True, refusal="exists")


def checked_digest(digest: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
        raise FileRefused("bad_digest")
    return digest.lower()
