"""What has changed: asked of Git, or read from a diff."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ..errors import Error
from .commands import CommandError, Commands, program_named

# A repository is not trusted: none of its settings may have Git run something.
SETTINGS = (
    *("--no-pager", "--literal-pathspecs"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false"),
)
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--unified=0", "--relative")
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
_QUOTED = re.compile(rb"\\(?:([0-7]{3})|(.))")
_ESCAPES = {b"n": b"\n", b"t": b"\t"}


class Change(Struct, frozen=True):
    """The lines a diff adds to a file, and those it shows beside them."""

    path: str
    added: dict[int, str]
    shown: dict[int, str]


class NoRepository(Error):
    """Git cannot answer; the text says why, in one line."""


class Repository:
    """A directory under Git, which is asked and never told."""

    def __init__(self, commands: Commands, cwd: str) -> None:
        self._commands, self._cwd = commands, cwd

    async def files(self) -> list[str] | None:
        """Every file that is not ignored, relative to the directory; None where there is no repository."""
        try:
            listed = await self._ask("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        except NoRepository:
            return None
        return sorted({name for name in _names(listed) if name})

    async def staged(self) -> list[Change]:
        """What the next commit would add."""
        return list(read_diff(_text(await self._ask(*_DIFF, "--cached"))))

    async def changed(self, since: str = "HEAD") -> list[Change]:
        """What has changed since a commit, and every file Git does not know yet (no line named: all of them)."""
        try:
            diff = _text(await self._ask(*_DIFF, "--end-of-options", since, "--"))
        except NoRepository:
            if since != "HEAD":
                raise
            return await self.staged()  # there is no commit yet
        new = await self._ask("ls-files", "-z", "--others", "--exclude-standard")
        return [*read_diff(diff), *(Change(name, {}, {}) for name in _names(new) if name)]

    async def staged_text(self, path: str) -> bytes:
        """A file as the next commit has it."""
        return await self._ask("cat-file", "blob", f":./{path}")

    async def _ask(self, *words: str) -> bytes:
        git = program_named("git", self._cwd)
        if git is None:
            raise NoRepository("Git is not installed")
        try:
            result = await self._commands.run(
                [git, *SETTINGS, *words], cwd=self._cwd, env={"GIT_OPTIONAL_LOCKS": "0"}
            )
        except CommandError as exc:
            raise NoRepository(str(exc)) from exc
        if result.code:
            said = result.stderr.decode(errors="replace").strip().splitlines()
            raise NoRepository(said[-1] if said else f"git ended with status {result.code}")
        return result.stdout


def _names(listed: bytes) -> list[str]:
    return [name.decode(errors="surrogateescape") for name in listed.split(b"\0")]


def _text(diff: bytes) -> str:
    return diff.decode(errors="replace")


def looks_like_diff(text: str) -> bool:
    return bool(re.search(r"^(?:diff --git |--- \S.*\n\+\+\+ \S)", text, re.MULTILINE) and _HUNK.search(text))


def read_diff(text: str) -> Iterator[Change]:
    """The files a unified diff adds lines to."""
    path: str | None = None
    added: dict[int, str] = {}
    shown: dict[int, str] = {}
    number, left = 0, 0
    for line in text.split("\n"):
        if left > 0 and line[:1] in ("+", " ", ""):
            shown[number] = line[1:].removesuffix("\r")
            if line.startswith("+"):
                added[number] = shown[number]
            number, left = number + 1, left - 1
        elif line.startswith("+++ ") and left <= 0:
            if path and added:
                yield Change(path, added, shown)
            path, added, shown = _target(line[4:]), {}, {}
        elif found := _HUNK.match(line):
            number, left = int(found[1]), int(found[2] or 1)
    if path and added:
        yield Change(path, added, shown)


def _target(name: str) -> str | None:
    """The file a `+++` line names; None for one that is deleted."""
    name = name.split("\t")[0].rstrip()
    if name.startswith('"') and name.endswith('"'):
        name = _unquoted(name[1:-1])
    if name == "/dev/null":
        return None
    return name.removeprefix("b/")


def _unquoted(name: str) -> str:
    raw = _QUOTED.sub(
        lambda found: bytes([int(found[1], 8) & 0xFF]) if found[1] else _ESCAPES.get(found[2], found[2]),
        name.encode(errors="surrogateescape"),
    )
    return raw.decode(errors="surrogateescape")


def added_lines(change: Change) -> frozenset[int] | None:
    return frozenset(change.added) or None


def matches(change: Change, lines: Sequence[str]) -> bool:
    """Whether a file has all that a diff shows of it."""
    return all(0 < number <= len(lines) and lines[number - 1] == text for number, text in change.shown.items())


def as_fragment(change: Change) -> str:
    """A file of which only what the diff shows is known."""
    last = min(max(change.shown, default=0), 1_000_000)
    return "\n".join(change.shown.get(number, "") for number in range(1, last + 1))
