"""Whether a rule concerns an operation: compares paths, commands and addresses with it."""

import functools
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from ...addresses import Origin, origin
from ...operations import Execute, FileOperation, McpTool, NetworkAccess, Operation
from ...protected import folded
from ...variables import is_harmless
from .bans import ReadCommand, folded_name, host_might_fit, loosely, program_fits, word_fits
from .patterns import Budget, name_fits, path_fits, text_fits
from .programs import covers

Effect = Literal["allow", "ask", "deny"]
Relevance = Literal["is", "may be"]  # about an operation


def is_in(path: str, root: str) -> bool:
    """Whether a path is a directory or lies in it; both are real and absolute."""
    root = root.rstrip("/")
    return path == root or path.startswith(root + "/")


class Circumstances(Struct, frozen=True):
    """The circumstances of an operation that rules depend on: real paths, agent and time."""

    workspace: str | None = None
    agent: str = ""
    now: float = 0.0


class ParsedOperation:
    """An operation parsed for comparison: each part is parsed once for all rules."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.budget = Budget()

    @functools.cached_property
    def command(self) -> ReadCommand:
        assert isinstance(self.operation, Execute)
        return ReadCommand(self.operation, self.budget)

    @functools.cached_property
    def origin(self) -> Origin | None:
        assert isinstance(self.operation, NetworkAccess)
        return origin(self.operation.url)


class Rule(Struct, frozen=True, kw_only=True):
    """One rule; a missing condition matches everything."""

    effect: Effect
    operations: tuple[str, ...]
    where: str
    paths: tuple[str, ...] = ()
    argv: tuple[str, ...] | None = None
    is_open: bool = False  # allows any further arguments
    shell: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] = {}
    hosts: tuple[Origin, ...] = ()
    server: str | None = None
    tools: tuple[str, ...] = ()
    agent: str | None = None
    expires: float | None = None
    reason: str = ""

    @property
    def is_ban(self) -> bool:
        return self.effect != "allow"

    def relevance(self, seen: ParsedOperation, place: Circumstances) -> "Relevance | None":
        """Whether this rule concerns an operation ("is"), or may concern it ("may be", bans only).

        A ban may concern an operation that is spelled in another way or hides its effect, an operation of an agent
        with an unknown name, and one that took too long to compare.
        """
        in_time = self.expires is None or place.now < self.expires
        if not in_time or seen.operation.kind not in self.operations:
            return None
        if not self.is_ban:
            is_about = self.agent in (None, place.agent) and self._is_about(seen, place)
            return "is" if is_about and not seen.budget.is_spent else None
        if self.agent is not None and place.agent and folded(self.agent) != folded(place.agent):
            return None
        if self._is_about(seen, place) and not seen.budget.is_spent:
            return "is" if self.agent is None or place.agent else "may be"
        return "may be" if self._may_be_about(seen, place) or seen.budget.is_spent else None

    def _is_about(self, seen: ParsedOperation, place: Circumstances) -> bool:
        match seen.operation:
            case FileOperation(path=path):
                return not self.paths or self._fits_some_path(seen, self.paths, path, place)
            case Execute():
                return self._fits_command(seen, seen.operation, place)
            case NetworkAccess():
                return not self.hosts or (seen.origin is not None and any(map(seen.origin.fits, self.hosts)))
            case McpTool(server=server, tool=tool):
                names = [*(self.tools or ("*",))]
                return self._fits_server(server) and any(self._fits_name(name, tool) for name in names)

    def _may_be_about(self, seen: ParsedOperation, place: Circumstances) -> bool:
        match seen.operation:
            case FileOperation(path=path):
                # A relative path is relative to the workspace; without one, its base is unknown.
                outside = place.workspace is None or not is_in(folded(path), folded(place.workspace))
                anywhere = [f"**/{glob}" for glob in self.paths if not glob.startswith("/")]
                return outside and self._fits_some_path(seen, anywhere, path, place)
            case Execute():
                if self.cwd and not seen.command.hides and not self._fits_path(self.cwd, seen.operation.cwd, place):
                    return False
                if self.shell is not None:
                    return seen.command.might_read(self.shell)
                return self.argv is not None and seen.command.might_be(self.argv)
            case NetworkAccess():
                found = seen.origin
                return bool(self.hosts) and (
                    found is None or any(host_might_fit(host, found) for host in self.hosts)
                )
            case McpTool(server=server, tool=tool):
                is_server = self.server is None or name_fits(loosely(self.server), loosely(server))
                tools = self.tools or ("*",)
                return is_server and any(name_fits(loosely(each), loosely(tool)) for each in tools)

    # Paths

    def _fits_some_path(self, seen: ParsedOperation, globs: Sequence[str], path: str, place: Circumstances) -> bool:
        return any(self._fits_path(glob, path, place, seen.budget) for glob in globs)

    def _fits_path(self, glob: str, path: str, place: Circumstances, budget: Budget | None = None) -> bool:
        root = place.workspace
        if self.is_ban:
            # A ban on a directory also holds for everything in it, and a ban on a name also outside the workspace.
            below = "" if glob == "." else "/**"
            anywhere = "/" if glob.startswith("**/") else ""
            glob, path, root = folded(f"{anywhere}{glob}{below}"), folded(path), root and folded(root)
        if not glob.startswith("/"):
            if root is None or not is_in(path, root):
                return False
            path = path[len(root.rstrip("/")) :]
            if glob == ".":
                return path == ""
        if path_fits(glob, path, budget=budget):
            return True
        return self.is_ban and "[" in glob and path_fits(glob, path, classes=True, budget=budget)

    # Commands

    def _fits_command(self, seen: ParsedOperation, operation: Execute, place: Circumstances) -> bool:
        if self.cwd is not None and not self._fits_path(self.cwd, operation.cwd, place):
            return False
        if not self.is_ban:
            if self.cwd is None and not (place.workspace and is_in(operation.cwd, place.workspace)):
                return False
            if any(self.env.get(name) != value and not is_harmless(name, value) for name, value in operation.env):
                return False
        if self.shell is not None:
            return operation.shell and self._fits_text(seen, operation.argv[-1])
        if self.argv is None:
            return True
        if not self.is_ban and operation.shell:
            return False
        return self._fits_argv(operation.argv)

    def _fits_text(self, seen: ParsedOperation, text: str) -> bool:
        assert self.shell is not None
        if not self.is_ban:
            return text == self.shell
        found = seen.command.shell_text
        return found is not None and text_fits(" ".join(folded(self.shell).split()), found)

    def _fits_argv(self, argv: Sequence[str]) -> bool:
        assert self.argv is not None
        size = len(self.argv)
        has_more = len(argv) > size
        if len(argv) < size or (has_more and not self.is_open):
            return False
        if not self.is_ban:
            return tuple(argv[:size]) == self.argv and (not has_more or covers(argv, size))
        same = all(map(word_fits, self.argv[1:], argv[1:size]))
        return same and program_fits(self.argv[0], argv[0])

    # Tools of MCP servers

    def _fits_server(self, server: str) -> bool:
        return (
            self.server is None or self.server == server or (self.is_ban and self._fits_name(self.server, server))
        )

    def _fits_name(self, wanted: str, name: str) -> bool:
        if name_fits(wanted, name):
            return True
        return self.is_ban and name_fits(folded_name(wanted), folded_name(name), classes=True)
