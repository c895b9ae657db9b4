"""The state of a file that a change requires.

A request requires something (`expectedSha256`, `overwrite`), and a question shows something (a diff, "a new file").
Both are one value, a `Condition`.  It travels from the request through the question to the commit, and is written
down in the journal.  `exchanging` checks it, at the one moment when nobody else can get at the file any more.
"""

import os
import re
from typing import Final, Literal

import msgspec
from msgspec import Struct

from ..errors import FileRefused
from ..reading import digest_of, read_chunks


class Condition(Struct, frozen=True, omit_defaults=True):
    """The required state of a name before a change; by default any.  None is "not said", never "no file"."""

    digest: str | None = None  # the SHA-256 of the file that must be there
    modified: int | None = None  # when that file was last changed, in ns
    is_absent: bool = False  # no file may be there
    refusal: Literal["changed", "exists"] = "changed"  # how a file that may not be there is refused

    @property
    def needs_file(self) -> bool:
        return self.digest is not None or self.modified is not None

    def shown(self, digest: str | None) -> "Condition":
        """The same, narrowed to the state that a user was shown: a file with this digest, or None for no file."""
        if digest is None:
            self.check(None)
            return msgspec.structs.replace(self, is_absent=True)
        if self.is_absent:
            raise FileRefused(self.refusal)
        if self.digest not in (None, digest):
            raise FileRefused("changed")
        return msgspec.structs.replace(self, digest=digest)

    def check(self, file: int | None) -> None:
        """Refuse an open file, or None for no file, that is not as it must be."""
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
    """The condition of a request; an `expected` that is no SHA-256, also an empty text, is refused."""
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
    if condition.needs_file:  # it must be there, and must not be replaced
        raise FileRefused("exists")
    return Condition(is_absent=True, refusal="exists")


def checked_digest(digest: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
        raise FileRefused("bad_digest")
    return digest.lower()
