"""What the user has allowed before, kept in a file of the user's own: approvals, and rule files that are trusted.

An approval is bound to the fingerprint of one operation; anything that differs in its content, its words, its
variables or its directory is another operation.  Every process looks again when the file has changed, so what is
revoked in one is revoked in all.  A file that cannot be read, or that others can write to, approves nothing.
"""

import contextlib
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ...directories import state_directory
from ...errors import Error
from ..disk import lock, replace

log = logging.getLogger("dragoman")

Scope = Literal["once", "session", "workspace", "always"]
LIFETIME = 30 * 24 * 3600.0  # seconds an approval is remembered
MAX_APPROVALS = 10_000
MAX_FILE = 16 * 1024 * 1024


class ApprovalsError(Error):
    """The remembered approvals could not be changed."""


class Approval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation the user allowed for longer than once; times are seconds since 1970."""

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

    def covers(self, fingerprint: str, agent: str, workspace: str | None, now: float) -> bool:
        """Whether this allows an operation of an agent in a workspace now."""
        in_scope = self.scope == "always" or (self.scope == "workspace" and self.workspace == workspace != "")
        return in_scope and self.fingerprint == fingerprint and self.agent == agent and now < self.expires


class Trust(Struct, frozen=True):
    """A workspace's rule file the user trusts, as long as it has this digest."""

    path: str
    digest: str


class _Contents(Struct, frozen=True):
    version: Literal[1] = 1
    approvals: tuple[Approval, ...] = ()
    trusted: tuple[Trust, ...] = ()


_read = msgspec.json.Decoder(_Contents).decode


class ApprovalStore:
    """The file of remembered approvals; several processes may share it."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._known: tuple[tuple[int, ...], _Contents] = ((), _Contents())  # which file, and what it holds

    def approvals(self) -> tuple[Approval, ...]:
        """What is remembered and not over yet."""
        now = time.time()
        return tuple(approval for approval in self._current().approvals if now < approval.expires)

    def find(self, fingerprint: str, agent: str, workspace: str | None) -> Approval | None:
        """What allows an operation, if anything does."""
        now = time.time()
        found = (a for a in self._current().approvals if a.covers(fingerprint, agent, workspace, now))
        return next(found, None)

    def remember(self, approval: Approval) -> None:
        with self._changing() as contents:
            now = time.time()
            kept = [a for a in contents.approvals if now < a.expires][-MAX_APPROVALS + 1 :]
            self._replace(msgspec.structs.replace(contents, approvals=(*kept, approval)))

    def revoke(self, id: str | None = None) -> int:
        """Forget one approval, or all; gives how many there were."""
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
        return Trust(path, digest) in self._current().trusted

    def distrust(self, path: str) -> None:
        """Trust a workspace's rule file no longer."""
        with self._changing() as contents:
            others = tuple(trust for trust in contents.trusted if trust.path != path)
            self._replace(msgspec.structs.replace(contents, trusted=others))

    # The file

    def _current(self) -> _Contents:
        """What the file holds now; nothing when it cannot be trusted itself."""
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return _Contents()
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            seen = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode)
            known, contents = self._known
            if seen != known:
                contents = self._checked(status, file.read(MAX_FILE))
                self._known = (seen, contents)
        return contents

    def _checked(self, status: os.stat_result, data: bytes) -> _Contents:
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o022 or status.st_uid != os.geteuid():
            log.warning("%s is not a file that only its user can write to: it approves nothing", self.path)
            return _Contents()
        try:
            return _read(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
            log.warning("%s cannot be read, so it approves nothing: %s", self.path, exc)
            return _Contents()

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_Contents]:
        """What the file holds, while nobody else changes it."""
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
