"""The user's stored decisions, in a file of the user's own: approvals, and trusted rule files.

An approval is bound to the fingerprint of one operation; with another content, words, variables or directory it is
another operation.  Every process rereads the file when it has changed, so a revocation in one process holds in all.
A file that cannot be read, or that others can write to, approves nothing and is never overwritten: it stays as it
is until the user repairs or moves it.
"""

import contextlib
import errno
import logging
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ...errors import Error
from ...foundation.directories import state_directory
from ..disk import content, lock, opened, replace

log = logging.getLogger("dragoman")

Scope = Literal["once", "session", "workspace", "always"]
LIFETIME = 30 * 24 * 3600.0  # seconds an approval is remembered
MAX_APPROVALS = 10_000
SKEW = 3600.0  # seconds by which clocks may differ
MAX_FILE = 16 * 1024 * 1024


class ApprovalsError(Error):
    """The remembered approvals could not be changed."""


class Approval(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An operation that the user allowed for longer than once; times are seconds since 1970."""

    id: str
    fingerprint: str
    operation: str
    subject: str
    scope: Scope
    agent: str = ""
    workspace: str = ""
    session: str = ""
    created: float = 0.0
    expires: float = 0.0

    def covers(self, asked: "ApprovalQuery", now: float) -> bool:
        """Whether this allows the current operation."""
        match self.scope:
            case "always":
                in_scope = True
            case "workspace":
                in_scope = self.workspace == asked.workspace != ""
            case "session":
                in_scope = self.session == asked.session != ""
            case _:
                in_scope = False
        is_this = self.fingerprint == asked.fingerprint and self.agent == asked.agent
        return in_scope and is_this and self.holds(now)

    def holds(self, now: float) -> bool:
        """Whether it is valid at this time.

        An approval from the future was made while the clock was wrong, or the clock is wrong now: it is not valid.
        """
        return self.created - SKEW <= now < self.expires


class ApprovalQuery(Struct, frozen=True):
    """A search for an approval: an operation of an agent, in a workspace and a session."""

    fingerprint: str
    agent: str
    workspace: str | None
    session: str = ""

    def among(self, approvals: Iterable[Approval]) -> Approval | None:
        """The first approval that now covers the operation."""
        now = time.time()
        return next((each for each in approvals if each.covers(self, now)), None)


class Trust(Struct, frozen=True, forbid_unknown_fields=True):
    """A workspace's rule file the user trusts, as long as it has this digest."""

    path: str
    digest: str


class _Contents(Struct, frozen=True, forbid_unknown_fields=True):
    """Refuse unknown fields: one may restrict the approval, and it would be lost when the file is written."""

    version: Literal[1]
    approvals: tuple[Approval, ...] = ()
    trusted: tuple[Trust, ...] = ()


_NOTHING = _Contents(version=1)
_read = msgspec.json.Decoder(_Contents).decode


class ApprovalStore:
    """The file of remembered approvals; several processes may share it."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._complaint = ""  # the last warning about an unreadable file
        self._known: tuple[tuple[int, ...], _Contents] = ((), _NOTHING)  # the file's identity, and its content

    def approvals(self) -> tuple[Approval, ...]:
        """The stored approvals that have not expired."""
        now = time.time()
        return tuple(approval for approval in self._trusted().approvals if approval.holds(now))

    def find(self, fingerprint: str, agent: str, workspace: str | None) -> Approval | None:
        """The approval that allows an operation, if there is one."""
        return ApprovalQuery(fingerprint, agent, workspace).among(self._trusted().approvals)

    def remember(self, approval: Approval) -> None:
        """Store an approval; expired ones are dropped."""
        with self._changing() as contents:
            now = time.time()
            kept = [a for a in contents.approvals if now < a.expires][-MAX_APPROVALS + 1 :]
            self._replace(msgspec.structs.replace(contents, approvals=(*kept, approval)))

    def revoke(self, id: str | None = None) -> int:
        """Remove one approval or all; returns how many there were."""
        with self._changing() as contents:
            kept = tuple(a for a in contents.approvals if id is not None and a.id != id)
            self._replace(msgspec.structs.replace(contents, approvals=kept))
            return len(contents.approvals) - len(kept)

    def trust(self, path: str, digest: str) -> None:
        """Trust a workspace's rule file as it is now; a changed one is not trusted."""
        with self._changing() as contents:
            others = tuple(trust for trust in contents.trusted if trust.path != path)
            self._replace(msgspec.structs.replace(contents, trusted=(*others, Trust(path, digest))))

    def trusts(self, path: str, digest: str) -> bool:
        """Whether the user trusts a workspace's rule file with exactly this content."""
        return Trust(path, digest) in self._trusted().trusted

    def revoke_trust(self, path: str) -> None:
        """Stop trusting a workspace's rule file."""
        with self._changing() as contents:
            others = tuple(trust for trust in contents.trusted if trust.path != path)
            self._replace(msgspec.structs.replace(contents, trusted=others))

    # The file

    def _trusted(self) -> _Contents:
        """The file's current approvals; none if it cannot be read."""
        try:
            return self._current()
        except ApprovalsError as exc:
            if str(exc) != self._complaint:
                log.warning("%s; it approves nothing until then", exc)
            self._complaint = str(exc)
            return _NOTHING

    def _current(self) -> _Contents:
        """The file's current content; raises ApprovalsError if it exists and cannot be read."""
        try:
            with opened(self.path) as (fd, status):
                seen = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode)
                known, contents = self._known
                if seen != known:
                    contents = self._checked(status, fd)
                    self._known = (seen, contents)
            return contents
        except (FileNotFoundError, NotADirectoryError):
            return _NOTHING
        except OSError as exc:
            why = "it is a symbolic link" if exc.errno == errno.ELOOP else str(exc.strerror)
            raise self._unreadable(why) from None

    def _checked(self, status: os.stat_result, fd: int) -> _Contents:
        if not stat.S_ISREG(status.st_mode):
            raise self._unreadable("it is not a plain file")
        if status.st_uid != os.geteuid():
            raise self._unreadable("it belongs to another user")
        if status.st_mode & 0o022:
            raise self._unreadable("others can write to it (chmod go-w helps, once you have looked at it)")
        if status.st_size > MAX_FILE:
            raise self._unreadable(f"it is larger than {MAX_FILE // 2**20} MiB")
        try:
            return _read(content(fd, MAX_FILE))
        except (ValueError, RecursionError) as exc:  # msgspec's errors and decoding errors are ValueErrors
            raise self._unreadable(str(exc)) from None

    def _unreadable(self, why: str) -> ApprovalsError:
        return ApprovalsError(f"{self.path} cannot be read: {why}. Mend it, or move it away to begin anew")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_Contents]:
        """The file's content, locked against changes by others."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            turn = self.path.with_name(f"{self.path.name}.lock")
            fd = os.open(turn, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
            try:
                if not lock(fd):
                    raise ApprovalsError(f"another process holds {self.path}")
                yield self._current()
            finally:
                os.close(fd)
        except OSError as exc:
            raise ApprovalsError(f"{self.path} cannot be written: {exc.strerror or exc}") from exc

    def _replace(self, contents: _Contents) -> None:
        replace(self.path, msgspec.json.format(msgspec.json.encode(contents), indent=1))


def default_path() -> Path:
    """Where approvals are kept."""
    return state_directory() / "approvals.json"
