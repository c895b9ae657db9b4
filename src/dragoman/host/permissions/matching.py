"""Whether a rule is about an operation: how paths, commands and addresses are compared with what it says.

Nothing here takes more than linear time in either side, for neither a workspace's patterns nor an agent's paths are
ours.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ..addresses import Origin, origin
from ..operations import Execute, FileOperation, McpTool, NetworkAccess, Operation
from .launchers import is_launcher, is_risky_option, program
from .protected import folded

Effect = Literal["allow", "ask", "deny"]


def name_fits(glob: str, name: str) -> bool:
    """Whether a name fits a pattern, in which `*` is any number of characters and `?` is one."""
    at = star = -1
    i = j = 0
    while j < len(name):
        if i < len(glob) and glob[i] == "*":
            star, at = i, j
            i += 1
        elif i < len(glob) and glob[i] in ("?", name[j]):
            i, j = i + 1, j + 1
        elif star >= 0:
            at += 1
            i, j = star + 1, at
        else:
            return False
    return all(char == "*" for char in glob[i:])


def path_fits(glob: str, path: str) -> bool:
    """Whether a path fits a pattern, part by part; `**` is any number of parts, none as well."""
    globs = [part for part in glob.split("/") if part]
    reached = _past_stars({0}, globs)
    for part in path.split("/"):
        if part:
            stays = {i for i in reached if i < len(globs) and globs[i] == "**"}
            steps = {i + 1 for i in reached - stays if i < len(globs) and name_fits(globs[i], part)}
            reached = _past_stars(stays | steps, globs)
    return len(globs) in reached


def _past_stars(reached: set[int], globs: Sequence[str]) -> set[int]:
    for i, glob in enumerate(globs):
        if i in reached and glob == "**":
            reached = reached | {i + 1}
    return reached


def is_in(path: str, root: str) -> bool:
    """Whether a path is a directory or lies in it; both are real and absolute."""
    root = root.rstrip("/")
    return path == root or path.startswith(root + "/")


class Place(Struct, frozen=True):
    """What an operation is judged against besides itself: real paths, and when."""

    workspace: str | None = None
    agent: str = ""
    now: float = 0.0


class Rule(Struct, frozen=True, kw_only=True):
    """One rule; what it leaves out it does not care about."""

    effect: Effect
    operations: tuple[str, ...]
    where: str
    paths: tuple[str, ...] = ()
    argv: tuple[str, ...] | None = None
    is_open: bool = False  # any further arguments
    shell: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] = {}
    hosts: tuple[Origin, ...] = ()
    server: str | None = None
    tools: tuple[str, ...] = ()
    agent: str | None = None
    expires: float | None = None
    reason: str = ""

    def matches(self, operation: Operation, place: Place) -> bool:
        """Whether this rule is about this operation, for certain."""
        if operation.kind not in self.operations or not self._holds(place):
            return False
        match operation:
            case FileOperation():
                return not self.paths or any(self._fits_path(glob, operation.path, place) for glob in self.paths)
            case Execute():
                return self._fits_command(operation, place)
            case NetworkAccess():
                found = origin(operation.url)
                return not self.hosts or (found is not None and any(map(found.fits, self.hosts)))
            case McpTool():
                fits = not self.tools or any(name_fits(tool, operation.tool) for tool in self.tools)
                return fits and self.server in (None, operation.server)

    def may_match(self, operation: Operation, place: Place) -> bool:
        """Whether this rule may be about what an operation hides: a shell's command, an address nobody can read."""
        if operation.kind not in self.operations or not self._holds(place):
            return False
        match operation:
            case Execute() if self.argv and (operation.shell or is_launcher(operation.argv)):
                word = rf"(?<![a-z0-9]){re.escape(program(self.argv[0]))}(?![a-z0-9])"
                return re.search(word, " ".join(operation.argv).casefold()) is not None
            case NetworkAccess():
                return bool(self.hosts) and origin(operation.url) is None
            case _:
                return False

    def _holds(self, place: Place) -> bool:
        in_time = self.expires is None or place.now < self.expires
        return in_time and self.agent in (None, place.agent)

    def _fits_path(self, glob: str, path: str, place: Place) -> bool:
        root = place.workspace
        if self.effect != "allow":
            # A ban on a directory holds for all that is in it, and one on a name outside the workspace, too.
            below = "" if glob == "." else "/**"
            anywhere = "/" if glob.startswith("**/") else ""
            glob, path, root = folded(f"{anywhere}{glob}{below}"), folded(path), root and folded(root)
        if glob.startswith("/"):
            return path_fits(glob, path)
        if root is None or not is_in(path, root):
            return False
        inside = path[len(root.rstrip("/")) :]
        return inside == "" if glob == "." else path_fits(glob, inside)

    def _fits_command(self, operation: Execute, place: Place) -> bool:
        if self.cwd is not None and not self._fits_path(self.cwd, operation.cwd, place):
            return False
        if self.effect == "allow":
            if self.cwd is None and not (place.workspace and is_in(operation.cwd, place.workspace)):
                return False
            if any(self.env.get(name) != value for name, value in operation.env):
                return False
        if self.shell is not None:
            return operation.shell and operation.argv[-1] == self.shell
        if self.argv is None:
            return True
        if self.effect == "allow" and operation.shell:
            return False
        return self._fits_argv(operation.argv)

    def _fits_argv(self, argv: Sequence[str]) -> bool:
        assert self.argv is not None
        fixed, rest = argv[: len(self.argv)], argv[len(self.argv) :]
        if self.effect == "allow":
            open_end = self.is_open and not any(is_risky_option(argv[0], word) for word in rest)
            return tuple(fixed) == self.argv and (not rest or open_end)
        same_program = bool(fixed) and (fixed[0] == self.argv[0] or program(fixed[0]) == program(self.argv[0]))
        return same_program and tuple(fixed[1:]) == self.argv[1:] and (not rest or self.is_open)
