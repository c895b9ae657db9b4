"""The directories for each principal's sessions, opened beneath the one that `--workspace` names."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec
from msgspec import Raw, Struct

from ...errors import Error, InternalError, InvalidParams
from ...foundation.places import LOOKING, Place, components, name_of, open_place, path_of
from ...host.files.errors import FileRefused
from ...host.files.paths import checked_name, open_beneath

PRINCIPAL = "{principal}"
FORBIDDEN = ("/", "\\", "\0")  # characters of a principal's name that becomes a directory


class Workspaces:
    """All principals' directories; `pattern` is a path in which `{principal}` stands for the principal's name.

    `hold` opens the directory above the first `{principal}`, through links; from then on its descriptor is used.
    Without a pattern, sessions may be anywhere.
    """

    def __init__(self, pattern: str | None) -> None:
        self.pattern = pattern
        names = components(pattern or "")
        count = next((at for at, name in enumerate(names) if PRINCIPAL in name), len(names))
        self._above = os.path.join("/" if (pattern or "").startswith("/") else ".", *names[:count])
        self._below = names[count:]
        self._top: Place | None = None

    @property
    def is_per_principal(self) -> bool:
        return bool(self._below)

    @property
    def real_pattern(self) -> str:
        """The pattern with its real beginning; valid while it is held."""
        assert self._top
        return "/".join((self._top.path.rstrip("/"), *self._below))

    @property
    def top(self) -> str:
        """The directory that contains all workspaces; valid while it is held."""
        assert self._top
        return self._top.path

    def hold(self) -> None:
        """Open the directory that contains all workspaces; it is created if each principal has its own."""
        if self.pattern is None or self._top:
            return
        try:
            if self.is_per_principal:
                os.makedirs(self._above, mode=0o700, exist_ok=True)
            self._top = open_place(self._above, os.O_DIRECTORY)
        except OSError as exc:
            raise Error(f"{self.pattern!r} cannot be a workspace: {exc.strerror}") from exc

    def close(self) -> None:
        if self._top:
            self._top.close()
            self._top = None

    def root(self, principal: str) -> Place:
        """A principal's own directory, created if missing, for the caller to close; raises InvalidParams."""
        if self._top is None:
            raise InternalError("there is no workspace")
        if not self._below:
            return self._top.again()
        if not _can_be_a_name(principal):
            raise InvalidParams("this principal can have no workspace")
        names = [name.replace(PRINCIPAL, principal) for name in self._below]
        try:
            fd = os.dup(self._top.fd)
            for name in names:
                fd = _entered(fd, name)
        except OSError as exc:
            raise InvalidParams(f"this principal can have no workspace: {exc.strerror}") from exc
        own = "/".join(("", *names))
        path = path_of(fd) or f"{self._top.path}{own}"
        return Place(fd, path, f"{self._top.named}{own}" if self._top.named else "")

    def open(self, principal: str, path: str, named: str = "") -> Place:
        """A directory in a principal's workspace, for the caller to close; raises InvalidParams.

        `named`: the path that its client uses.
        """
        if "\0" in path or not os.path.isabs(path):
            raise InvalidParams(f"not an absolute path: {path!r}")
        try:
            if self.pattern is None:
                return open_place(path, os.O_DIRECTORY)
            with self.root(principal) as root:
                return replace(_opened(root, path), named=name_of(named or path))
        except OSError as exc:
            raise InvalidParams(f"there is no directory {path!r}: {exc.strerror}") from exc

    def settle(self, found: dict[str, Raw], principal: str) -> str:
        """Check the directories of a new session; returns its cwd as the client named it.

        In `found`, they get their real paths, which are the same in an agent's sandbox.  Raises InvalidParams.
        """
        asked = directories_of(found)
        if self.pattern is None:
            for path in asked:
                if "\0" in path or not os.path.isabs(path):
                    raise InvalidParams(f"not an absolute path: {path!r}")
            return asked[0]
        real = []
        for path in asked:
            with self.open(principal, path) as place:
                real.append(checked_name(place.path))
        found["cwd"] = Raw(msgspec.json.encode(real[0]))
        if real[1:]:
            found["additionalDirectories"] = Raw(msgspec.json.encode(real[1:]))
        return asked[0]


class _Directories(Struct, rename="camel"):
    cwd: str
    additional_directories: Sequence[str] = ()


def directories_of(found: Mapping[str, Raw]) -> list[str]:
    """The directories of a session, its cwd first; raises InvalidParams."""
    try:
        asked = msgspec.json.decode(msgspec.json.encode(found), type=_Directories)
    except msgspec.DecodeError as exc:
        raise InvalidParams(str(exc)) from None
    return [asked.cwd, *asked.additional_directories]


def _opened(root: Place, path: str) -> Place:
    try:
        return open_beneath(root, path)
    except FileRefused as exc:
        if exc.kind == "bad_path":
            raise InvalidParams(f"this cannot be a path: {path!r}") from exc
        known = root.named or root.path
        raise InvalidParams(f"{path!r} is not in your workspace on this server, which is {known!r}") from exc


def _entered(parent: int, name: str) -> int:
    """Open a directory in another one, which is closed then; it is created if missing."""
    try:
        with suppress(FileExistsError):
            os.mkdir(name, mode=0o700, dir_fd=parent)
        return os.open(name, LOOKING | os.O_DIRECTORY, dir_fd=parent)
    finally:
        os.close(parent)


def _can_be_a_name(principal: str) -> bool:
    """Whether a principal's name can be a directory, so that two principals never share one."""
    try:
        principal.encode()  # a lone surrogate may stand for a byte of another principal's name
    except UnicodeEncodeError:
        return False
    return bool(principal) and not principal.startswith(".") and not any(sign in principal for sign in FORBIDDEN)
